"""Writes docs/atlas.md and its figure, and how often frozen and fine-tuned networks agree into `vit study`."""

from atlas_page import Atlas, By, beside_frozen, means, page, stages, with_agreement
from atlas_rows import SIDE
from atlas_sets import read_sets
from definitions import ROOT
from figures import stated, write_figure
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit.report.page.style import look, size_axis

FROZEN = ROOT / "vit" / "study" / "frozen" / "frozen.py"  # whose constant AGREEMENT is that of the page
PAGE, FIGURE = ROOT / "docs" / "atlas.md", ROOT / "docs" / "figures" / "atlas" / "differences.png"
NUM_COLORS = 7  # of `look`


def shown(atlas: Atlas) -> object:
    """The numbers of the figure."""
    return {
        name: {str(size): {own: round(row.gap, 6) for own, row in rows.items()} for size, rows in by.items()}
        for name, by in ((name, atlas.at(*key)) for name, key in stages().items())
    }


def draw(atlas: Atlas) -> None:
    """Draw the figure, unless the file shows the same numbers."""
    if FIGURE.is_file() and stated(FIGURE) == shown(atlas):
        return
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _curves(left, atlas.at("frozen", SIDE))
    _beside(right, atlas)
    write_figure(figure, shown(atlas), FIGURE)


def _curves(axes: Axes, by: By) -> None:
    """The difference of each set over the number of images, and the mean with both intervals."""
    found = means(by)
    x = list(found)
    axes.axhline(0, color="0.4", lw=0.8)
    ends = [100 * value for one in found.values() for value in (one.next_low or 0, one.next_high or 0)]
    axes.fill_between(x, ends[::2], ends[1::2], color="0.9", lw=0, label="a further set, 95 %")
    low, high = [100 * one.low for one in found.values()], [100 * one.high for one in found.values()]
    axes.fill_between(x, low, high, color="0.7", lw=0, label="mean over sets, 95 %")
    for index, name in enumerate(read_sets()):
        if not (sizes := [size for size in by if name in by[size]]):
            continue
        color, marker = look(index)
        values = [100 * by[size][name].gap for size in sizes]
        style = "-" if index < NUM_COLORS else "--"
        axes.plot(sizes, values, color=color, marker=marker, ls=style, ms=3.5, lw=0.9, label=name)
    axes.plot(x, [100 * one.mean for one in found.values()], color="black", lw=2.2, label="mean")
    size_axis(axes, list(by), max(by))
    axes.set(ylabel="errors of CNN minus ViT (points)", title=f"Frozen networks, {SIDE} pixels")
    axes.legend(fontsize=6.5, ncols=2, frameon=False)


def _beside(axes: Axes, atlas: Atlas) -> None:
    """Differences of fine-tuned networks beside those of frozen ones, by set and number of images."""
    of_stage = {name: atlas.at(*key) for name, key in stages().items() if key[0] != "second"}
    names = list(read_sets())
    rows = sorted(
        {(row.set, row.images) for row in beside_frozen(atlas)}, key=lambda row: (names.index(row[0]), row[1])
    )
    axes.axvline(0, color="0.4", lw=0.8)
    for index, (label, by) in enumerate(of_stage.items()):
        color, marker = look(index)
        here = [(place, own) for place, (name, size) in enumerate(rows) if (own := by.get(size, {}).get(name))]
        if not here:
            continue
        axes.errorbar(
            [100 * own.gap for _, own in here], [place + 0.2 * (index - 1.5) for place, _ in here],
            xerr=[[100 * (own.gap - own.low) for _, own in here], [100 * (own.high - own.gap) for _, own in here]],
            color=color, marker=marker, ms=4, lw=0.9, ls="", label=label,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [f"{name}, {size}" for name, size in rows])
    axes.invert_yaxis()
    axes.set(xlabel="errors of CNN minus ViT (points)", title="Frozen and fine-tuned")
    if rows:
        axes.legend(fontsize=6.5, frameon=False, loc="lower right")


def write_atlas() -> None:
    """Write the page and its figure, once there are rows."""
    atlas = Atlas.read()
    if atlas.differences:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), atlas), encoding="utf-8")
        FROZEN.write_text(with_agreement(FROZEN.read_text(encoding="utf-8"), atlas), encoding="utf-8")
        draw(atlas)
