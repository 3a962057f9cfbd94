"""Grad-CAM by the grad-cam package: where the last features with positions support a class

Networks keep features in three layouts: (B, D, h, w) as CNNs, (B, h, w, D) as Swin, and tokens (B, T, D) as ViTs.
Shapes alone do not tell them apart. So the layout is found by comparison with the maps (B, D, h, w) that timm's
`forward_intermediates` gives.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vit.errors import UsageError, install
from vit.models.ablations import AblatedTransformer
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer

Layout = Literal["channels first", "channels last", "tokens"]
_Seen = tuple[nn.Module, Tensor]  # a module, and its output in one forward pass
_MAPPED = (  # modules whose outputs (B, D, h, w) are maps of an image; those of others may be (B, H, T, D / H)
    nn.Conv2d, nn.BatchNorm2d, nn.SyncBatchNorm, nn.GroupNorm, nn.InstanceNorm2d, nn.ReLU, nn.ReLU6, nn.LeakyReLU,
    nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish,
)  # fmt: skip
_FIX = "give a CNN, a network of timm with forward_intermediates, or one of our ViTs"


@dataclass(frozen=True)
class ToFeatureMap:
    """Features in the layout of a module -> maps (B, D, h, w)."""

    layout: Layout  # order of the dimensions
    height: int = 0  # h, for tokens. The last h^2 tokens are the patches, row by row.

    def __call__(self, features: Tensor) -> Tensor:
        if self.layout == "channels first":
            return features
        if self.layout == "channels last":
            return features.permute(0, 3, 1, 2)
        return features[:, -(self.height**2) :].transpose(1, 2).unflatten(2, (self.height, self.height))


def gradcam(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) and a class for each (B,) -> maps (B, S, S), interpolated from the features' grid.

    Selvaraju et al. 2017 (arXiv 1610.02391). Channels are weighted by their mean gradient, and the map is the positive
    part of their sum. In a ViT with a class token, the features are the input of the last block's attention, as the
    package's guide for ViTs says (jacobgil.github.io/pytorch-gradcam-book). After this attention no patch reaches the
    head. A ViT without some of its parts is read at the same place. In a network of timm, the features are those that
    timm's `forward_intermediates` gives, of the last layer from which a gradient reaches them. UsageError where the
    package is not installed, or no layer is known to have features with positions.
    """
    try:
        from pytorch_grad_cam import GradCAM
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
    except ImportError as error:
        fix = f"{install('explain')}; or --method rollout"
        raise UsageError("the method gradcam needs the package grad-cam", fix) from error
    if isinstance(network, VisionTransformer | AblatedTransformer):
        layer, reshape = _last_tokens(network), ToFeatureMap("tokens", network.config.grid_size)
    else:
        layer, reshape = last_features(network, images[:1], class_indices[:1])
    with torch.enable_grad(), GradCAM(network, [layer], reshape_transform=reshape) as cam:
        maps = cam(images, [ClassifierOutputTarget(number) for number in class_indices.tolist()])
    network.zero_grad()  # the package's backward pass reaches all weights
    return torch.from_numpy(maps)


def _last_tokens(network: VisionTransformer | AblatedTransformer) -> nn.Module:
    """The last module whose output holds all patch tokens, and through which they reach the head."""
    norms: str
    if isinstance(network, VisionTransformer):
        vit, norms, end_of_block = network, network.config.norm_placement, ""
    else:  # calls the parts of a block, not the block
        vit, norms, end_of_block = network.vit, network.config.norms, ".norm2"
    if network.config.num_read is None:
        return vit.norm
    depth = network.config.depth
    if norms != "post":
        return vit.get_submodule(f"blocks.{depth - 1}.norm1")
    return vit.pos_drop if depth == 1 else vit.get_submodule(f"blocks.{depth - 2}{end_of_block}")


def last_features(network: Network, image: Tensor, class_index: Tensor) -> tuple[nn.Module, ToFeatureMap]:
    """The last module whose output holds features of positions that reach the logit, and their layout.

    In a network without `forward_intermediates`, only outputs of convolutions, of norms and activations, and of blocks
    that contain a convolution count. UsageError where there is no such module, or its layout is unknown.

    Args:
        image: normalized image (1, 3, S, S).
        class_index: class of the logit (1,).
    """
    model: Any = getattr(network, "model", None)
    seen, gradients = _forward(network, image, class_index)
    if hasattr(model, "forward_intermediates"):
        with torch.no_grad():
            maps: list[Tensor] = model.forward_intermediates(image, output_fmt="NCHW", intermediates_only=True)
        for wanted in (one for one in reversed(maps) if one.ndim == 4 and min(one.shape[2:]) > 1):
            for (module, output), gradient in reversed(list(zip(seen, gradients, strict=True))):
                layout = None if gradient is None else _layout(output, wanted)
                if layout is not None and gradient is not None and bool(layout(gradient).any()):
                    return module, layout
    elif getattr(model, "output_fmt", "NCHW") == "NCHW":
        for module, output in reversed(seen):  # of modules that end at the same time, the outermost is the last
            # dimensions of a convolution, and not heads and tokens of attention
            is_map = isinstance(module, _MAPPED) or any(isinstance(part, nn.Conv2d) for part in module.modules())
            if is_map and output.ndim == 4 and min(output.shape[2:]) > 1:
                return module, ToFeatureMap("channels first")
    raise UsageError("grad-cam finds no layer of this network whose features have positions", _FIX)


def _forward(network: Network, image: Tensor, class_index: Tensor) -> tuple[list[_Seen], list[Tensor | None]]:
    """Outputs of all modules in the order in which they end, and the gradient of the logit with respect to each."""
    seen: list[_Seen] = []

    def note(module: nn.Module, _: object, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim in (3, 4) and output.requires_grad:
            seen.append((module, output))

    with ExitStack() as stack, torch.enable_grad():
        for module in network.modules():
            stack.enter_context(module.register_forward_hook(note))
        logit = network(image.detach().requires_grad_())[0, class_index]
        outputs = [output for _, output in seen]
        gradients = torch.autograd.grad(logit.sum(), outputs, allow_unused=True) if outputs else ()
    return seen, list(gradients)


def _layout(output: Tensor, wanted: Tensor) -> ToFeatureMap | None:
    """The layout in which an output holds a feature map; None where it does not."""
    height, width = wanted.shape[2:]
    layouts: list[ToFeatureMap] = []
    if output.ndim == 4:
        layouts = [ToFeatureMap("channels first"), ToFeatureMap("channels last")]
    elif height == width and output.shape[1] >= height * width:
        layouts = [ToFeatureMap("tokens", height)]
    for layout in layouts:
        features = layout(output.detach())
        if features.shape == wanted.shape and torch.allclose(features, wanted, rtol=1e-3, atol=1e-4):
            return layout
    return None
