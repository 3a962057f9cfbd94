"""The methods of `vit explain` by name, and the choice of methods for a network"""

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
    relevance for a ViT, and Grad-CAM for other networks. Relevance is as faithful as Grad-CAM (docs/results.md), and
    needs no other package.

    Raises:
        UsageError: a method is unknown, or reads attention that the network does not have.
    """
    is_vit = isinstance(network, VisionTransformer)
    if names == "best":
        names = "relevance" if is_vit else "gradcam"
    if names == "all":
        possible = METHODS if is_vit else {"gradcam": gradcam}
        found = {
            name: method for name, method in possible.items() if name != "gradcam" or find_spec("pytorch_grad_cam")
        }
        return found or {"gradcam": gradcam}  # its error says what to install
    chosen = {}
    for name in (part.strip() for part in names.split(",")):
        if name not in METHODS:
            raise UsageError(f"there is no method {name!r}", nearest(name, [*METHODS, "all", "best"]))
        if name != "gradcam" and not is_vit:
            raise UsageError(
                f"the method {name} needs a VisionTransformer, and this network is a {type(network).__name__}",
                "choose --method gradcam",
            )
        chosen[name] = METHODS[name]
    return chosen
