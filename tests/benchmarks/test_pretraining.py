"""The study of pretraining with tiny numbers: cells, what they share, and the table."""

import json

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study of two seeds of 8 images, of which a pretraining has 16."""
    import pretraining

    for name, value in {"PRETRAINING": 2, "TRAINING": 1, "BATCH": 4, "TEST_IMAGES": 8, "SEEDS": (0, 1)}.items():
        monkeypatch.setattr(pretraining, name, value)
    for name, value in {"SIZES": (8, 16), "FEW": 8, "EVERY": 16, "BANK": 8, "QUERIES": 8}.items():
        monkeypatch.setattr(pretraining, name, value)
    generator = np.random.default_rng(0)
    for split, count in (("train", 8), ("test", 4)):
        for label in ("cat", "dog"):
            folder = tmp_path / "images" / split / label
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    (tmp_path / "study" / "weights").mkdir(parents=True)
    return pretraining.Study(tmp_path / "study", tmp_path / "images")


@pytest.mark.slow
def test_cells_share_pretrainings_and_have_equal_flops(study, capsys):
    import pretraining
    from pretraining_table import show

    cells = list(pretraining.cells())
    assert len({cell.name for cell in cells}) == len(cells) == 20
    for cell in cells:
        pretraining.write(study.folder / "cells" / f"{cell.name}.json", study.run(cell))
    found = [json.loads(path.read_text()) for path in (study.folder / "cells").iterdir()]
    assert len(list((study.folder / "weights").glob("*.pt"))) == 8  # 2 methods, 2 sizes, 2 seeds
    scratch = next(one for one in found if one["method"] == "scratch")
    for one in found:
        if one["method"] == "short":
            assert one["flops"] == scratch["flops"] / 3
            continue
        assert one["flops"] + one["pretraining"].get("flops", 0) == pytest.approx(scratch["flops"], rel=0.15)
    steps = {one["method"]: one["pretraining"].get("steps", 0) for one in found}
    assert steps["scratch"] == 0 and steps["mae"] > steps["diet"] == 2
    show(study.folder)
    table = capsys.readouterr().out
    assert "20 cells of CIFAR-10" in table
    assert table.count("| MAE |") == table.count("| DIET |") == 3 and table.count("| scratch |") == 2
    assert table.count("MAE against DIET") == 3


def test_answers_survive_their_text():
    from pretraining_parts import packed
    from pretraining_table import _wrong

    wrong = np.random.default_rng(0).random(13) < 0.5
    assert (_wrong(packed(wrong)) == wrong).all()
