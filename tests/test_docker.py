"""The Dockerfile: a linter finds nothing, and what it copies is enough to install. Podman runs its steps."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

LINES = (ROOT / "Dockerfile").read_text().splitlines()
COPIED = [name for line in LINES if line.startswith("COPY ") for name in line.split()[1:-1]]


def test_the_linter_finds_nothing():
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_that_is_copied_is_there_and_sent_to_docker():
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert COPIED and sent == set(COPIED) and all((ROOT / name).exists() for name in COPIED)


def test_it_does_not_run_as_root_and_has_fixed_versions():
    assert any(line.startswith("USER ") and line != "USER root" for line in LINES)
    (base,) = (line.split()[1] for line in LINES if line.startswith("FROM "))
    assert base.count(".") == 2 and not base.endswith(":latest")
    installs = [line for line in LINES if "pip install" in line]
    assert installs and all("--constraint constraints.txt" in line for line in installs)


@pytest.mark.slow
def test_what_is_copied_can_be_installed(tmp_path):
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path / "wheel", tmp_path]
    subprocess.run(wheel, check=True, capture_output=True, timeout=300)
    assert list((tmp_path / "wheel").glob("vit_lightning-*.whl"))


TOOLS = ("podman", "debootstrap")
SERVES = """FROM localhost/vit_trial
RUN test "$(id -u)" = 10001 && test ! -w /opt/vit
RUN vit train digits --epochs 1 --wandb off && python -c "import PIL.Image as p; p.new('L', (8, 8)).save('a.png')"
RUN vit predict runs/digits/*/* a.png && vit evaluate runs/digits/*/* && vit export runs/digits/*/*
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() or not all(map(shutil.which, TOOLS)), reason="needs root, podman and debootstrap")
def test_its_steps_run_and_the_program_works_there_as_a_user(tmp_path):
    """Debian with its own Python stands in for the base image, with this machine's certificates."""
    (base,) = (line.split()[1] for line in LINES if line.startswith("FROM "))

    def ran(*words, text=None):
        done = subprocess.run(words, input=text, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    if subprocess.run(["podman", "image", "exists", base], check=False).returncode:
        packages = "--include=python3-venv,ca-certificates"
        ran("debootstrap", "--variant=minbase", packages, base.rpartition("-")[2], tmp_path / "debian")
        certificates = "etc/ssl/certs/ca-certificates.crt"
        shutil.copy(f"/{certificates}", tmp_path / "debian" / certificates)
        ran("chroot", tmp_path / "debian", "python3", "-m", "venv", "/usr/local")
        ran("tar", "-cf", tmp_path / "debian.tar", "-C", tmp_path / "debian", ".")
        ran("podman", "import", tmp_path / "debian.tar", f"docker.io/library/{base}")
    build = ("podman", "build", "--isolation=chroot", "--network=host", "--pull=never")
    ran(*build, "--tag", "localhost/vit_trial", ".")
    try:
        ran(*build, "--file", "-", text=SERVES)
    finally:
        ran("podman", "rmi", "--force", "localhost/vit_trial")
