"""Grad-CAM, by the grad-cam package: where the last features that still have places speak for a class."""

import torch
from torch import Tensor, nn

from vit.errors import UsageError, install
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer


def gradcam(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) and a class for each (B,) -> maps (B, S, S), interpolated from the features' grid.

    Selvaraju et al. 2017 (arXiv 1610.02391): channels weighted by their mean gradient, and the positive part of their
    sum. Of a ViT with a class token it reads what enters the last block's attention, as the package's guide for ViTs
    says (jacobgil.github.io/pytorch-gradcam-book): after it, no patch has a way to the head.

    Raises:
        UsageError: the package is not installed, or no layer of the network keeps the places of an image.
    """
    try:
        from pytorch_grad_cam import GradCAM
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
    except ImportError as error:
        raise UsageError(
            "the method gradcam needs the package grad-cam", f"{install('explain')}; or --method rollout"
        ) from error
    if isinstance(network, VisionTransformer):
        layer, places = _last_tokens(network), _TokenGrid(network)
    else:
        layer, places = _last_features(network, images[:1]), None
    with torch.enable_grad(), GradCAM(network, [layer], reshape_transform=places) as cam:
        maps = cam(images, [ClassifierOutputTarget(number) for number in class_indices.tolist()])
    network.zero_grad()  # the package goes backward through all weights
    return torch.from_numpy(maps)


class _TokenGrid:
    """Tokens (B, T, D) as features (B, D, G, G) of the patches alone."""

    def __init__(self, network: VisionTransformer) -> None:
        self.grid = network.config.grid_size

    def __call__(self, tokens: Tensor) -> Tensor:
        return tokens[:, -(self.grid**2) :].transpose(1, 2).unflatten(2, (self.grid, self.grid))


def _last_tokens(network: VisionTransformer) -> nn.Module:
    """The last module whose output holds all patch tokens, and through which they reach the head."""
    if network.config.pool not in ("cls", "cls_dist"):
        return network.norm
    depth = len(network.blocks)
    if network.config.norm_placement == "pre":
        return network.get_submodule(f"blocks.{depth - 1}.norm1")
    return network.blocks[-2] if depth > 1 else network.pos_drop


def _last_features(network: Network, image: Tensor) -> nn.Module:
    """The outermost module that ends last with features (1, channels, h, w) of more than one place."""
    ended: list[nn.Module] = []

    def note(module: nn.Module, _: object, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and min(output.shape[2:]) > 1:
            ended.append(module)

    handles = [module.register_forward_hook(note) for module in network.modules()]
    try:
        with torch.no_grad():
            network(image)
    finally:
        for handle in handles:
            handle.remove()
    if not ended or getattr(getattr(network, "model", None), "output_fmt", "NCHW") != "NCHW":
        raise UsageError(
            "grad-cam finds no layer of this network that keeps the places of an image", "give a CNN or one of our ViTs"
        )
    return ended[-1]
