"""Weights to start from, which are untrusted: one error, or the right tensors."""

import json
import struct
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from vit.checkpoints.format import Description, checkpoint_content
from vit.data.pixels.preprocess import Preprocess
from vit.errors import CheckpointError
from vit.models.spec import NetworkSpec, create_network
from vit.weights.open import open_pretrained
from vit.weights.pretrained import PretrainedWeights


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return create_network("vit_nano_patch2_8", 3, 8, depth=1)


@pytest.fixture(scope="module")
def whole(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "whole.safetensors"
    save_file({key: value.contiguous() for key, value in network.state_dict().items()}, path)
    return path


@pytest.mark.faults("C11")
def test_weights_in_timm_s_names_are_taken_and_a_head_for_other_classes_is_made_anew(network, whole):
    report = open_pretrained(str(whole)).fill(network)
    assert len(report.matched) == len(network.state_dict()) and not report.initialized
    other = create_network("vit_nano_patch2_8", 5, 8, depth=1)
    report = open_pretrained(str(whole)).fill(other)
    assert sorted(report.initialized) == ["head.bias", "head.weight"]
    assert torch.equal(other.pos_embed, network.pos_embed)


@pytest.mark.faults("P3")
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"pos_embed": "learned_rope2d_eva"}, "its pos_embed is learned_rope2d_eva, the network's learned"),
        ({"num_heads": 2}, "its num_heads is 2, the network's 4"),
        ({"activation": "gelu_tanh"}, "its activation is gelu_tanh, the network's gelu"),
    ],
)
def test_a_network_that_would_compute_something_else_with_the_same_tensors_is_refused(tmp_path, network, values, words):
    spec = NetworkSpec.named("vit_nano_patch2_8", 3, {"depth": 1, **values})
    description = Description(("a", "b", "c"), spec, Preprocess(8))
    torch.save(checkpoint_content(description, spec.build(8).state_dict()), tmp_path / "run.ckpt")
    found = open_pretrained(str(tmp_path / "run.ckpt"))
    with pytest.raises(CheckpointError, match=words):
        found.check_fit(network)
    found.check_fit(network, dict.fromkeys(values, 0))  # the user has set the option
    found.check_fit(spec.build(8))


@pytest.mark.faults("C11")
@pytest.mark.parametrize("prefix", ["module.", "encoder."])
def test_a_prefix_of_another_library_is_taken_off(network, tmp_path, prefix):
    save_file(
        {prefix + key: value.contiguous() for key, value in network.state_dict().items()}, tmp_path / "x.safetensors"
    )
    report = open_pretrained(str(tmp_path / "x.safetensors")).fill(network)
    assert len(report.matched) == len(network.state_dict()) and not report.initialized


def test_weights_for_another_network_name_their_own(tmp_path, whole):
    spec = NetworkSpec.named("vit_nano_patch2_8", 3)
    description = Description(("a", "b", "c"), spec, Preprocess(8))
    torch.save(checkpoint_content(description, spec.build(8).state_dict()), tmp_path / "run.ckpt")
    advised = {
        tmp_path / "run.ckpt": r"leave out --network, --model\.network\.\* and --image_size, for vit_nano_patch2_8 of",
        whole: "choose the --network and --image_size it was made for",  # its file does not say enough
    }
    with torch.device("meta"):
        other = create_network("resnet10_small", 3)
    for path, words in advised.items():
        with pytest.raises(CheckpointError, match=words):
            open_pretrained(str(path)).check_fit(other)
    found = open_pretrained(str(tmp_path / "run.ckpt"))
    damaged = replace(found, weights={name: value for name, value in found.weights.items() if name != "cls_token"})
    with pytest.raises(CheckpointError, match="cls_token is missing; choose other weights, because the network is"):
        damaged.check_fit(spec.build_empty(8))  # --network and --image_size would choose the same network


HEADERS = {
    "longer than the file": struct.pack("<Q", 2**62),
    "no JSON": struct.pack("<Q", 4) + b"<htm",
    "outside": {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 10**12]}},
    "overlapping": {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                    "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
    "a shape that is not its bytes": {"a": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4]}},
    "negative": {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
    "names of files": {"__metadata__": {"..": ""}, "../x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
}  # fmt: skip
MANY = "a million empty tensors"


@pytest.mark.faults("C14")
@pytest.mark.parametrize("name", [*HEADERS, pytest.param(MANY, marks=pytest.mark.slow)])
def test_hostile_headers(network, tmp_path, name):
    if name == MANY:
        empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
        header = {str(number): empty for number in range(1_000_000)}
    else:
        header = HEADERS[name]
    if isinstance(header, dict):
        text = json.dumps(header).encode()
        header = struct.pack("<Q", len(text)) + text + b"\0" * 4
    (tmp_path / "x.safetensors").write_bytes(header)
    with pytest.raises(CheckpointError):
        open_pretrained(str(tmp_path / "x.safetensors")).fill(network)


@pytest.mark.faults("C14")
@settings(max_examples=200)
@given(place=st.integers(0, 3000), junk=st.binary(min_size=1, max_size=8), cut=st.integers(0, 40_000))
def test_mutated_files_give_their_own_error_or_weights(network, whole, tmp_path_factory, place, junk, cut):
    content = bytearray(whole.read_bytes())
    content[place : place + len(junk)] = junk
    path = tmp_path_factory.getbasetemp() / "mutated.safetensors"
    path.write_bytes(content[: len(content) - cut])
    with suppress(CheckpointError):  # nothing else
        open_pretrained(str(path)).fill(network)


@pytest.mark.parametrize(("count", "named", "is_new"), [(2, True, True), (1000, False, False), (1000, True, True)])
def test_numbers_of_imagenet_say_nothing_beside_names_alone(count, named, is_new):
    """Two parts of ImageNet, such as Imagenette and Imagewoof, have other classes although both have numbers."""
    old = tuple(f"n{number:08}" if named else f"name {number}" for number in range(count))
    new = tuple(f"n{number:08}" for number in range(5000, 5000 + count))
    own = create_network("vit_nano_patch2_8", depth=1, num_classes=count)
    weights = PretrainedWeights("x", "vit", own.state_dict(), count, old, {}, "the checkpoint")
    network = create_network("vit_nano_patch2_8", depth=1, num_classes=count)
    assert bool(weights.fill(network, new).initialized) == is_new
