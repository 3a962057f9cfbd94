"""Every loader of weights, given damaged files: the right answer or one CheckpointError with the file's name."""

import io
import zipfile
from collections import Counter

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file

from tests.onnx_files import linear_classifier
from vit.checkpoints.format import KEY, PREFIX, Description
from vit.checkpoints.load import load
from vit.data.pixels.preprocess import Preprocess
from vit.errors import CheckpointError
from vit.inference.engines.exported_engines import OnnxEngine
from vit.models.spec import NetworkSpec, create_network
from vit.weights.open import open_pretrained

FEW, MANY = 40, 2000  # damaged files of each kind
JUNK = (None, [], {}, "x", -1, 10**40, float("nan"), 1e400, True, [[1]], "2" * 5000, {"a": 1}, [None] * 3)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return create_network("vit_nano_patch2_8", 3, 8, depth=1, qk_norm=True)


@pytest.fixture(scope="module")
def whole(network, tmp_path_factory):
    """`whole[kind]` is a sound file; tests only read it."""
    folder = tmp_path_factory.mktemp("whole")
    state = {name: value.contiguous() for name, value in network.state_dict().items()}
    save_file(state, folder / "w.safetensors")
    torch.save(state, folder / "w.pth")
    rows = {"embedding/kernel": (2, 2, 3, 64), "embedding/bias": (64,), "cls": (1, 1, 64), "head/kernel": (64, 3)}
    rows |= {"Transformer/posembed_input/pos_embedding": (1, 17, 64)}
    np.savez(folder / "w.npz", **{name: np.ones(shape, np.float32) for name, shape in rows.items()})
    spec = NetworkSpec.named("vit_nano_patch2_8", 3, {"depth": 1, "qk_norm": True})
    described = Description(("a", "b", "c"), spec, Preprocess(8)).to_dict()
    prefixed = {f"{PREFIX}{name}": value for name, value in state.items()}
    torch.save({KEY: described, "state_dict": prefixed}, folder / "w.ckpt")
    made = linear_classifier(np.zeros((192, 3), np.float32), described)
    onnx.save(made, folder / "w.onnx")
    return {path.suffix[1:]: path for path in folder.iterdir()}


def bytes_changed(content, draw):
    """Bytes replaced, cut off, repeated or moved."""
    data = bytearray(content)
    for _ in range(draw.integers(1, 4)):
        if not data:
            break
        place, length = int(draw.integers(0, len(data))), int(draw.integers(1, 9))
        kind = draw.integers(0, 5)
        if kind == 0:
            data[place : place + length] = draw.bytes(length)
        elif kind == 1:
            del data[place : place + length]
        elif kind == 2:
            data[place:place] = data[max(0, place - length) : place]
        elif kind == 3:
            data[place] ^= 1 << int(draw.integers(0, 8))
        else:
            data = data[: max(1, place)] if draw.integers(0, 4) == 0 else data
    return bytes(data)


def entry_changed(content, draw):
    """One entry of an archive, changed near its beginning, under a right checksum: what a parser sees."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    chosen = int(draw.integers(0, len(entries)))
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for number, (info, data) in enumerate(entries):
                head = bytes_changed(data[:200], draw) + data[200:] if number == chosen and data else data
                archive.writestr(info.filename, head)
        return file.getvalue()


def words_changed(content, draw):
    """A checkpoint of ours with one value of its description replaced."""
    plain = torch.load(io.BytesIO(content), weights_only=True)
    places = [(plain[KEY], key) for key in plain[KEY]]
    places += [(plain[KEY][part], key) for part in ("network", "preprocess") for key in plain[KEY][part]]
    holder, key = places[int(draw.integers(0, len(places)))]
    junk = (*JUNK, torch.ones(2), torch.tensor(float("nan")))
    holder[key] = junk[int(draw.integers(0, len(junk)))]
    with io.BytesIO() as file:
        torch.save(plain, file)
        return file.getvalue()


def use(path, network):
    """What a command does with a file of weights."""
    if path.suffix == ".onnx":
        OnnxEngine(path).probabilities(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
        return
    refused = []
    if path.suffix == ".ckpt":
        try:
            load(path)
        except CheckpointError as error:
            refused.append(error)
    found = open_pretrained(str(path))
    own = found.own_network({"num_heads": 4})
    NetworkSpec.named(own.name, 3, own.options).build_empty(own.image_size)
    found.fill(network)
    if refused:
        raise refused[0]


CHANGES = [
    ("npz", bytes_changed), ("npz", entry_changed), ("safetensors", bytes_changed), ("pth", bytes_changed),
    ("pth", entry_changed), ("ckpt", bytes_changed), ("ckpt", entry_changed), ("ckpt", words_changed),
    ("onnx", bytes_changed),
]  # fmt: skip


def outcomes(kind, change, count, whole, network, folder):
    content, path = whole[kind].read_bytes(), folder / f"damaged.{kind}"
    found = Counter()
    for seed in range(count):
        path.write_bytes(change(content, np.random.default_rng(seed)))
        try:
            use(path, network)
            found["used"] += 1
        except CheckpointError as error:
            found["refused" if str(path) in str(error) and "\n" not in str(error) else f"not told well: {error}"] += 1
        except BaseException as error:
            raise AssertionError(f"{kind}, {change.__name__}, seed {seed}: {error!r}") from error
    assert found.keys() <= {"used", "refused"}, found
    return found


@pytest.mark.faults("C17")
@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_damaged_files(kind, change, whole, network, tmp_path):
    found = outcomes(kind, change, FEW, whole, network, tmp_path)
    assert found["refused"] > FEW / 4


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_thousands_of_damaged_files(kind, change, whole, network, tmp_path):
    found = outcomes(kind, change, MANY, whole, network, tmp_path)
    print(kind, change.__name__, dict(found))
    assert found["refused"] > MANY / 4
