"""The look of every figure, and figures as files; does not import torch"""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit.report.page.page import inline

mpl.rcParams.update({
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "svg.hashsalt": "vit",  # makes the file of a figure reproducible
})  # fmt: skip

# The colors of Okabe and Ito, which are distinct for color-blind readers; without their yellow, too pale on white.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def look(index: int) -> tuple[str, str]:
    """Color and marker of a series by its index. The pairs repeat after 56."""
    return _COLORS[index % len(_COLORS)], _MARKERS[index % len(_MARKERS)]


def plain(name: str, limit: int = 22) -> str:
    """A name on a figure: one short line with escaped dollar signs, which matplotlib would read as mathematics.

    Control characters become question marks, because they would make an SVG unreadable.
    """
    line = " ".join(name.encode("utf-8", "replace").decode("utf-8").split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return (line if len(line) <= limit else line[: limit - 1] + "…").replace("$", r"\$")


def size_axis(axes: Axes, sizes: Sequence[int], end: float) -> None:
    """A logarithmic axis of numbers of images, with a label at each measured size where there is room."""
    shown: list[int] = []
    for size in reversed(sizes):
        if not shown or np.log(shown[0] / size) > 0.075 * np.log(end / sizes[0]):
            shown.insert(0, size)
    pad = max((end / sizes[0]) ** 0.06, 1.1)
    axes.set_xscale("log")
    axes.set_xlim(sizes[0] / pad, end * pad)
    axes.set_xticks(shown, [f"{size:,}" for size in shown])
    axes.minorticks_off()
    axes.set(xlabel="training images (log scale)")


def rendered(figure: Figure, kind: Literal["png", "svg"], dpi: int = 120) -> bytes:
    """A figure as the bytes of a file.

    Its layout is computed first, and once: matplotlib would draw the whole figure for it, and again for the file.
    """
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter that the font lacks becomes a box
        engine = figure.get_layout_engine()
        if engine is not None:
            figure.set_dpi(dpi)  # of the file; sizes of texts in pixels depend on it
            engine.execute(figure)
            figure.set_layout_engine("none")
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(rendered(figure, "png"))


def drawn(figure: Figure) -> Markup:
    """A figure as the source of an <img>."""
    return inline(rendered(figure, "svg"), "image/svg+xml")
