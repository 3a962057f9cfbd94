"""Parts that all pages of a run have."""

import pytest
import yaml

from vit.report.run.run_common import first_weights


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "random weights"),
        ("/home/a/deit_tiny.safetensors", "weights of deit_tiny.safetensors"),
        ("/home/a/runs/20260101-photos/", "weights of 20260101-photos"),
        ("/home/a/runs/20260101-photos/best.ckpt", "weights of 20260101-photos/best.ckpt"),
        ("best.ckpt", "weights of best.ckpt"),
        ("timm:deit_tiny_patch16_224", "weights of timm:deit_tiny_patch16_224"),
        ("hf:facebook/deit-tiny-patch16-224", "weights of hf:facebook/deit-tiny-patch16-224"),
    ],
)
def test_the_first_weights_are_named_without_folders_of_the_machine(source, words):
    assert first_weights(yaml.safe_dump({"model": {"init_from": source}})) == words
