"""Takes the figures of docs/concepts/ out of the notebooks, where they are stored as executed.

    python docs/make_concept_figures.py

A figure changes when its notebook is executed and stored again. tests/test_concept_figures.py compares the two.
"""

import base64
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures" / "concepts"
CELLS = {
    "attention_keys.png": ("attention_from_scratch", "cell-03"),
    "attention_scale.png": ("attention_from_scratch", "cell-11"),
    "positions_accuracy.png": ("attention_from_scratch", "cell-25"),
    "positions_similarity.png": ("attention_from_scratch", "cell-27"),
    "class_token_map.png": ("vit_by_hand", "cell-23"),
    "class_token_depth.png": ("vit_by_hand", "cell-25"),
    "data_curve.png": ("vit_or_cnn", "cell-05"),
    "data_reach.png": ("inside_a_vit", "cell-20"),
}


def stored_picture(notebook: str, cell: str) -> bytes:
    """The PNG that a cell of a notebook has stored."""
    content = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8"))
    (found,) = [entry for entry in content["cells"] if entry["id"] == cell]
    (picture,) = [output["data"]["image/png"] for output in found["outputs"] if "image/png" in output.get("data", {})]
    return base64.b64decode("".join(picture))


if __name__ == "__main__":
    FIGURES.mkdir(exist_ok=True)
    for name, (notebook, cell) in CELLS.items():
        (FIGURES / name).write_bytes(stored_picture(notebook, cell))
