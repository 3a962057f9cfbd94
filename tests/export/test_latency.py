"""`--latency`: median and 99th percentile of a prediction, by engine, threads and batch size"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit.console import Reporter
from vit.export import latency
from vit.export.latency import latencies
from vit.extras.export.onnx_file import OnnxFile


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(latency, "PASSES", 12)
    monkeypatch.setattr(latency, "LEAST", 10)


def test_one_thread_and_all_are_loaded_and_measured_apart(short):
    asked = []

    def build():
        asked.append(torch.get_num_threads())
        return lambda images: images.float().mean(dim=(1, 2, 3))

    every = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rows = list(latencies({"one": build, "cuda, other": build}, (3, 4)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(every)
    assert asked == [1, 2, 2]
    shape = [(row.engine, row.threads, row.batch_size) for row in rows]
    assert shape == [("one", n, batch) for n in (1, 2) for batch in (1, 32)] + [
        ("cuda, other", 0, 1),
        ("cuda, other", 0, 32),
    ]
    assert all(row.passes == 12 and row.p99 is not None and 0 < row.p50 <= row.p99 for row in rows)


def test_few_passes_have_no_99th_percentile(monkeypatch):
    monkeypatch.setattr(latency, "SECONDS", 0.0)
    (row, _) = latencies({"cuda": lambda: lambda images: images}, (3, 4))
    assert row.passes == 1 and row.p99 is None and row.p50 > 0


@pytest.mark.parametrize(("precision", "asked"), [("32-true", "32-true"), ("int8", "auto")])
def test_an_exported_file_is_measured_in_the_precision_of_its_row(short, monkeypatch, precision, asked):
    engine = SimpleNamespace(name="openvino", precision=precision, probabilities=lambda images: images)
    shape, loaded = SimpleNamespace(channels=1, image_size=2), []
    predictor = SimpleNamespace(is_exported=True, engine=engine, preprocess=shape)
    monkeypatch.setattr(latency, "load_predictor", lambda _, **options: loaded.append(options) or predictor)
    rows = latency.show_latencies_of_model(Reporter(quiet=True), Path("m.xml"), predictor)
    assert {row.engine for row in rows} == {f"openvino {precision}"} and loaded[-1]["precision"] == asked


@pytest.mark.slow
def test_evaluate_measures_every_engine_and_keeps_the_numbers(vit, labels_run, short, tmp_path, monkeypatch):
    monkeypatch.setattr(OnnxFile, "packages", ("no_such_package",))
    answer = vit("evaluate", labels_run.path, "--latency", "--output", tmp_path / "found").ok()
    kept = json.loads((tmp_path / "found" / "metrics.json").read_text())["latency"]
    assert {row["engine"].split()[0] for row in kept} == {"torch", "openvino"}
    assert "onnx is not measured: --format onnx needs no_such_package" in answer.out
    assert {row["batch_size"] for row in kept} == {1, 32} and all(row["p50"] <= row["p99"] for row in kept)
    assert "p99 ms" in answer.out and "up to 12 passes from prepared pixels to probabilities" in answer.out


@pytest.mark.slow
def test_export_measures_its_file_beside_the_checkpoint(vit, labels_run, short, tmp_path, monkeypatch):
    monkeypatch.setattr(latency, "OTHERS", ())  # the graphs of the test above
    answer = vit("export", labels_run.path, "--format", "pt2", "--latency", "--output", tmp_path / "m.pt2").ok()
    table = answer.out.partition("p99 ms")[2].partition("up to 12 passes")[0]
    assert {line.split()[0] for line in table.splitlines()[1:]} == {"torch", "pt2"}
