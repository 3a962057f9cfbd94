"""Figures made of pictures: grids with captions, and maps of importance over the pictures that they explain"""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from vit.console import percent
from vit.data.pixels.planes import shown
from vit.explain.explainer import Explanation
from vit.report.page.style import plain, plot

_COLUMN, _ROW = 1.1, 1.3  # distances of places in a grid, which are 1 x 1
SIDE = 224  # smallest side of a shown picture, in pixels
_COLORS = "inferno"
_STRONGEST = 0.8  # opacity of the map at its most important pixel


def image_grid(images: Sequence[Tensor], captions: Sequence[str], title: str = "", columns: int = 8) -> Figure:
    """Pictures (C, H, W) uint8 in rows, each with a caption, on common axes: axes for each would take most of the time.

    Every picture has a place of 1 x 1, which its longer side fills.
    """
    rows = -(-len(images) // columns)
    figure, axes = plot(1.35 * columns, 1.6 * rows + (0.5 if title else 0.2))
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


def enlarged(image: Tensor) -> Tensor:
    """Pixels (C, S, S) uint8 as people see them, repeated to 224 pixels (3, side, side), so that edges stay sharp."""
    times = -(-SIDE // image.shape[-1])
    return shown(image).repeat_interleave(times, dim=1).repeat_interleave(times, dim=2)


def overlay(image: Tensor, importance: Tensor) -> Tensor:
    """Picture (C, S, S) uint8 in gray under a map (h, w), from dark (least) to yellow (most) -> (3, side, side) uint8.

    Each map is stretched from its least to its largest value, so the colors of two maps do not compare.
    """
    picture = enlarged(image)
    gray = picture.float().mean(dim=0) / 255  # (side, side)
    side = picture.shape[-1]
    smooth = F.interpolate(importance[None, None].float(), (side, side), mode="bilinear", align_corners=False)[0, 0]
    share = smooth - smooth.min()
    share = share / share.max().clamp(min=torch.finfo(share.dtype).tiny)  # all 0 where all values are equal
    colors = torch.from_numpy(mpl.colormaps[_COLORS](share.numpy())[..., :3]).float()
    cover = (0.35 + (_STRONGEST - 0.35) * share)[..., None]
    mixed = (1 - cover) * gray[..., None] + cover * colors
    return (mixed * 255).round().to(torch.uint8).permute(2, 0, 1)


def strip(explanation: Explanation) -> Figure:
    """The picture and all its maps side by side."""
    pictures = [enlarged(explanation.image), *(overlay(explanation.image, m) for m in explanation.maps.values())]
    captions = [f"{plain(explanation.explained)}, {percent(explanation.probability, 0)}"]
    for name in explanation.maps:
        score = explanation.faithfulness.get(name)
        numbers = f"\ndeletion {score.deletion:.2f}, insertion {score.insertion:.2f}" if score else ""
        captions.append(f"{name}{numbers}")
    chance = next(iter(explanation.faithfulness.values()), None)
    captions[0] += f"\nrandom order {chance.random:.2f}" if chance else ""
    figure = Figure(figsize=(2.3 * len(pictures), 2.75), layout="constrained")
    for axes, picture, caption in zip(
        figure.subplots(1, len(pictures), squeeze=False)[0], pictures, captions, strict=True
    ):
        axes.imshow(picture.permute(1, 2, 0).numpy(), interpolation="nearest")
        axes.set_title(caption, fontsize=9)
        axes.axis("off")
    return figure


def head_grid(explanation: Explanation, layers: list[int]) -> Figure:
    """Attention of single heads: a row for each block, the mean of the heads first, then a column for each head."""
    assert explanation.heads is not None
    rows, heads = explanation.heads.shape[:2]
    columns = [explanation.heads.mean(dim=1), *explanation.heads.unbind(dim=1)]
    figure = Figure(figsize=(1.1 * len(columns) + 0.6, 1.1 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, len(columns), squeeze=False)
    names = ["mean", *(f"head {number}" for number in range(heads))]
    for column, (maps, name) in enumerate(zip(columns, names, strict=True)):
        for row, importance in enumerate(maps):
            axes = panels[row, column]
            axes.imshow(np.asarray(importance), cmap=_COLORS, vmin=0)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if row == 0:
                axes.set_title(name, fontsize=8)
            if column == 0:
                axes.set_ylabel(f"block {layers[row]}", fontsize=8)
    return figure
