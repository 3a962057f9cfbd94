"""Files of weights are untrusted files: whole ones are read, everything else ends in one clear line."""

import argparse
import json
import pickle
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.checkpoints.test_format import Marker
from vit.errors import CheckpointError
from vit.weights.file import read_config, read_weights_file

WEIGHTS = {"a": torch.arange(6.0).reshape(2, 3), "b.bias": torch.ones(4, dtype=torch.bfloat16)}


def refused(path, *words):
    with pytest.raises(CheckpointError) as caught:
        read_weights_file(path)
    text = str(caught.value)
    assert str(path) in text and caught.value.fix and "\n" not in text
    for word in words:
        assert word in text, text


def write(path, weights):
    if path.suffix == ".safetensors":
        save_file(weights, path)
    elif path.suffix == ".npz":
        np.savez(path, **{name: value.float().numpy() for name, value in weights.items()})
    else:
        torch.save(weights, path)
    return path


@pytest.mark.parametrize("name", ["x.safetensors", "x.pth", "x.bin", "x.npz"])
def test_every_kind_of_file_is_read_and_cut_ones_are_refused(name, tmp_path):
    whole = write(tmp_path / name, WEIGHTS)
    read = read_weights_file(whole).weights
    assert read.keys() == WEIGHTS.keys()
    assert all(value.dtype == torch.float32 and torch.equal(value, WEIGHTS[key].float()) for key, value in read.items())
    content = whole.read_bytes()
    for share in range(20):
        cut = tmp_path / f"cut{share}{whole.suffix}"
        cut.write_bytes(content[: len(content) * share // 20])
        refused(cut, f"({cut.stat().st_size:,} bytes)")


@pytest.mark.parametrize("wrapper", [("model",), ("state_dict",), ("teacher",), ("state_dict", "model")])
def test_what_trainers_wrap_around_is_taken_off(wrapper, tmp_path):
    content = WEIGHTS
    for name in wrapper:
        content = {name: content, "epoch": 3, "args": argparse.Namespace(lr=0.1)}
    torch.save(content, tmp_path / "x.pth")
    assert read_weights_file(tmp_path / "x.pth").weights.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("place", ["weights", "beside", "whole"])
@pytest.mark.parametrize("forced", [True, False])
def test_code_does_not_run(place, forced, tmp_path, monkeypatch):
    marker = Marker(tmp_path / "marker")
    path = tmp_path / "x.pth"
    if place == "whole":
        path.write_bytes(pickle.dumps(marker))
    else:
        torch.save({**WEIGHTS, "c": marker} if place == "weights" else {"model": WEIGHTS, "args": marker}, path)
    if forced:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    refused(path, "would run code" if place != "whole" else "not a PyTorch file")
    with open(tmp_path / "x.npz", "wb") as file:
        np.savez(file, a=np.array([marker], dtype=object))
    refused(tmp_path / "x.npz")
    assert not (tmp_path / "marker").exists()


def test_the_old_format_says_how_to_mend_it(tmp_path):
    torch.save(WEIGHTS, tmp_path / "x.pth", _use_new_zipfile_serialization=False)
    refused(tmp_path / "x.pth", "before version 1.6", "save it again")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"a": torch.ones(1).expand(10**9)}, "not hold a dictionary of names"),  # a view of one number
        ({"a": torch.eye(3).to_sparse()}, "not a whole file"),
        ([torch.ones(3)], "not hold a dictionary"),
        ({"a": torch.tensor([1.0, float("nan")])}, "not numbers, in a"),
        ({}, "no tensors"),
    ],
)
def test_contents_that_are_no_weights(content, words, tmp_path):
    torch.save(content, tmp_path / "x.pth")
    refused(tmp_path / "x.pth", words)


def test_an_array_that_claims_more_than_it_holds(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(4, np.float32))
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        whole = archive.read("a.npy")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", whole.replace(b"(4,), }         ", b"(4000000000,), }")[: len(whole)])
    refused(tmp_path / "x.npz", "(4000000000,)", "more than it holds")


def test_an_archive_that_unpacks_to_a_thousandfold(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(10**6, np.float32))
    refused(tmp_path / "x.npz", "more than twice its size")


def test_a_folder_in_parts(tmp_path):
    write(tmp_path / "model-1.safetensors", {"a": WEIGHTS["a"]})
    write(tmp_path / "model-2.safetensors", {"b.bias": WEIGHTS["b.bias"]})
    index = {"weight_map": {"a": "model-1.safetensors", "b.bias": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_weights_file(tmp_path).weights.keys() == WEIGHTS.keys()
    index["weight_map"]["a"] = "../outside.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(tmp_path, "holds no model.safetensors")


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_a_config_that_is_none(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read_config(tmp_path / "config.json")
    assert read_config(tmp_path / "missing.json") == {}
