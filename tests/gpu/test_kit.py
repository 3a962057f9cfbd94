"""The GPU kit (`make gpu`) on a CPU, so that it never fails for a typing error when minutes of a GPU count."""

import json
import subprocess
import sys
import time
from dataclasses import asdict, replace
from itertools import pairwise

import pytest

from tests.processes import ROOT


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """benchmarks/ and benchmarks/gpu/ are on the path of a test."""
    before = set(sys.modules)
    for folder in ("benchmarks", "benchmarks/gpu"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(ROOT / "benchmarks")):
            del sys.modules[name]


def run(monkeypatch, script, *words):
    monkeypatch.setattr(sys, "argv", [script.__file__, *map(str, words)])
    script.main()


def test_every_row_names_a_script_a_size_and_a_network_that_exist():
    import kit
    import peers
    import torch

    from vit.models.spec import NetworkSpec

    names, sizes = set(), set()
    for row in kit.ROWS:
        script, *words = row.words
        assert (ROOT / "benchmarks" / script).is_file()
        options = dict(pairwise(words))
        size = peers.SIZES[options["--size"]] if "--size" in options else peers.TI16
        names |= {(name, size.image_size) for name in (size.name, options.get("--network", size.name))}
        sizes.add(size)
    with torch.device("meta"):
        for name, image_size in names:
            NetworkSpec.named(name, 10).build(image_size)
        for size in sizes:
            assert set(peers.networks(size, ("timm", "torchvision"))[0]) == {"timm", "torchvision"}


@pytest.mark.slow
def test_a_profile_counts_operations_and_host_time(monkeypatch, tmp_path):
    import profile_steps

    monkeypatch.setenv("BENCH_JSON", str(tmp_path / "where.json"))
    run(monkeypatch, profile_steps, "--tiny")
    first, *_, last = json.loads((tmp_path / "where.json").read_text())["lines"]
    assert "operations of PyTorch a step" in first and " 0 operations" not in first and last.startswith("| ")


@pytest.mark.parametrize("name", ["predict", "train_jpegs"])
@pytest.mark.slow
def test_the_sides_of_folders_run(monkeypatch, tmp_path, capsys, name):
    import kit

    (row,) = (row for row in kit.ROWS if row.name == name)
    script = __import__(row.words[0].removesuffix(".py"))

    def in_turn(ours, theirs, pairs, what, *more, work=None):
        for side in [ours, *theirs]:
            if "compiled" not in side:  # minutes of a C++ compiler
                run(monkeypatch, script, *row.tiny, *more, "--side", side)

    monkeypatch.setattr(script, "compare", in_turn)
    run(monkeypatch, script, *row.tiny)
    assert capsys.readouterr().out.count("images_per_second") == 3


def test_the_kit_continues_and_shows_what_it_has(tmp_path, capsys):
    import kit
    from timing import Measurement

    assert all("not measured" in line for line in kit.table(tmp_path) if line.startswith(("| train", "| `vit")))
    names = [name for name, _ in kit._commands(tmp_path, "cuda")]
    assert names == ["correct", "where", *(row.name for row in kit.ROWS)]
    assert len(list(kit._commands(tmp_path, "cpu"))) == 2 + len({row.words[0] for row in kit.ROWS})
    writes = "import os, pathlib; pathlib.Path(os.environ['BENCH_JSON']).write_text('{}')"
    for ending, is_well in (("", True), ("; raise SystemExit(3)", False)):
        assert kit._ran("where", [sys.executable, "-c", writes + ending], tmp_path, {}, 60) is is_well
        assert (tmp_path / "where.json").is_file()
    assert not kit._ran("slow", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, {}, 0.1)
    assert "where" not in [name for name, _ in kit._commands(tmp_path, "cuda")]

    found = Measurement("steps", {"vit": [300.0, 310.0], "timm": [100.0, 100.0]})
    (tmp_path / "where.json").write_text(json.dumps({"lines": ["34 %"]}))
    (tmp_path / "train_s16.json").write_text(json.dumps(asdict(replace(found, versions={"torch": "2"}))))
    (tmp_path / "correct_float16.json").write_text(
        json.dumps({"outcome": "failed", "seconds": 1.0, "measured": "", "why": "NaN"})
    )
    lines = list(kit.table(tmp_path))
    assert "| float16 | failed: NaN |  | 1.0 |" in lines and "34 %" in lines
    assert any("| timm | 3.05 (3.00 to 3.10) | 2 | >= 3 | 305 |" in line for line in lines)


@pytest.mark.slow
def test_all_of_it_runs_on_two_cores_in_three_minutes(tmp_path):
    started = time.monotonic()
    words = [sys.executable, str(ROOT / "benchmarks/gpu/kit.py"), "--device", "cpu", "--into", str(tmp_path / "gpu")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - started < 180
