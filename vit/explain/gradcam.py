"""Grad-CAM by the grad-cam package: where the last features with positions support a class"""

import torch
from torch import Tensor, nn

from vit.errors import UsageError, install
from vit.explain.feature_maps import ToFeatureMap, last_features
from vit.models.ablations import AblatedTransformer
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer


def gradcam(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) and a class for each (B,) -> maps (B, S, S), interpolated from the features' grid.

    Selvaraju et al. 2017 (arXiv 1610.02391). Channels are weighted by their mean gradient, and the map is the positive
    part of their sum. In a ViT with a class token, the features are the input of the last block's attention, as the
    package's guide for ViTs says (jacobgil.github.io/pytorch-gradcam-book). After this attention no patch reaches the
    head. A ViT without some of its parts is read at the same place. In a network of timm, the features are those that
    timm's `forward_intermediates` gives, of the last layer from which a gradient reaches them.

    Raises:
        UsageError: the package is not installed, or no layer of the network is known to have features with positions.
    """
    try:
        from pytorch_grad_cam import GradCAM
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
    except ImportError as error:
        raise UsageError(
            "the method gradcam needs the package grad-cam", f"{install('explain')}; or --method rollout"
        ) from error
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
    config = network.config
    norms: str
    if isinstance(network, VisionTransformer):
        vit, norms, end_of_block = network, network.config.norm_placement, ""
    else:  # calls the parts of a block, not the block
        vit, norms, end_of_block = network.vit, network.config.norms, ".norm2"
    if config.num_read is None:
        return vit.norm
    if norms != "post":
        return vit.get_submodule(f"blocks.{config.depth - 1}.norm1")
    if config.depth == 1:
        return vit.pos_drop
    return vit.get_submodule(f"blocks.{config.depth - 2}{end_of_block}")
