"""result.json: its layout, and damaged files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import vit
from tests.processes import ROOT
from vit.checkpoints.result import RunResult
from vit.errors import DataError
from vit.models.spec import NetworkSpec

RESULT = RunResult(
    spec=NetworkSpec("resnet10_small", 2, {"layers": (1, 1, 1, 1)}), image_size=8, parameters=7, flops=9, data="photos",
    num_images={"train": 4, "test": 2}, fingerprints={"train": "a", "test": "b"}, seed=1, epochs=2.5, steps=5,
    batch_size=2, seconds=1.5, images_per_second=3.0, device="cpu", precision="32-true", best_epoch=0,
    validation={"val/loss": 0.5}, metrics={"acc1": {"value": 0.5, "low": 0.1, "high": 0.9}}, versions={"torch": "2"},
    left_out={"test": {"x.png": "it is empty"}}, mfu=0.25,
)  # fmt: skip


def test_the_layout_that_reports_and_studies_read(tmp_path):
    RESULT.write(tmp_path / "result.json")
    plain = json.loads((tmp_path / "result.json").read_text())
    assert plain["network"] == {"name": "resnet10_small", "image_size": 8, "layers": [1, 1, 1, 1], "num_classes": 2}
    assert plain["classes"] == 2 and plain["images"] == {"train": 4, "test": 2}
    assert not {"spec", "image_size", "num_images"} & plain.keys()
    assert RunResult.read(tmp_path / "result.json") == RESULT


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"network": {}}', '{"network": {"name": 1, "num_classes": 2}}'])
def test_a_damaged_result(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(DataError, match=r"result\.json is damaged: (?!DamagedFileError)"):
        RunResult.read(tmp_path / "result.json")


@pytest.mark.parametrize("change", [{"metrics": []}, {"seconds": "x"}, {"seen_before": 5}, {"images": {"train": "x"}}])
def test_a_value_of_another_type(tmp_path, change):
    RESULT.write(tmp_path / "result.json")
    (tmp_path / "result.json").write_text(json.dumps(json.loads((tmp_path / "result.json").read_text()) | change))
    with pytest.raises(DataError, match=next(iter(change))):
        RunResult.read(tmp_path / "result.json")


def test_a_result_without_a_key(tmp_path):
    RESULT.write(tmp_path / "result.json")
    plain = json.loads((tmp_path / "result.json").read_text())
    del plain["steps"]
    (tmp_path / "result.json").write_text(json.dumps(plain))
    with pytest.raises(DataError, match="steps"):
        RunResult.read(tmp_path / "result.json")


def test_a_copy_that_pip_does_not_know_has_its_version(tmp_path):
    """A clone on a path of imports without an installation trained to the end, and then failed."""
    for path in (Path(one) for one in sys.path if one.endswith("site-packages")):
        for found in path.iterdir():
            if not found.name.startswith(("vit_lightning", "_editable_impl_vit", "__editable__")):
                (tmp_path / found.name).symlink_to(found)
    code = (
        "from importlib.metadata import distributions; from vit.checkpoints.result import versions\n"
        "assert 'vit-lightning' not in {one.name for one in distributions()}; print(versions()['vit-lightning'])"
    )
    # -S: no folder of packages but the links
    command = [sys.executable, "-S", "-c", f"import sys; sys.path += [{str(tmp_path)!r}, {str(ROOT)!r}]\n{code}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert told.stdout.strip() == vit.__version__, told.stderr
