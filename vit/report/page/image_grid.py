"""Pictures with captions, as one figure"""

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from vit.data.pixels.planes import shown
from vit.report.page.style import plain

_COLUMN, _ROW = 1.1, 1.3  # distances of places, which are 1 x 1


def image_grid(images: Sequence[Tensor], captions: Sequence[str], title: str = "", columns: int = 8) -> Figure:
    """Pictures (C, H, W) uint8 in rows, each with a caption, on common axes: axes for each would take most of the time.

    Every picture has a place of 1 x 1, which its longer side fills.
    """
    rows = -(-len(images) // columns)
    figure = Figure(figsize=(1.35 * columns, 1.6 * rows + (0.5 if title else 0.2)), layout="constrained")
    axes = figure.subplots()
    for index, (image, caption) in enumerate(zip(images, captions, strict=False)):
        top, left = _ROW * (index // columns), _COLUMN * (index % columns)
        height, width = (size / max(image.shape[1:]) for size in image.shape[1:])
        x, bottom = left + (1 - width) / 2, top + 1
        axes.imshow(
            shown(image).permute(1, 2, 0).numpy(),
            extent=(x, x + width, bottom, bottom - height),
            interpolation="nearest",
        )
        axes.text(left + 0.5, bottom - height - 0.06, plain(caption), ha="center", va="bottom", fontsize=7)
    axes.set(xlim=(0, _COLUMN * columns - 0.1), ylim=(_ROW * rows - 0.2, -0.2), aspect="equal")
    axes.axis("off")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


def displayable(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalized images (B, C, S, S) back to uint8 pixels."""
    scale = torch.tensor(std)[:, None, None]
    offset = torch.tensor(mean)[:, None, None]
    return ((images.cpu() * scale + offset) * 255).round().clamp(0, 255).to(torch.uint8)
