"""Maps of the pixels that supported a run's predictions"""

from collections.abc import Sequence

import torch
from markupsafe import Markup
from torch import Tensor

from vit.checkpoints.load import load
from vit.checkpoints.run import RunDirectory
from vit.errors import VitError
from vit.explain.methods import choose_methods
from vit.report.page.overlay import enlarged, overlay
from vit.report.page.thumbnails import encoded


def overlays(run: RunDirectory, images: Sequence[Tensor], predicted: Sequence[str]) -> list[tuple[Markup, Markup]]:
    """(input of the network, the same under a map of its prediction) of each image, as sources of <img>.

    Empty without a checkpoint, without images, or without a layer for a map. Also empty where the gradient of another
    library's network fails, or needs too much memory: a report must not fail for such a reason.

    Args:
        run: run whose best checkpoint is explained.
        images: pixels (3, H, W) uint8.
        predicted: class names to explain, one for each image.
    """
    if not images:
        return []
    try:
        network, description = load(run.best_path)
        (method,) = choose_methods("best", network).values()
        seen = torch.stack([description.preprocess(image) for image in images])
        numbers = torch.tensor([description.class_names.index(name) for name in predicted])
        maps = method(network, description.preprocess.normalize(seen), numbers)
    except (VitError, RuntimeError):
        return []
    return [
        (encoded(enlarged(image)), encoded(overlay(image, importance)))
        for image, importance in zip(seen, maps, strict=True)
    ]
