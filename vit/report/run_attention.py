"""What spoke for a run's labels: a map over images that it gets right, and over images that it gets wrong."""

from collections.abc import Sequence

import torch
from markupsafe import Markup
from torch import Tensor

from vit.checkpoints.load import load
from vit.checkpoints.run import RunDirectory
from vit.errors import VitError
from vit.explain.methods import choose_methods
from vit.report.overlay import enlarged, overlay
from vit.report.thumbnails import encoded


def overlays(run: RunDirectory, images: Sequence[Tensor], said: Sequence[str]) -> list[tuple[Markup, Markup]]:
    """(what the network saw, the same under the map of what it said) of each image, as sources of <img>.

    Empty where there is nothing to show: no checkpoint any more, no layer that a map could be made of, no image. Nor
    is a report lost because another library's network cannot be differentiated so, or not in this memory.

    Args:
        run: its best checkpoint is asked.
        images: pixels (3, H, W) uint8.
        said: the class that each was taken for.
    """
    if not images:
        return []
    try:
        network, description = load(run.best_path)
        (method,) = choose_methods("best", network).values()
        seen = torch.stack([description.preprocess(image) for image in images])
        numbers = torch.tensor([description.class_names.index(name) for name in said])
        maps = method(network, description.preprocess.normalize(seen), numbers)
    except (VitError, RuntimeError):
        return []
    return [
        (encoded(enlarged(image)), encoded(overlay(image, importance)))
        for image, importance in zip(seen, maps, strict=True)
    ]
