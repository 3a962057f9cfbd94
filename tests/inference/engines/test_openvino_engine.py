"""OpenVINO computes what PyTorch computes; a graph is an untrusted file; openvino sends nothing to its makers."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import vit as package
from tests.export.conftest import make
from tests.forked import run
from tests.processes import environment
from vit.checkpoints.format import checkpoint_content
from vit.errors import CheckpointError, UsageError
from vit.inference import predictor
from vit.inference.deployment import LoadedModel
from vit.inference.engine import Engine
from vit.inference.engines import engine_names, exported_engines
from vit.inference.engines.exported_engines import OpenVinoEngine, OpenVinoModel, convert, read, save

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def made() -> LoadedModel:
    return make("vit", temperature=2.0)


@pytest.fixture(scope="module")
def model(made) -> OpenVinoModel:
    return convert(made, "a test")


@pytest.fixture(scope="module")
def checkpoint(made, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.ckpt"
    torch.save(checkpoint_content(made.description, made.network.state_dict()), path)
    return path


@pytest.fixture
def graph(model, tmp_path) -> Path:
    """A graph with its weights, which may be spoiled."""
    save(model, tmp_path / "m.xml")
    return tmp_path / "m.xml"


def torch_answers(made, images, precision="32-true"):
    description = made.description
    return Engine(made.network, description.preprocess, CPU, precision, description.temperature).probabilities(images)


def images(count):
    return torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def test_a_file_answers_as_its_checkpoint_for_any_batch(made, graph):
    loaded = package.load(graph)
    assert loaded.class_names == made.description.class_names and loaded.preprocess == made.description.preprocess
    assert (loaded.engine.name, loaded.engine.temperature, loaded.engine.precision) == ("openvino", 2.0, "32-true")
    for count in (5, 1, 7):
        torch.testing.assert_close(
            loaded.engine.probabilities(images(count)), torch_answers(made, images(count)), atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("precision", [pytest.param("32-true", marks=pytest.mark.slow), "bf16-mixed"])
def test_a_checkpoint_is_computed_by_openvino_where_it_is_asked_for(checkpoint, model, monkeypatch, precision):
    if precision == "bf16-mixed":  # tracing takes seconds
        monkeypatch.setattr(predictor, "convert", lambda trained, what: model)
    loaded, expected = (package.load(checkpoint, precision=precision, engine=name) for name in ("openvino", "torch"))
    found, torch_found = (one.engine.probabilities(images(5)) for one in (loaded, expected))
    torch.testing.assert_close(found, torch_found, atol=2e-2 if precision == "bf16-mixed" else 1e-5, rtol=0)
    assert (loaded.engine.name, loaded.engine.precision) == ("openvino", precision)
    (one,) = loaded.predict(images(1))
    assert one.engine == "openvino" and package.load(checkpoint).engine.name == "torch"


def test_bfloat16_is_computed_where_it_is_asked_for(made, model):
    engine = OpenVinoEngine(model, "bf16-mixed", Path("m"))
    found, exact = engine.probabilities(images(7)), torch_answers(made, images(7))
    torch.testing.assert_close(found, exact, atol=2e-2, rtol=0)
    with pytest.raises(UsageError, match="--precision 16-mixed, but openvino"):
        OpenVinoEngine(model, "16-mixed", Path("m"))


def test_answers_stay_when_the_next_batch_is_computed(model):
    engine = OpenVinoEngine(model, "32-true", Path("m"))
    first = engine.probabilities(images(4))
    kept = first.clone()
    engine.probabilities(images(4).flip(0))
    assert torch.equal(first, kept)


def spoiled(change):
    return lambda path: path.write_text(change(path.read_text()))


def described(**changes):
    def change(path):
        model = read(path)
        plain = {**model.description.to_dict(), **changes}
        model.graph.set_rt_info(json.dumps(plain), ["vit"])
        save(model, path.with_name("other.xml"))
        for ending in (".xml", ".bin"):
            path.with_name(f"other{ending}").replace(path.with_suffix(ending))

    return change


@pytest.mark.faults("E5")
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.unlink(), "there is no file"),
        (lambda path: path.with_suffix(".bin").unlink(), r"has its weights in m\.bin, which is missing"),
        (
            lambda path: path.with_suffix(".bin").write_bytes(b"0" * 100),
            "cannot be used: RuntimeError: Incorrect weights",
        ),
        (lambda path: path.write_bytes(b""), "is not a graph of OpenVINO"),
        (lambda path: path.write_bytes(b"<!doctype html>"), "is not a graph of OpenVINO"),
        (lambda path: path.write_bytes(path.read_bytes()[:3000]), "cannot be used"),
        (spoiled(lambda text: text.replace("<vit ", "<other ")), "cannot be used"),
        (spoiled(lambda text: text.replace('version="opset8"', 'version="stranger"')), "cannot be used"),
        (described(classes=["a", "b"]), "has inputs"),
        (described(format=99), "has format 99"),
        (described(temperature=-1), "has a broken description: temperature"),
    ],
)
def test_what_is_not_ours_is_refused(graph, spoil, words):
    spoil(graph)
    with pytest.raises(CheckpointError, match=words):
        read(graph)


@pytest.mark.faults("E5")
@pytest.mark.parametrize(("name", "version"), [("Loop", "opset5"), ("If", "opset8"), ("Add", "extension")])
def test_loops_and_the_operators_of_strangers_are_refused(tmp_path, model, name, version):
    kind = SimpleNamespace(name=name, version_id=version)
    graph = SimpleNamespace(get_ops=lambda: [SimpleNamespace(get_type_info=lambda: kind)])
    with pytest.raises(CheckpointError, match="operators that 'vit export' does not write"):
        exported_engines._check_graph(graph, model.description, tmp_path)


def test_a_graph_that_is_too_large_is_not_read(graph, monkeypatch):
    monkeypatch.setattr(exported_engines, "OPENVINO_MAX_BYTES", 100)
    with pytest.raises(CheckpointError, match="is larger than"):
        read(graph)


@pytest.mark.faults("E6")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "cuda"}, "--device cuda, but a graph of OpenVINO is computed with cpu"),
        ({"engine": "torch"}, "--engine torch, but a graph of OpenVINO is computed with openvino"),
    ],
)
def test_a_graph_is_computed_by_openvino_or_not_at_all(graph, options, words):
    with pytest.raises(UsageError, match=words):
        package.load(graph, **options)


@pytest.mark.faults("E6", simulated="the package is hidden")
def test_without_openvino_the_extra_is_named(graph, monkeypatch):
    monkeypatch.setattr(engine_names, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"openvino, which is not installed; .*\[openvino\]"):
        package.load(graph)


@pytest.mark.faults("E6", simulated="the network computes eigenvalues")
def test_a_network_that_openvino_cannot_compute_is_one_error(made, monkeypatch):
    monkeypatch.setattr(type(made.network), "forward", lambda self, x: torch.linalg.eig(x[:, 0]).eigenvalues.real)
    with pytest.raises(UsageError, match="--engine openvino: openvino cannot compute vit_nano_patch2_8: "):
        convert(made, "--engine openvino")


@pytest.mark.faults("E6")
def test_openvino_on_a_gpu_is_refused_before_torch_is_imported(checkpoint, tmp_path):
    code = "import sys; from vit.__main__ import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    words = ("predict", checkpoint, tmp_path, "--engine", "openvino", "--device", "cuda")
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.stdout == "2 False\n", done.stderr
    assert "--device cuda, but --engine openvino computes on the CPU" in done.stderr


@pytest.mark.slow
def test_openvino_is_not_imported_for_torch(checkpoint, tmp_path):
    code = "import sys, vit; vit.load(sys.argv[1]); print('openvino' in sys.modules)"
    words, variables = [sys.executable, "-c", code, checkpoint], environment(tmp_path)
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr


QUIET = """
import os, socket, sys
sent = []
def refuse(self, address):
    sent.append(address)
    raise OSError("no network")
socket.socket.connect = refuse
socket.getaddrinfo = lambda *a, **k: (sent.append(a), (_ for _ in ()).throw(OSError("no network")))[1]
os.environ.pop("CI", None)
import vit
assert "openvino" not in sys.modules
vit.load(sys.argv[1], engine="openvino")
print(sent, "CI" in os.environ, "openvino" in sys.modules)
"""


@pytest.mark.slow
def test_nothing_is_sent_and_nothing_written_to_the_home(checkpoint, tmp_path):
    """The import of openvino alone would make ~/intel and send an event."""
    home = tmp_path / "home"
    home.mkdir()
    line, variables = [sys.executable, "-c", QUIET, checkpoint], environment(tmp_path) | {"HOME": str(home)}
    done = run(line, env=variables, timeout=300)
    assert done.stdout.split("\n")[0] == "[] False True", done.stderr
    assert list(home.iterdir()) == []
