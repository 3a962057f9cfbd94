"""The model of a library that a name stands for; imports timm only where the name may be one of its names"""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from vit.models.network_names import import_timm, timm_names
from vit.weights.formats.weight_format import TimmModel, Weights
from vit.weights.license import UNKNOWN
from vit.weights.preprocess_config import PreprocessValues
from vit.weights.torchvision_networks import named_by_torchvision

_TORCHVISION, _SWAG = "bsd-3-clause", "cc-by-nc-4.0"  # licenses of torchvision's weights, and of those of SWAG
_USUAL = {  # end of a tensor's name: usual networks that have it
    "layer1.0.conv1.weight": ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d"),
    "blocks.0.0.conv_dw.weight": ("efficientnet_b0", "efficientnet_b3", "mobilenetv2_100", "mobilenetv3_large_100"),
    "stages.0.blocks.0.conv_dw.weight": ("convnext_tiny", "convnext_small", "convnext_base"),
    "layers.0.blocks.0.attn.qkv.weight": ("swin_tiny_patch4_window7_224", "swin_base_patch4_window7_224"),
    "denseblock1.denselayer1.conv1.weight": ("densenet121",),
    "features.0.0.weight": ("mobilenetv3_large_100", "mobilenetv3_small_100", "mobilenetv2_100", "efficientnet_b0",
                            "efficientnetv2_s", "convnext_tiny", "swin_tiny_patch4_window7_224"),
    "trunk_output.block1.block1-0.proj.0.weight": ("regnety_004", "regnety_016", "regnety_032", "regnetx_004_tv"),
}  # fmt: skip
_HASH_AND_ENDING = re.compile(r"(-[0-9a-f]{8})?(\.(safetensors|pth|pt|bin|npz|tar|ckpt))*$")


@dataclass(frozen=True)
class PublishedFile:
    """A file that a library publishes under its name."""

    model: str  # name of the model and its weights in that library
    preprocess: PreprocessValues  # torchvision's preprocessing of these weights; {}: timm's configuration has it
    image_size: int | None = None  # side of torchvision's images, in pixels; None: timm's configuration has it
    class_names: tuple[str, ...] | None = None  # names of the classes; None: unknown
    license: str = UNKNOWN  # license of the weights; "not stated": timm's configuration has it


def named_model(name: str, image_size: int | None = None, global_pool: str | None = None) -> TimmModel | None:
    """As `timm_model`; None if timm does not have it. timm is imported only where it may have the name."""
    if timm_names() and name.partition(".")[0] not in timm_names():
        return None
    import_timm()  # not above: timm takes seconds
    from vit.weights.formats.timm_models import timm_model

    return timm_model(name, image_size, global_pool)


def is_of_timm(name: str | None) -> bool:
    """Whether timm may have a model of that name, with or without the tag of its weights."""
    return bool(name) and str(name).partition(".")[0] in timm_names()


def usual_networks(weights: Weights) -> list[str]:
    """Those of the most usual networks of timm that have the tensors of a file, for the advice of an error."""
    found: list[str] = []
    known = [names for end, names in _USUAL.items() if any(name.endswith(end) for name in weights)]
    for name in filter(is_of_timm, (name for names in known for name in names)):
        with suppress(ValueError):
            model = named_model(name)
            found += [name] if model is not None and _fits(model, weights) else []
    return found


def _fits(model: TimmModel, weights: Weights) -> bool:
    """Whether weights have the tensors of a model by the names of timm or of torchvision."""
    with suppress(ValueError):
        return bool(model.weights_of(weights))
    return named_by_torchvision(model, weights) is not None


def is_published(model: TimmModel, name: str, weights: Weights) -> bool:
    """Whether a name of a file tells which of timm's weights these are: by its tag, or because timm has one set alone.

    A file without a tag must also have timm's number of classes: a training of somebody's own often has another.
    """
    timm = import_timm()
    tag, own = name.partition(".")[2], model.config.get("tag")
    if tag or not own:
        return bool(tag) and tag == own
    heads = model.config.get("classifier") or ()
    ends = tuple(f"{head}.weight" for head in ((heads,) if isinstance(heads, str) else heads))
    rows = {len(value) for key, value in weights.items() if key.endswith(ends) and value.ndim > 1}
    return len(timm.models.get_arch_pretrained_cfgs(model.name)) == 1 and rows == {model.config.get("num_classes")}


def stem_of(file_name: str) -> str:
    """The name of a file without its endings and the hash that torch.hub adds."""
    return _HASH_AND_ENDING.sub("", file_name)


def published_file(file_name: str) -> PublishedFile | None:
    """The weights that a library publishes in a file of this name, by the addresses in its tables; None: of no library.

    The name tells more than that of a network: a ResNet-50 of torchvision and one of timm have other preprocessing.
    """
    stem = file_name.partition(".")[0] if file_name.count(".") == 1 else file_name.rpartition(".")[0]
    from torchvision import models

    for model in models.list_models(module=models):
        for weights in models.get_model_weights(model):
            if weights.url.rpartition("/")[2].rpartition(".")[0] == stem:
                names, license_name = tuple(weights.meta["categories"]), license_of_torchvision(weights)
                (side,) = weights.transforms().crop_size
                return PublishedFile(model, of_torchvision(weights), side, names, license_name)
    timm = import_timm()
    for name in timm.list_pretrained():
        config = timm.models.get_pretrained_cfg(name)
        if config is not None and config.url and config.url.rpartition("/")[2].rpartition(".")[0] == stem:
            return PublishedFile(name, {})
    return None


def license_of_torchvision(weights: Any) -> str:
    """The license of a set of torchvision's weights. Those with a license of their own are all of SWAG."""
    return _SWAG if "license" in weights.meta else _TORCHVISION


def of_torchvision(weights: Any) -> PreprocessValues:
    """The preprocessing of a set of torchvision's weights."""
    seen = weights.transforms()
    return {
        "mean": tuple(seen.mean),
        "std": tuple(seen.std),
        "interpolation": seen.interpolation.value,
        "crop_fraction": seen.crop_size[0] / seen.resize_size[0],
    }
