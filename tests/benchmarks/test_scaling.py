"""Parts of benchmarks/scaling.py on a small scale, and the figures and tables that are made of them."""

import json

import numpy as np
import pytest


@pytest.fixture
def parts():
    """Made-up measurements of every part."""

    def sweep(values):
        return {"points": [{"value": v, "milliseconds": 1.0 + v, "low": v, "high": v + 2.0} for v in values]}

    work = {"seconds": 2.0, "bytes_per_name": 80.0}
    return {
        **{f"predict_{n}": {"files": n, "seconds": n / 100, "peak_bytes": 2**30} for n in (1000, 10000)},
        **{f"training_{what}": sweep((64, 128, 192)) for what in ("batch", "resolution", "depth", "width")},
        "study": {"beyond_training_seconds": [0.2, 0.4, 0.3]},
        "names": {"names": 1000, "classes": 10, "list": work, "split": work, "versions": {"Python": "3"}},
    }


def test_the_quadratic_share_is_found_in_times():
    from scaling_figures import attention_share, measured_shares, quadratic_fit

    assert attention_share(1152.0) == 0.5  # as many tokens as 6 times the width
    tokens = np.array([16.0, 64, 144, 256, 400])
    assert quadratic_fit(tokens, 1.0 + 0.5 * tokens + 0.01 * tokens**2) == pytest.approx([1.0, 0.5, 0.01])
    points = [{"value": 16 * side, "milliseconds": 3.0 * side**2} for side in (2, 4, 8)]
    assert [share for *_, share in measured_shares(points)] == pytest.approx([0.0] * 3, abs=1e-6)  # straight line


def test_everything_measured_is_drawn_and_written(parts, tmp_path):
    import scaling

    page = tmp_path / "page.md"
    page.write_text(f"By hand.\n{scaling.BEGIN}\nold\n{scaling.END}\nBy hand.\n")
    for name, found in parts.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"day": "today", "machine": "CPU", **found}))
    scaling.write(tmp_path, page, tmp_path / "figures")
    text = page.read_text()
    assert text.startswith("By hand.\n") and text.endswith("\nBy hand.\n") and "\nold\n" not in text
    for words in (
        "| 10,000 | 100.0 | 1,024 |", "| 128 | 64 | 129.00 (128.00 to 130.00) | 5 % |", "| split | 2.0 | 80 |",
        "costs 0.30 s beyond its training (0.20 to 0.40, n = 3)", "| depth | 64 | 128 | 192 |",
        "](figures/scaling_predict.png)",
    ):  # fmt: skip
        assert words in text
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "numbers.json", "scaling.json", "scaling_predict.png", "scaling_training.png",
    }  # fmt: skip


def test_a_part_is_measured_once(monkeypatch, tmp_path):
    import scaling

    monkeypatch.setitem(scaling.PARTS, "study", lambda: {"beyond_training_seconds": [0.1]})
    scaling.measure("study", tmp_path)
    assert json.loads((tmp_path / "study.json").read_text())["beyond_training_seconds"] == [0.1]
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]


def test_names_are_listed_split_and_compared():
    import scaling_parts

    found = scaling_parts.names(5000)
    assert found["names"] == 5000
    steps = ["list", "split", "fingerprint", "write splits.csv", "read splits.csv", "find equal images"]
    assert [what for what, numbers in found.items() if isinstance(numbers, dict)] == steps
    assert all(found[what]["seconds"] > 0 for what in steps)


def test_training_is_timed_per_image(monkeypatch):
    import scaling_parts

    small = {2: ("vit_nano_patch2_8", 8, 2, {}), 4: ("vit_nano_patch2_8", 8, 4, {})}
    monkeypatch.setattr(scaling_parts, "_networks", lambda what: small)
    points = scaling_parts.training("batch", turns=1, seconds=0.001)["points"]
    assert [point["value"] for point in points] == [2, 4]
    assert all(point["milliseconds"] > 0 and point["flops"] > 0 for point in points)
