"""The Dockerfile: a linter finds nothing, and what it copies is enough to install. Docker itself is not run."""

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
