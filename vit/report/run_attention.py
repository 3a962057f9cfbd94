"""Where a run's network looks: a map over images that it gets right, and over images that it gets wrong."""

from collections.abc import Sequence

import torch
from markupsafe import Markup
from torch import Tensor

from vit.errors import VitError
from vit.explain.methods import choose_methods
from vit.report.overlay import enlarged, overlay
from vit.report.thumbnails import encoded
from vit.training.checkpoint import load
from vit.training.run import RunDirectory

METHOD = "rollout"  # needs no gradient, and is there for every ViT of ours


def overlays(run: RunDirectory, images: Sequence[Tensor]) -> list[tuple[Markup, Markup]]:
    """(what the network saw, the same under its map) of each image, pixels (3, H, W) uint8, as sources of <img>.

    Empty where there is nothing to show: no checkpoint any more, no attention in the network, or no image.
    """
    if not images:
        return []
    try:
        network, description = load(run.best)
        (method,) = choose_methods(METHOD, network).values()
    except VitError:
        return []
    seen = torch.stack([description.preprocess(image) for image in images])
    with torch.inference_mode():
        maps = method(network, description.preprocess.normalise(seen), torch.zeros(len(seen), dtype=torch.int64))
    return [
        (encoded(enlarged(image)), encoded(overlay(image, importance)))
        for image, importance in zip(seen, maps, strict=True)
    ]
