"""The checkpoint: a round trip, and every way in which a file can fail to be one."""

import json
import os
import pickle
import random
import zipfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vit.checkpoints.format import FORMAT, KEY, Description, checkpoint_content
from vit.checkpoints.io import file_hash, write_checkpoint
from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.load import load
from vit.checkpoints.run import checkpoint_of
from vit.data.pixels.preprocess import Preprocess
from vit.errors import CheckpointError, ResourceError
from vit.models.spec import NetworkSpec, create_network
from vit.training.callbacks.checkpoints import DurableCheckpointIO

CLASSES = ("cat", "dög", "a b/../c")


class Marker:
    """Pickled code that leaves a file behind when it runs."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    made = create_network("vit_nano_patch2_8", 3, 8, depth=2).eval()
    torch.nn.init.normal_(made.head.weight)
    return made


@pytest.fixture
def content(network):
    spec = NetworkSpec.named("vit_nano_patch2_8", 3, {"depth": 2})
    description = Description(CLASSES, spec, Preprocess(8), metrics={"val/acc1": 0.5})
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    return {**checkpoint_content(description, weights), "epoch": 3}


def refused(path, *words):
    with pytest.raises(CheckpointError) as caught:
        load(path)
    assert str(path) in str(caught.value) and caught.value.fix
    for word in words:
        assert word in str(caught.value)


def test_round_trip_gives_equal_logits_and_the_same_description(network, content, tmp_path):
    path = tmp_path / "a.ckpt"
    write_checkpoint(content, path)
    loaded, description = load(path)
    images = torch.randn(5, 3, 8, 8)
    with torch.inference_mode():
        assert torch.equal(loaded(images), network(images))
    assert not loaded.training and description.class_names == CLASSES
    assert description.preprocess == Preprocess(8) and description.metrics == {"val/acc1": 0.5}
    assert Description.from_dict(description.to_dict()) == description
    assert json.loads(json.dumps(description.to_dict())) == description.to_dict()
    assert os.listdir(tmp_path) == ["a.ckpt"]


def test_rules_of_labels_come_back_and_wrong_ones_are_refused(content, tmp_path):
    rules = LabelRules(np.array([0.5, 1.0, 2.0]), np.array([0.0, 0.25, 1.0]))
    plain = replace(Description.from_dict(content[KEY]), multilabel=rules).to_dict()
    assert Description.from_dict(plain).multilabel == rules != LabelRules.unfitted(3)
    wrong = [
        {"thresholds": [0.5] * 3, "temperatures": values}
        for values in ([1, 1], [1, 1, 0], [1, 1, 1e-300], [1, 1, float("nan")])
    ]
    wrong += [{"thresholds": values, "temperatures": [1] * 3} for values in ([0.5], [0, 1, 1.1], [0, 1, "x"], None)]
    for broken in [*({**plain, "multilabel": one} for one in wrong), {**plain, "temperature": 2}]:
        write_checkpoint({**content, KEY: broken}, tmp_path / "x.ckpt")
        refused(tmp_path / "x.ckpt", "broken description")


@pytest.mark.parametrize("name", ["resnet18", "resnet10_small", "vit_mini_patch4_28"])
def test_every_kind_of_network_comes_back(name, tmp_path):
    description = Description(CLASSES, NetworkSpec.named(name, 3), Preprocess(32))
    torch.manual_seed(0)
    network = description.build().eval()
    torch.save(checkpoint_content(description, network.state_dict()), tmp_path / "a.ckpt")
    loaded, _ = load(tmp_path / "a.ckpt")
    images = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        assert torch.equal(loaded(images), network(images))


@pytest.mark.faults("C1")
def test_cut_short_anywhere(content, tmp_path):
    torch.save(content, tmp_path / "whole.ckpt")
    whole = (tmp_path / "whole.ckpt").read_bytes()
    for share in range(50):
        path = tmp_path / f"{share}.ckpt"
        path.write_bytes(whole[: len(whole) * share // 50])
        refused(path, f"({path.stat().st_size:,} bytes)")


@pytest.mark.faults("C1")
@pytest.mark.parametrize(
    ("start", "guess"),
    [
        (b"", "not a PyTorch file"),
        (b"accuracy 0.97\n", "not a PyTorch file"),
        (b"<!DOCTYPE html><html>404</html>", "HTML"),
        (b"\n<HTML>login</HTML>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git-lfs"),
        (b"PK\x03\x04" + b"\0" * 500, "damaged"),
    ],
)
def test_other_files_are_guessed(tmp_path, start, guess):
    (tmp_path / "x.ckpt").write_bytes(start)
    refused(tmp_path / "x.ckpt", guess)


@pytest.mark.faults("C2")
def test_flipped_bits_never_give_other_weights(content, network, tmp_path):
    """A flip is refused, or fell where it changes nothing that is read."""
    torch.save(content, tmp_path / "whole.ckpt")
    whole = bytearray((tmp_path / "whole.ckpt").read_bytes())
    expected, told = network.state_dict(), Description.from_dict(content[KEY])
    refusals = 0
    draw = random.Random(0)
    for _ in range(50):
        place = draw.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draw.randrange(8)
        (tmp_path / "x.ckpt").write_bytes(damaged)
        try:
            loaded, description = load(tmp_path / "x.ckpt")
        except CheckpointError:
            refusals += 1
            continue
        assert description == told
        assert all(torch.equal(value, expected[key]) for key, value in loaded.state_dict().items())
    assert refusals > 25


@pytest.mark.faults("C7")
def test_compressed_files_are_refused(content, tmp_path):
    torch.save(content, tmp_path / "a.ckpt")
    with zipfile.ZipFile(tmp_path / "a.ckpt") as whole, zipfile.ZipFile(tmp_path / "x.ckpt", "w", 8) as deflated:
        for name in whole.namelist():
            deflated.writestr(name, whole.read(name))
    refused(tmp_path / "x.ckpt", "damaged")


@pytest.mark.faults("C3", "C6")
@pytest.mark.parametrize("place", ["state_dict", "vit", "beside", "whole"])
@pytest.mark.parametrize("forced", [False, True])
def test_code_in_a_checkpoint_does_not_run(content, tmp_path, monkeypatch, place, forced):
    marker = Marker(tmp_path / "marker")
    if place == "state_dict":
        content["state_dict"]["network.head.bias"] = marker
    elif place == "vit":
        content[KEY]["network"]["name"] = marker
    else:
        content["callbacks"] = marker
    if place == "whole":
        (tmp_path / "x.ckpt").write_bytes(pickle.dumps(marker))
    else:
        torch.save(content, tmp_path / "x.ckpt")
    if forced:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    refused(tmp_path / "x.ckpt")
    assert not (tmp_path / "marker").exists()
    files = DurableCheckpointIO(tmp_path / "last.ckpt", tmp_path / "previous.ckpt", print)
    with pytest.raises(CheckpointError):
        files.load_checkpoint(tmp_path / "x.ckpt", weights_only=False)
    assert not (tmp_path / "marker").exists()


def test_the_marker_would_have_run(tmp_path):
    pickle.loads(pickle.dumps(Marker(tmp_path / "marker")))
    assert (tmp_path / "marker").is_dir()


@pytest.mark.faults("C4")
def test_addresses_folders_and_pipes(tmp_path):
    for address in ("https://host/x.ckpt", "s3://bucket/x.ckpt", "hf-hub://name", "file:///etc/passwd"):
        refused(Path(address), "download it first")
    refused(tmp_path, "there is no checkpoint")
    os.mkfifo(tmp_path / "pipe.ckpt")
    refused(tmp_path / "pipe.ckpt", "there is no checkpoint")
    with pytest.raises(CheckpointError, match="has no checkpoints"):
        checkpoint_of(tmp_path)


@pytest.mark.faults("C10")
def test_other_formats_say_what_to_do(content, tmp_path):
    for number, fix in ((FORMAT + 1, "upgrade"), (FORMAT - 1, "again")):
        content[KEY]["format"] = number
        torch.save(content, tmp_path / "x.ckpt")
        refused(tmp_path / "x.ckpt", f"format {number}", fix)


def test_each_fact_stands_once(content):
    """The classes' names are counted, and the image size is the preprocessing's."""
    assert set(content[KEY]["network"]) == {
        "name", "patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio"
    }  # fmt: skip


@pytest.mark.faults("C11")
def test_plain_weights_are_not_ours(network, tmp_path):
    torch.save(network.state_dict(), tmp_path / "x.ckpt")
    refused(tmp_path / "x.ckpt", "did not write")


@pytest.mark.faults("F2", simulated="torch.save fails")
def test_a_failed_write_leaves_the_old_file_whole(content, tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    write_checkpoint(content, path)
    before = file_hash(path)
    newer = deepcopy(content)
    newer["state_dict"]["network.head.bias"] += 1.0
    for error in (OSError(28, "No space left on device"), RuntimeError("PytorchStreamWriter failed writing file")):

        def fail(saved, file, error=error):
            file.write(b"half a checkpoint")
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(torch, "save", fail)
            with pytest.raises(ResourceError, match=str(error.args[-1])):
                write_checkpoint(newer, path)
        assert file_hash(path) == before and os.listdir(tmp_path) == ["last.ckpt"]
    with pytest.raises(ResourceError, match=r"last\.ckpt"):
        write_checkpoint(content, path / "below" / "last.ckpt")


@pytest.mark.faults("F2", simulated="os.fsync and os.link fail")
def test_a_disk_that_is_full_at_the_sync_leaves_the_old_files_whole(content, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path, previous = tmp_path / "last.ckpt", tmp_path / "previous.ckpt"
    write_checkpoint(content, previous)
    write_checkpoint(content, path)
    before = [(file_hash(one), one.stat().st_ino) for one in (path, previous)]
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(os, "link", full)
    with pytest.raises(ResourceError, match="No space left"):
        write_checkpoint(content, path, previous)
    assert [(file_hash(one), one.stat().st_ino) for one in (path, previous)] == before
    assert sorted(os.listdir(tmp_path)) == ["last.ckpt", "previous.ckpt"]


@pytest.mark.faults("R13", simulated="calls are recorded, no power is cut")
def test_a_write_is_synced_before_it_is_renamed(content, tmp_path, monkeypatch):
    order = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, original=original: (order.append(name), original(*a))[1])
    write_checkpoint(content, tmp_path / "new" / "last.ckpt")
    assert order == ["fsync", "replace", "fsync"]
    with zipfile.ZipFile(tmp_path / "new" / "last.ckpt") as archive:
        assert archive.testzip() is None


@pytest.mark.faults("C13")
def test_description_survives_only_with_plain_values():
    kept = replace(Description(CLASSES, NetworkSpec("vit", 3), Preprocess(8)), metrics={"x": Path("/tmp")})
    with pytest.raises(TypeError):
        kept.to_dict()
