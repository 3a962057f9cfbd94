"""The engine follows from the command and from what is remembered; a conversion is kept, and made again if damaged."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

import vit as package
from tests.export.conftest import make
from tests.processes import environment
from vit.checkpoints.format import Description, checkpoint_content
from vit.errors import UsageError
from vit.inference.engines import engine_choice, openvino_cache, openvino_model
from vit.inference.engines.openvino_engine import OpenVinoEngine
from vit.inference.engines.openvino_model import OpenVinoModel

CONVERTED: list[Description] = []  # a conversion takes seconds: each content is converted once
MODELS: list[OpenVinoModel] = []


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A checkpoint with its conversion. Tests only read the folder."""
    made, folder = make("vit"), tmp_path_factory.mktemp("model")
    torch.save(checkpoint_content(made.description, made.network.state_dict()), folder / "m.ckpt")
    package.load(folder / "m.ckpt", engine="openvino")
    return folder


@pytest.fixture
def folder(kept, tmp_path, monkeypatch):
    """A copy of it that may be spoiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return shutil.copytree(kept, tmp_path / "model")


@pytest.fixture
def conversions(monkeypatch):
    """Names of the networks that are converted."""
    names = []

    def convert(trained, what):
        names.append(trained.description.spec.name)
        if trained.description not in CONVERTED:
            CONVERTED.append(trained.description)
            MODELS.append(openvino_model.convert(trained, what))
        return MODELS[CONVERTED.index(trained.description)]

    monkeypatch.setattr(openvino_cache, "convert", convert)
    return names


def conversion_of(folder):
    (found,) = folder.glob("m.ckpt.openvino-*")
    return found


def test_a_conversion_is_made_once(folder, conversions):
    assert sorted(path.name for path in conversion_of(folder).iterdir()) == [
        "openvino_model.bin", "openvino_model.xml", "sha256.json",
    ]  # fmt: skip
    assert package.load(folder / "m.ckpt", engine="openvino").engine.name == "openvino"
    (folder / "m.ckpt").rename(folder / "renamed.ckpt")
    assert conversions == []


def change(folder, name, content):
    (conversion_of(folder) / name).write_bytes(content)


def flip_a_bit(folder):
    path = conversion_of(folder) / "openvino_model.bin"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)


def of_another_checkpoint(folder):
    """The hashes are right, but the description is not the checkpoint's."""
    made = make("vit", temperature=3.0)
    torch.save(checkpoint_content(made.description, made.network.state_dict()), folder / "n.ckpt")
    package.load(folder / "n.ckpt", engine="openvino")
    (other,) = folder.glob("n.ckpt.openvino-*")
    name = conversion_of(folder)
    shutil.rmtree(name)
    other.rename(name)


@pytest.mark.faults("E8")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: change(folder, "openvino_model.bin", b""),
        lambda folder: change(folder, "openvino_model.xml", b"<?xml"),
        lambda folder: change(folder, "sha256.json", b"["),
        lambda folder: (conversion_of(folder) / "openvino_model.bin").unlink(),
        flip_a_bit,
        of_another_checkpoint,
    ],
    ids=["empty weights", "cut graph", "no sums", "no weights", "a bit", "another checkpoint"],
)
def test_a_damaged_conversion_is_made_again(folder, conversions, spoil):
    spoil(folder)
    conversions.clear()
    assert package.load(folder / "m.ckpt", engine="openvino").engine.name == "openvino"
    assert len(conversions) == 1
    package.load(folder / "m.ckpt", engine="openvino")
    assert len(conversions) == 1, "the new one is whole"


@pytest.mark.faults("E8")
def test_a_changed_checkpoint_is_converted_and_the_old_conversion_goes(folder, conversions):
    before = conversion_of(folder)
    made = make("vit", temperature=3.0)
    torch.save(checkpoint_content(made.description, made.network.state_dict()), folder / "m.ckpt")
    package.load(folder / "m.ckpt", engine="openvino")
    assert len(conversions) == 1 and conversion_of(folder) != before


@pytest.mark.faults("E8", simulated="files in place of folders, because root may write everywhere")
def test_a_folder_that_cannot_be_written(folder, conversions, monkeypatch, tmp_path):
    shutil.rmtree(conversion_of(folder))
    right = openvino_cache._keep
    monkeypatch.setattr(openvino_cache, "_keep", lambda model, at: at.path.parent != folder and right(model, at))
    package.load(folder / "m.ckpt", engine="openvino")
    assert len(list((tmp_path / "cache" / "vit-lightning" / "openvino").iterdir())) == 1
    package.load(folder / "m.ckpt", engine="openvino")
    assert len(conversions) == 1
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("a file")
    assert package.load(folder / "m.ckpt", engine="openvino").engine.name == "openvino"
    assert len(conversions) == 2 and list(folder.iterdir()) == [folder / "m.ckpt"]


@pytest.fixture
def much_work(monkeypatch):
    monkeypatch.setattr(engine_choice, "FLOPS_PER_THREAD", 0)


def chosen(folder, num_images=64):
    return package.load(folder / "m.ckpt", num_images=num_images).engine.name


@pytest.mark.parametrize(("torch_seconds", "expected"), [(2.0, "openvino"), (1.05, "torch"), (0.5, "torch")])
def test_auto_takes_what_was_faster_and_remembers_it(folder, much_work, monkeypatch, torch_seconds, expected):
    measured = []

    def measure(ours, other, flops, at, machine):
        measured.append(machine)
        at.speeds_path.write_text(json.dumps({machine: {"torch": torch_seconds, "openvino": 1.0}}))

    monkeypatch.setattr(engine_choice, "_measure", measure)
    assert [chosen(folder) for _ in range(3)] == [expected] * 3
    assert len(measured) == 1


def test_both_engines_are_timed(folder, much_work):
    name = chosen(folder)
    (seconds,) = json.loads((conversion_of(folder) / "seconds.json").read_text()).values()
    assert seconds.keys() == {"torch", "openvino"} and min(seconds.values()) > 0
    assert name == ("openvino" if seconds["torch"] > 1.1 * seconds["openvino"] else "torch")


def test_auto_leaves_little_work_to_torch(folder, monkeypatch):
    monkeypatch.setattr(engine_choice, "cache_folders", None)  # it is not even asked what is remembered
    assert chosen(folder, 1_000) == "torch", "a small network"
    monkeypatch.setattr(engine_choice, "FLOPS_PER_THREAD", 0)
    assert chosen(folder, 63) == "torch", "few images"
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert chosen(folder, 64) == "torch", "several processes"
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setattr(engine_choice, "find_spec", lambda name: None)
    assert chosen(folder, 64) == "torch", "not installed"


def test_auto_takes_torch_where_openvino_cannot_compute(folder, much_work, monkeypatch):
    def fail(self, *arguments):
        raise UsageError("no", "no")

    monkeypatch.setattr(OpenVinoEngine, "__init__", fail)
    assert chosen(folder) == "torch"


def test_auto_takes_torch_where_nothing_can_be_remembered(folder, much_work, monkeypatch):
    shutil.rmtree(conversion_of(folder))
    monkeypatch.setattr(openvino_cache, "_keep", lambda model, at: False)
    assert chosen(folder) == "torch"


@pytest.mark.faults("E6")
def test_openvino_on_a_gpu_is_refused_before_torch_is_imported(kept, tmp_path):
    code = "import sys; from vit.__main__ import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    words = ("predict", kept / "m.ckpt", kept, "--engine", "openvino", "--device", "cuda")
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.stdout == "2 False\n", done.stderr
    assert "--device cuda, but --engine openvino computes on the CPU" in done.stderr


def test_openvino_is_not_imported_for_torch(kept, tmp_path):
    assert find_spec("openvino") is not None
    code = "import sys, vit; vit.load(sys.argv[1], num_images=1000); print('openvino' in sys.modules)"
    words, variables = [sys.executable, "-c", code, kept / "m.ckpt"], environment(tmp_path)
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
