"""timm: weights that `timm.create_model(NAME, checkpoint_path=PATH, ...)` takes."""

from pathlib import Path
from typing import Any

import timm
from safetensors.torch import save_file

from vit.errors import UsageError
from vit.export.deployed import Trained, calibrated_weights
from vit.export.format import Classify, Format
from vit.export.weights import metadata
from vit.models.catalog import CATALOG
from vit.models.timm_network import TimmNetwork
from vit.models.vision_transformer import VisionTransformer

BASE = "vit_base_patch16_224"  # the ViT of timm that a ViT without a name there is a variant of
_SAME = ("patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "qkv_bias", "qk_norm")
_POOLS = {"cls": "token", "mean": "avg", "patch_mean": "avg", "map": "map"}
_ACTIVATIONS = {"gelu": None, "gelu_tanh": "gelu_tanh", "quick_gelu": "quickgelu"}


class TimmFile(Format):
    """A .safetensors file in timm's names; a calibration's temperature is folded into the last layer."""

    ending = ".safetensors"

    def write(self, trained: Trained, path: Path) -> None:
        _arguments(trained)  # refuse before anything is written
        weights = calibrated_weights(trained)
        positions = getattr(trained.network, "pos_embed", None)
        if positions is not None:  # fixed ones are no parameter of ours, but one of timm's
            weights["pos_embed"] = positions
        names = {name: name.removeprefix("model.") for name in weights}
        save_file(
            {names[name]: value.contiguous() for name, value in weights.items()}, path, metadata=metadata(trained)
        )

    def read(self, trained: Trained, path: Path) -> Classify:
        name, options = _arguments(trained)
        model = timm.create_model(name, checkpoint_path=str(path), **options).eval()
        normalise = trained.description.preprocess.normalise
        return lambda images: model(normalise(images)).softmax(dim=1)

    def how_to_load(self, trained: Trained, path: Path) -> str:
        name, options = _arguments(trained)
        words = "".join(f", {key}={value!r}" for key, value in options.items())
        return f"model = timm.create_model({name!r}, checkpoint_path={str(path)!r}{words})"


def _arguments(trained: Trained) -> tuple[str, dict[str, Any]]:
    """timm's name for a network, and what create_model needs beside it."""
    network = trained.network
    if isinstance(network, VisionTransformer):
        name, options = _vit_arguments(trained.description.network)
    elif isinstance(network, TimmNetwork):
        name, options = trained.description.network["model"], _size_if_taken(trained.description.network)
    else:
        raise UsageError(
            f"timm cannot build {trained.description.network['name']} by a name: its stem is made for small images",
            "give --format onnx, pt2 or safetensors",
        )
    return name, {"num_classes": network.num_classes, **options, "pretrained_cfg_overlay": _preprocessing(trained)}


def _vit_arguments(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What is said of a ViT beyond the timm model of that name; timm's defaults are the paper's, as ours are."""
    for key, kept in (("norm_placement", ("pre",)), ("pool", tuple(_POOLS)), ("activation", tuple(_ACTIVATIONS))):
        if values.get(key, kept[0]) not in kept:
            raise UsageError(f"timm has no ViT with {key} {values[key]!r}", "give --format onnx, pt2 or safetensors")
    name = values["name"] if timm.is_model(values["name"]) else BASE
    base = CATALOG[name].values
    options = {key: values[key] for key in _SAME if key in values and values[key] != base.get(key)}
    if values["image_size"] != base["image_size"]:
        options["img_size"] = values["image_size"]
    pool = values.get("pool", "cls")
    if pool != "cls":
        options |= {"global_pool": _POOLS[pool], "fc_norm": values.get("pool_norm", False)}
    if pool in ("mean", "map"):
        options["class_token"] = False
    if values.get("pos_embed") == "none":
        options["pos_embed"] = "none"
    if not values.get("prefix_positions", True):
        options["no_embed_class"] = True
    if values.get("embed_norm", False):
        options["pre_norm"] = True
    if values.get("layer_scale"):
        options["init_values"] = values["layer_scale"]
    if values.get("num_registers"):
        options["reg_tokens"] = values["num_registers"]
    if _ACTIVATIONS[values.get("activation", "gelu")]:
        options["act_layer"] = _ACTIVATIONS[values["activation"]]
    return name, options


def _size_if_taken(values: dict[str, Any]) -> dict[str, Any]:
    """The image size, for those models of timm that are built for one."""
    size = {"img_size": values["image_size"]}
    try:
        timm.create_model(values["model"], num_classes=values["num_classes"], **size)
    except TypeError:
        return {}
    return size


def _preprocessing(trained: Trained) -> dict[str, Any]:
    """What timm.data.resolve_model_data_config reads of a model."""
    plain = trained.description.preprocess
    side = plain.image_size
    return {
        "input_size": (3, side, side),
        "mean": plain.mean,
        "std": plain.std,
        "interpolation": plain.interpolation,
        "crop_pct": plain.crop_fraction,
    }
