"""Draws the figures of digits in docs/figures/, and writes the numbers that they show: `make figures`.

docs/figures/numbers.json has the command of each figure and the numbers that it shows. A PNG that this script draws
holds the same numbers as text (key "vit"), and tests/test_readme_figures.py compares the two. Figures that need other
data or weights are listed with their command alone.
"""

import argparse
import hashlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from vit.csv_files import records
from vit.data.pixels.decode import read_image
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_all_splits
from vit.report.page.image_figures import image_grid
from vit.report.page.style import rendered

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
sys.path.insert(0, str(ROOT))
from demo import newest_run, run, write_scans  # noqa: E402

RECIPE = ROOT / "configs" / "digits.yaml"
SEED = 0
SHOWN = 24  # thumbnails, from all classes


def recipe_key() -> str:
    """A hash of the recipe's values; its comments may change."""
    values = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def numbers_of(folder: Path, rows: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """What each figure states, from a finished run and its predictions."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    counts = json.loads((folder / "test_classes.json").read_text(encoding="utf-8"))["confusion"]
    common = {
        "seed": SEED,
        "recipe": recipe_key(),
        "accuracy": result["metrics"]["acc1"]["value"],
        "temperature": result["temperature"],
    }
    shown = [[Path(row["path"]).name, row["label"], float(row["probability"])] for row in chosen(rows)]
    train = f"vit train --config digits --seed {SEED}"
    return {
        "confusion_matrix.png": {"command": train, **common, "confusion": counts},
        "gallery.png": {"command": f"{train}; vit predict RUN scans/ --gallery", **common, "shown": shown},
    }


def chosen(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Rows at equal distances: the files are named by their digit, so every class is shown."""
    return [rows[place * len(rows) // SHOWN] for place in range(SHOWN)]


def stamped(picture: bytes, numbers: dict[str, Any]) -> bytes:
    """A PNG with what it states as text in it."""
    info, buffer = PngInfo(), io.BytesIO()
    info.add_text("vit", json.dumps(numbers, sort_keys=True))
    Image.open(io.BytesIO(picture)).save(buffer, "PNG", pnginfo=info, optimize=True)
    return buffer.getvalue()


def make(into: Path, work: Path) -> None:
    """Train, predict, draw into a folder, and bring its numbers.json up to date."""
    run("train", "--config", str(RECIPE), "--seed", str(SEED), "--out", str(work / "runs"), "--wandb", "off")
    folder = newest_run(work / "runs")
    source = with_all_splits(open_source("digits"), 0.1, 0.2, seed=0)
    write_scans(source.splits["test"], source.class_names, work / "scans")
    run("predict", str(folder), str(work / "scans"), "--output", str(work / "predictions.csv"))
    rows = records(work / "predictions.csv")
    numbers = numbers_of(folder, rows)
    shown = chosen(rows)
    grid = image_grid(
        [torch.as_tensor(read_image(row["path"])) for row in shown],
        [f"{row['label']} {100 * float(row['probability']):.1f} %" for row in shown],
        f"Predictions of {SHOWN} of {len(rows)} scans that were held out",
    )
    pictures = {
        "confusion_matrix.png": (folder / "figures" / "confusion_matrix.png").read_bytes(),
        "gallery.png": rendered(grid, "png"),
    }
    for name, picture in pictures.items():
        (into / name).write_bytes(stamped(picture, numbers[name]))
    file = into / "numbers.json"
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    lines = [
        f" {json.dumps(name)}: {json.dumps(about, sort_keys=True)}" for name, about in sorted((known | numbers).items())
    ]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=FIGURES, help="folder of the figures")
    with tempfile.TemporaryDirectory() as folder:
        make(parser.parse_args().into, Path(folder))
