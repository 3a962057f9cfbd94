"""torchvision's networks that timm computes too: their tensors in timm's names, proved by equal outputs

Both libraries register the layers of these networks in one order, under other names. Tensors are matched by this order
and by their shapes. The match counts only where both networks compute the same outputs, so a wrong one is an error.
"""

from collections import defaultdict

import torch

from vit.errors import CheckpointError
from vit.models.outside.timm_import import import_timm
from vit.weights.formats.weight_format import Weights

_TIMM = {"mobilenet_v2": "mobilenetv2_100", "swin_t": "swin_tiny_patch4_window7_224",
         "swin_s": "swin_small_patch4_window7_224", "swin_b": "swin_base_patch4_window7_224"}  # fmt: skip
_SAME_NAME = ("convnext_", "efficientnet_b", "resnet", "resnext", "vgg", "wide_resnet")
_TOLERANCE = 1e-5  # of the largest output, in float32


def timm_name(name: str) -> str:
    """timm's name for a network of torchvision; "" where timm does not have the network."""
    return _TIMM.get(name, name if name.startswith(_SAME_NAME) else "")


def timm_weights(name: str, weights: Weights, image_size: int) -> Weights:
    """Published weights of a network of torchvision in timm's names.

    Args:
        name: torchvision's name of the network, for which `timm_name` has a name.
        weights: tensors by torchvision's names.
        image_size: side of the image of the proof, in pixels.

    Raises:
        CheckpointError: the tensors are not those of the network, or timm's network computes other outputs with them.
    """
    from torchvision import models

    import_timm()
    import timm

    theirs, ours = models.get_model(name, weights=None).eval(), timm.create_model(timm_name(name)).eval()
    if weights.keys() == ours.state_dict().keys():
        return weights
    fix = f"give timm:{timm_name(name)}"
    try:
        theirs.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"these are not the weights of torchvision's {name}", fix) from error
    unmatched = defaultdict(list)
    for value in theirs.state_dict().values():
        if value.is_floating_point():
            unmatched[len(value), value.numel()].append(value)
    matched = ours.state_dict()
    for key, value in matched.items():
        if value.is_floating_point():
            candidates = unmatched[len(value), value.numel()]
            if not candidates:
                raise CheckpointError(f"timm's {timm_name(name)} has other tensors than torchvision's {name}", fix)
            matched[key] = candidates.pop(0).reshape(value.shape)
    ours.load_state_dict(matched)
    image = torch.randn(1, 3, image_size, image_size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected, computed = theirs(image), ours(image)
    if any(unmatched.values()) or not (computed - expected).abs().max() <= _TOLERANCE * expected.abs().max():
        raise CheckpointError(f"timm's {timm_name(name)} computes other outputs than torchvision's {name}", fix)
    return matched
