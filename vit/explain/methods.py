"""The methods of `vit explain` by name, and which of them a network can have."""

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
    """Methods by a comma separated list of names; "all" gives those that the network and this installation can.

    "best" is the one to show where only one is shown: relevance for a ViT, which docs/results.md found as faithful as
    Grad-CAM and which needs no other package, and Grad-CAM for anything else.

    Raises:
        UsageError: there is no such method, or it reads attention that the network does not have.
    """
    is_vit = isinstance(network, VisionTransformer)
    if names == "best":
        names = "relevance" if is_vit else "gradcam"
    if names == "all":
        possible = METHODS if is_vit else {"gradcam": gradcam}
        found = {
            name: method for name, method in possible.items() if name != "gradcam" or find_spec("pytorch_grad_cam")
        }
        return found or {"gradcam": gradcam}  # which says what to install
    chosen = {}
    for name in (part.strip() for part in names.split(",")):
        if name not in METHODS:
            raise UsageError(f"there is no method {name!r}", nearest(name, [*METHODS, "all", "best"]))
        if name != "gradcam" and not is_vit:
            raise UsageError(
                f"the method {name} reads the attention of a ViT of ours, and this is a {type(network).__name__}",
                "choose --method gradcam",
            )
        chosen[name] = METHODS[name]
    return chosen
