"""Small networks with weights that are not trained, but far from equal answers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.label_rules import LabelRules
from vit.data.pixels.preprocess import Preprocess, ResizeMode
from vit.inference.deployment import LoadedModel
from vit.models.spec import NetworkSpec
from vit.weights.adapt import head_names

CLASSES = ("cat", "dög", "<b>hat</b>")
SMALL: dict[str, dict[str, Any]] = {
    "vit": {"name": "vit_nano_patch2_8", "depth": 1},
    "vit_mean": {"name": "vit_nano_patch2_8", "depth": 2, "pool": "mean", "pos_embed": "sincos2d"},
    "vit_post": {"name": "vit_nano_patch2_8", "depth": 2, "norm_placement": "post"},
    "vit_later": {"name": "vit_nano_patch2_8", "depth": 2, "pos_embed": "rope2d", "stem": "conv"},
    "vit_rotary": {"name": "vit_nano_patch2_8", "depth": 2, "pos_embed": "rope2d", "layer_scale": 0.3},
    "vit_eva": {
        "name": "vit_nano_patch2_8",
        "depth": 2,
        "pos_embed": "learned_rope2d_eva",
        "activation": "swiglu",
        "mlp_norm": True,
        "pool": "patch_mean",
        "pool_norm": True,
    },
    "ablated": {"name": "vit_nano_ablated", "patch_size": 2},
    "cnn": {"name": "resnet10_small", "widths": [8, 8, 8, 8]},
    "timm": {"name": "resnet10t"},
}


def make(kind: str, temperature: float = 1.0, resize_mode: ResizeMode = "shortest") -> LoadedModel:
    """A network of `SMALL` for 8 pixels (timm's: 32)."""
    torch.manual_seed(0)
    spec, side = NetworkSpec.from_plain(SMALL[kind], len(CLASSES)), 32 if kind == "timm" else 8
    spec = NetworkSpec.named(spec.name, spec.num_classes, spec.options)
    network = spec.build(side).eval()
    for name in head_names(network):
        torch.nn.init.normal_(network.get_parameter(name), std=0.5)
    preprocess = Preprocess(side, 0.9, (0.5, 0.4, 0.3), (0.25, 0.2, 0.3), "bilinear", resize_mode)
    return LoadedModel(network, Description(CLASSES, spec, preprocess, temperature=temperature))


def make_multilabel(kind: str) -> LoadedModel:
    """The same network for several labels: a temperature and a threshold for each."""
    made = make(kind)
    rules = LabelRules(np.array([0.5, 1.0, 3.0]), np.array([0.3, 0.5, 0.6]))
    return replace(made, description=replace(made.description, multilabel=rules))


@pytest.fixture(scope="session")
def trained() -> Callable[..., LoadedModel]:
    """`trained("vit")`, `trained("cnn", temperature=2.0)`; see `SMALL`."""
    return make


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The same as a checkpoint file."""

    def write(kind: str, temperature: float = 1.0) -> Path:
        made = make(kind, temperature)
        path = tmp_path_factory.mktemp("checkpoint") / f"{kind}.ckpt"
        torch.save(checkpoint_content(made.description, made.network.state_dict()), path)
        return path

    return write
