"""Maps of importance over the pictures that they explain"""

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from vit.data.pixels.planes import shown
from vit.explain.explainer import Explanation
from vit.report.page.style import plain

SIDE = 224  # smallest side of a shown picture, in pixels
_COLORS = "inferno"
_STRONGEST = 0.8  # opacity of the map at its most important pixel


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
    share = _stretched(smooth)
    colors = torch.from_numpy(mpl.colormaps[_COLORS](share.numpy())[..., :3]).float()
    cover = (0.35 + (_STRONGEST - 0.35) * share)[..., None]
    mixed = (1 - cover) * gray[..., None] + cover * colors
    return (mixed * 255).round().to(torch.uint8).permute(2, 0, 1)


def strip(explanation: Explanation) -> Figure:
    """The picture and all its maps side by side."""
    pictures = [enlarged(explanation.image), *(overlay(explanation.image, m) for m in explanation.maps.values())]
    captions = [f"{plain(explanation.explained)}, {100 * explanation.probability:.0f} %"]
    for name in explanation.maps:
        found = explanation.faithfulness.get(name)
        numbers = f"\ndeletion {found.deletion:.2f}, insertion {found.insertion:.2f}" if found else ""
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


def _stretched(values: Tensor) -> Tensor:
    """Values from 0 to 1; all 0 where all values are equal."""
    values = values - values.min()
    return values / values.max().clamp(min=torch.finfo(values.dtype).tiny)
