"""The wheel, without the repository beside it: what `pip install` gives a user."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.processes import ROOT


def build_wheel(folder):
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return wheel


def empty_environment(folder):
    """The Python of an environment that has the packages of this one, but not the repository."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (folder / "others").mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if package.name != "vit" and not package.name.startswith("vit_lightning"):
            (folder / "others" / package.name).symlink_to(package)
    (site / "others.pth").write_text(str(folder / "others"))  # files named .pth in there are not read
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an environment that has the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    python = empty_environment(folder / "venv")
    installs = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet"]
    subprocess.run([*installs, "--no-deps", "--no-index", build_wheel(folder)], check=True)
    return python


ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.mark.slow
def test_trains_and_predicts(python, tmp_path, colors):
    def vit(*words):
        line = [python, "-m", "vit", *map(str, words)]
        done = subprocess.run(line, cwd=tmp_path, env=ALONE, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    vit("train", "digits", "--epochs", 1, "--wandb", "off", "--out", "runs")
    (result,) = tmp_path.glob("runs/**/result.json")
    vit("predict", result.parent, colors / "red", "--output", "rows.csv")
    assert len((tmp_path / "rows.csv").read_text().splitlines()) > 1


def test_holds_the_package_and_nothing_of_the_repository(python):
    where = "import vit; print(vit.__file__)"
    done = subprocess.run([python, "-c", where], cwd="/", env=ALONE, capture_output=True, text=True, check=True)
    found = done.stdout.strip()
    assert Path(found).is_relative_to(python.parents[1])
    installed = {path.name for path in python.parents[1].glob("lib/python*/site-packages/*")}
    assert not installed & {"tests", "benchmarks", "docs", "evidence", "configs"}
    assert (python.parents[1] / "bin" / "vit").exists()
    recipe = [python, "-m", "vit", "train", "--config", "digits", "--print_config"]
    done = subprocess.run(recipe, cwd="/", env=ALONE, capture_output=True, text=True, check=True)
    assert "network:" in done.stdout
