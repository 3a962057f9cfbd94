"""Grad-CAM by the grad-cam package: where the last features with positions support a class"""

import torch
from torch import Tensor, nn

from vit.errors import UsageError, install
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer


def gradcam(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) and a class for each (B,) -> maps (B, S, S), interpolated from the features' grid.

    Selvaraju et al. 2017 (arXiv 1610.02391). Channels are weighted by their mean gradient, and the map is the positive
    part of their sum. In a ViT with a class token, the features are the input of the last block's attention, as the
    package's guide for ViTs says (jacobgil.github.io/pytorch-gradcam-book). After this attention no patch reaches the
    head.

    Raises:
        UsageError: the package is not installed, or no layer of the network has features with positions.
    """
    try:
        from pytorch_grad_cam import GradCAM
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
    except ImportError as error:
        raise UsageError(
            "the method gradcam needs the package grad-cam", f"{install('explain')}; or --method rollout"
        ) from error
    if isinstance(network, VisionTransformer):
        layer, reshape = _last_tokens(network), _TokensToGrid(network.config.grid_size)
    else:
        layer, reshape = _last_features(network, images[:1]), None
    with torch.enable_grad(), GradCAM(network, [layer], reshape_transform=reshape) as cam:
        maps = cam(images, [ClassifierOutputTarget(number) for number in class_indices.tolist()])
    network.zero_grad()  # the package's backward pass reaches all weights
    return torch.from_numpy(maps)


class _TokensToGrid:
    """Tokens (B, T, D) -> features of the patches (B, D, G, G)."""

    def __init__(self, grid_size: int) -> None:
        self.grid_size = grid_size

    def __call__(self, tokens: Tensor) -> Tensor:
        G = self.grid_size
        return tokens[:, -(G**2) :].transpose(1, 2).unflatten(2, (G, G))


def _last_tokens(network: VisionTransformer) -> nn.Module:
    """The last module whose output holds all patch tokens, and through which they reach the head."""
    config = network.config
    if config.num_read is None:
        return network.norm
    if config.norm_placement == "pre":
        return network.get_submodule(f"blocks.{config.depth - 1}.norm1")
    return network.blocks[-2] if config.depth > 1 else network.pos_drop


def _last_features(network: Network, image: Tensor) -> nn.Module:
    """The last outermost module whose output is features (1, channels, h, w) of more than one position."""
    finished: list[nn.Module] = []

    def note(module: nn.Module, _: object, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and min(output.shape[2:]) > 1:
            finished.append(module)

    handles = [module.register_forward_hook(note) for module in network.modules()]
    try:
        with torch.no_grad():
            network(image)
    finally:
        for handle in handles:
            handle.remove()
    if not finished or getattr(getattr(network, "model", None), "output_fmt", "NCHW") != "NCHW":
        raise UsageError("grad-cam finds no layer whose features have positions", "give a CNN or one of our ViTs")
    return finished[-1]
