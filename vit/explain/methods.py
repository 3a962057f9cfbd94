"""The methods of `vit explain` by name, and the choice of methods for a network

Our ViTs have all methods. So do the ViTs of timm whose attention can be read (`timm_attention.NETWORKS`). Other
networks have Grad-CAM.
"""

from collections.abc import Callable, Mapping
from importlib.util import find_spec

from torch import Tensor

from vit.errors import UsageError, nearest
from vit.explain.attention import last_attention
from vit.explain.gradcam import gradcam
from vit.explain.relevance import relevance
from vit.explain.rollout import rollout
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer

Method = Callable[..., Tensor]  # (network, normalized images (B, 3, S, S), classes (B,)) -> maps (B, h, w), not below 0

METHODS: Mapping[str, Method] = {
    "attention": last_attention,
    "rollout": rollout,
    "relevance": relevance,
    "gradcam": gradcam,
}


def choose_methods(names: str, network: Network) -> dict[str, Method]:
    """The methods that a comma-separated list names.

    "all" stands for all methods that fit the network and the installed packages. "best" stands for one method:
    relevance where attention can be read, and Grad-CAM for other networks. Relevance is as faithful as Grad-CAM
    (docs/measurements.md), and needs no other package.

    Raises:
        UsageError: a method is unknown, or reads attention that the network does not have.
    """
    has_attention = num_readable_blocks(network) > 0
    if names == "best":
        names = "relevance" if has_attention else "gradcam"
    if names == "all":
        possible = METHODS if has_attention else {"gradcam": gradcam}
        found = {
            name: method for name, method in possible.items() if name != "gradcam" or find_spec("pytorch_grad_cam")
        }
        return found or {"gradcam": gradcam}  # its error says what to install
    chosen = {}
    for name in (part.strip() for part in names.split(",")):
        if name not in METHODS:
            raise UsageError(f"there is no method {name!r}", nearest(name, [*METHODS, "all", "best"]))
        if name != "gradcam" and not has_attention:
            raise UsageError(
                f"the method {name} needs a ViT whose attention can be read, and this network is a {_kind(network)}",
                "choose --method gradcam",
            )
        chosen[name] = METHODS[name]
    return chosen


def num_readable_blocks(network: Network) -> int:
    """Number of blocks whose attention the methods read; 0 where they cannot."""
    if isinstance(network, VisionTransformer):
        return len(network.blocks)
    if getattr(network, "model", None) is None:
        return 0
    from vit.explain.timm_attention import attention_modules  # not above: timm takes seconds

    try:
        return len(attention_modules(network))
    except UsageError:
        return 0


def _kind(network: Network) -> str:
    """The type of a network, for an error; of a network of timm, the type in timm."""
    name = type(network).__name__
    return f"{type(network.model).__name__} of timm" if name == "TimmNetwork" else name
