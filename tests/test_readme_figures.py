"""The figures of the README and of docs/ are made by commands, and state what the program finds today."""

import json
import re
import subprocess
import sys

import pytest
from PIL import Image

from tests.processes import ROOT

FIGURES = ROOT / "docs" / "figures"
NUMBERS = json.loads((FIGURES / "numbers.json").read_text(encoding="utf-8"))
MADE = sorted(name for name, numbers in NUMBERS.items() if "accuracy" in numbers)
OTHER_CPU = 0.006  # 2 of 359 scans: another CPU, or another number of threads, rounds in another way
AGAIN = 'run "make figures"'


def test_every_figure_is_shown_and_has_its_command():
    files = {path.name for path in FIGURES.iterdir() if path.suffix != ".json" and path.is_file()}
    assert files == set(NUMBERS)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert set(re.findall(r"\]\((?:docs/|\.\./)?figures/([^)/]+)\)", text)) == files
    for name, numbers in NUMBERS.items():
        assert numbers["command"].startswith(("vit ", "python benchmarks/")), name
        assert name in MADE or "needs" in numbers or "study" in numbers["command"], f"{name}: made by what?"


@pytest.mark.parametrize("name", MADE)
def test_a_figure_carries_the_numbers_that_it_shows(name):
    numbers = NUMBERS[name]
    with Image.open(FIGURES / name) as picture:
        assert json.loads(picture.info["vit"]) == numbers, AGAIN
    table = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    (seeds,) = re.findall(
        r"^\|ViT \(`vit_nano_patch2_8`\)\|[\d,]+\|.*?\|\d\|([\d., ]+)\|[\d.]+\|\|\|\|$", table, re.MULTILINE
    )
    stated = float(seeds.split(", ")[numbers["seed"]]) / 100
    assert numbers["accuracy"] == pytest.approx(stated, abs=OTHER_CPU), "the table says another accuracy"


def test_the_recipe_is_the_one_of_the_figures():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from make_figures import recipe_key
    finally:
        sys.path.remove(str(ROOT / "docs"))
    assert {NUMBERS[name]["recipe"] for name in MADE} == {recipe_key()}, AGAIN


@pytest.mark.slow
def test_the_same_command_finds_the_same_numbers_today(tmp_path):
    command = [sys.executable, ROOT / "docs" / "make_figures.py", "--into", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=1200)
    today = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))
    assert set(today) == set(MADE)
    for name in MADE:
        found, known = today[name], NUMBERS[name]
        assert found["accuracy"] == pytest.approx(known["accuracy"], abs=OTHER_CPU), AGAIN
        if "shown" in known:
            for new, old in zip(found["shown"], known["shown"], strict=True):
                assert new[2] == pytest.approx(old[2], abs=0.05), AGAIN
