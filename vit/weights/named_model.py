"""The model of timm that a name stands for; and torchvision's networks that timm computes too, in timm's names

timm is imported only where a name may be one of its names. Both libraries register the layers of these networks in one
order, under other names. Tensors are matched by this order and by their shapes. The match counts only where both
networks compute the same outputs, so a wrong one is an error.
"""

import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace

import torch
from torch import nn

from vit.errors import CheckpointError
from vit.models.network import Undrawn
from vit.models.network_names import import_timm, timm_names
from vit.weights.formats.weight_format import TimmModel, TimmWeights, Weights
from vit.weights.trainer_file import State

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
_TIMM = {"mobilenet_v2": "mobilenetv2_100", "mobilenet_v3_large": "mobilenetv3_large_100",
         "mobilenet_v3_small": "mobilenetv3_small_100", "efficientnet_v2_s": "efficientnetv2_s",
         "efficientnet_v2_m": "efficientnetv2_m", "efficientnet_v2_l": "efficientnetv2_l",
         "swin_t": "swin_tiny_patch4_window7_224", "swin_s": "swin_small_patch4_window7_224",
         "swin_b": "swin_base_patch4_window7_224"}  # fmt: skip
_SAME_NAME = ("convnext_", "densenet", "efficientnet_b", "resnet", "resnext", "vgg", "wide_resnet")
_REGNET = re.compile(r"regnet_([xy])_(\d+)(?:_(\d))?([mg])f")
# timm has those of the paper beside torchvision's
_OTHER_REGNETS = ("regnet_x_400mf", "regnet_y_800mf", "regnet_y_8gf")
_TOLERANCE = 1e-5  # of the largest output, in float32


def named_model(name: str, image_size: int | None = None, global_pool: str | None = None) -> TimmModel | None:
    """As `timm_model`; None if timm does not have it. timm is imported only where it may have the name."""
    if timm_names() and name.partition(".")[0] not in timm_names():
        return None
    import_timm()  # without wandb, before timm_models imports it
    from vit.weights.formats.timm_models import timm_model

    return timm_model(name, image_size, global_pool)


def is_of_timm(name: str) -> bool:
    """Whether timm may have a model of that name, with or without the tag of its weights."""
    return name.partition(".")[0] in timm_names()


def usual_networks(weights: Weights) -> list[str]:
    """Those of the most usual networks of timm that have the tensors of a file, for the advice of an error."""
    known = [names for end, names in _USUAL.items() if any(name.endswith(end) for name in weights)]
    models = {name: named_model(name) for names in known for name in names if is_of_timm(name)}
    return [name for name, model in models.items() if model is not None and _fits(model, weights)]


def _fits(model: TimmModel, weights: Weights) -> bool:
    """Whether weights have the tensors of a model by the names of timm or of torchvision."""
    with suppress(ValueError):
        return bool(model.weights_of(weights))
    return named_by_torchvision(model, weights) is not None


def is_published(model: TimmModel, name: str, weights: Weights) -> bool:
    """Whether a name of a file tells which of timm's weights these are: by its tag, or because timm has one set alone.

    A file without a tag must also have timm's number of classes: a training of somebody's own often has another.
    """
    tag, own_tag = name.partition(".")[2], model.config.get("tag")
    if tag or not own_tag:
        return bool(tag) and tag == own_tag
    ends = tuple(f"{head}.weight" for head in model.heads)
    rows = {len(value) for key, value in weights.items() if key.endswith(ends) and value.ndim > 1}
    sets = import_timm().models.get_arch_pretrained_cfgs(model.name)
    return len(sets) == 1 and rows == {model.config.get("num_classes")}


def stem_of(file_name: str) -> str:
    """The name of a file without its endings and the hash that torch.hub adds."""
    return _HASH_AND_ENDING.sub("", file_name)


def timm_name(name: str) -> str:
    """timm's name for a network of torchvision; "" where timm does not have the network."""
    if regnet := _REGNET.fullmatch(name):
        kind, whole, tenths, unit = regnet.groups()
        size = int(whole) // 100 if unit == "m" else 10 * int(whole) + int(tenths or 0)  # 10^8 multiply-adds
        return f"regnet{kind}_{size:03d}" + "_tv" * (name in _OTHER_REGNETS)
    return _TIMM.get(name, name if name.startswith(_SAME_NAME) else "")


def is_of_torchvision_alone(name: str) -> bool:
    """Whether torchvision has a network of this name that is neither a ViT nor a network of timm."""
    from torchvision import models

    return name in models.list_models(module=models) and not (name.startswith("vit") or timm_name(name))


def named_by_torchvision(
    model: TimmModel, weights: Weights, state: State | None = None
) -> tuple[str, TimmWeights] | None:
    """(torchvision's name of a model of timm, tensors of a file in torchvision's names); None: others."""
    from torchvision import models

    for name in models.list_models(module=models):
        if timm_name(name) != model.name:
            continue
        with torch.device("cpu" if name.startswith("regnet") else "meta"), Undrawn():  # a RegNet's widths are tensors
            theirs = models.get_model(name, weights=None)
        (*_, head) = (place for place, layer in theirs.named_modules() if isinstance(layer, nn.Linear))
        shapes = {key: value.shape for key, value in theirs.state_dict().items()}
        try:
            matched = TimmModel(name, {"classifier": head}, None, model.image_size, shapes).weights_of(weights, state)
        except ValueError:
            continue
        if matched.num_classes:
            return name, matched
    return None


def read_as_torchvision(model: TimmModel, weights: Weights, state: State | None = None) -> TimmWeights | None:
    """The tensors of `named_by_torchvision` in timm's names; None where that finds none. Errors: `timm_weights`."""
    if (match := named_by_torchvision(model, weights, state)) is None:
        return None
    name, matched = match
    return replace(matched, weights=timm_weights(name, matched.weights, model.image_size, matched.num_classes))


def timm_weights(name: str, weights: Weights, image_size: int, num_classes: int = 1000) -> Weights:
    """Weights of torchvision's network `name` in timm's names, proved by the outputs of both for one image.

    Where the batch norms of the two have other epsilons, the running variances hold the difference. CheckpointError:
    the tensors are not those of the network, or timm's network computes other outputs with them.
    """
    from torchvision import models

    timm = import_timm()
    theirs = models.get_model(name, weights=None, num_classes=num_classes).eval()
    ours = timm.create_model(timm_name(name), num_classes=num_classes).eval()
    if weights.keys() == ours.state_dict().keys():
        return weights
    fix = f"give timm:{timm_name(name)}"
    try:
        theirs.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"these are not the weights of torchvision's {name}", fix) from error
    unmatched = defaultdict(list)
    for _, value in _in_order(theirs.state_dict()):
        if value.is_floating_point():
            unmatched[len(value), value.numel()].append(value)
    matched, difference = ours.state_dict(), _epsilon(theirs) - _epsilon(ours)
    for key, value in matched.items():
        if value.is_floating_point():
            candidates = unmatched[len(value), value.numel()]
            if not candidates:
                raise CheckpointError(f"timm's {timm_name(name)} has other tensors than torchvision's {name}", fix)
            more = difference if key.endswith("running_var") else 0.0
            matched[key] = candidates.pop(0).reshape(value.shape) + more
    ours.load_state_dict(matched)
    image = torch.randn(1, 3, image_size, image_size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected, computed = theirs(image), ours(image)
    if any(unmatched.values()) or not (computed - expected).abs().max() <= _TOLERANCE * expected.abs().max():
        raise CheckpointError(f"timm's {timm_name(name)} computes other outputs than torchvision's {name}", fix)
    return matched


def _in_order(weights: Weights) -> list[tuple[str, torch.Tensor]]:
    """The tensors in timm's order: a RegNet has the projection beside a block's layers (`f`) behind them."""
    places: dict[str, int] = {}
    blocks = {key: re.split(r"\.(?:proj|f)\.", key)[0] for key in weights}
    for key, block in blocks.items():
        places.setdefault(block if block != key else key, len(places))
    return sorted(weights.items(), key=lambda item: (places[blocks[item[0]]], ".proj." in item[0]))


def _epsilon(network: nn.Module) -> float:
    """The epsilon of the batch norms of a network; 0 without any."""
    return next((layer.eps for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)), 0.0)
