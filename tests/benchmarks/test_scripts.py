"""One tiny row of each kind, measured by its script."""

import sys

import pytest


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """`measured(module, *words)` runs the main function of a script, and gives what it measured."""
    import peers
    import timing

    monkeypatch.setenv(timing.RESULT_VARIABLE, str(tmp_path / "row.json"))
    monkeypatch.setattr(timing, "measured_peak", lambda precision: 1e9)
    monkeypatch.setattr(peers, "VITS", {"timm": peers.VITS["timm"], "missing": ("no_such_package", peers.timm)})
    monkeypatch.setattr(peers, "is_installed", lambda package: package == "timm")  # the others take seconds to import

    def run(script, *words):
        monkeypatch.setattr(sys, "argv", [script.__file__, *map(str, words)])
        script.main()
        return timing.Measurement.read(tmp_path / "row.json")

    return run


def test_inference(measured):
    import inference

    found = measured(inference, "--size", "nano", "--turns", 1, "--seconds", 0.001, "--no_compile")
    assert list(found.speeds) == ["vit", "timm"] and found.mfu > 0
    absent = dict.fromkeys(("missing", "OpenVINO", "onnxruntime float32"), "not installed")
    assert found.absent == {**absent, "timm compiled": "left out"}


@pytest.mark.slow
def test_training_steps(measured):
    import training_step

    found = measured(training_step, "--size", "nano", "--turns", 2, "--seconds", 0.001, "--no_compile")
    assert [len(values) for values in found.speeds.values()] == [2, 2] and list(found.speeds) == ["vit", "timm"]
    assert found.absent == {"missing": "not installed", "timm compiled": "left out"}


@pytest.mark.slow
def test_the_share_of_an_optimizer(measured):
    import muon_share

    found = measured(muon_share, "--turns", 1, "--seconds", 0.001, "--batch", 2)
    assert list(found.speeds) == ["Muon", "AdamW", "without an optimizer"]


def test_start_of_commands(monkeypatch, tmp_path):
    import startup

    code = "import pathlib, time; pathlib.Path('metrics.csv').write_text('step\\n1\\n'); time.sleep(60)"
    monkeypatch.setattr(startup, "vit", lambda *words: [sys.executable, "-S", "-c", *words])
    assert startup.to_first_step((code,), tmp_path) > 1 / 30  # it does not wait for the end
    with pytest.raises(SystemExit, match="made no step"):
        startup.to_first_step(("pass",), tmp_path)
    assert list(tmp_path.iterdir()) == []
