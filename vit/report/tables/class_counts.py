"""Figure of the number of images of each class in each split"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from vit.data.core.samples import Labels
from vit.report.page.style import look, plain

MOST_NAMED = 40  # classes with a bar and a name each


def class_counts(
    counts: Mapping[str, Labels],
    class_names: Sequence[str],
    words: str = "images of a class",
    num_images: Mapping[str, int] | None = None,
) -> Figure:
    """A panel for each split: bars of the classes, largest of the first split first; a curve for very many classes.

    Args:
        counts: {split: (C,) number of images of each class}.
        num_images: {split: number of its images}, where an image may be of several classes or none.
    """
    first = next(iter(counts.values()))
    order = np.argsort(-first, kind="stable")
    few = len(class_names) <= MOST_NAMED
    height = 1.2 + 0.2 * len(class_names) if few else 3.4
    figure = Figure(figsize=(9, max(2.0, height)), layout="constrained")
    panels = figure.subplots(1, len(counts), sharey=few, squeeze=False)[0]
    for number, (axes, (split, own)) in enumerate(zip(panels, counts.items(), strict=True)):
        color, _ = look(0)
        if few:
            axes.barh(range(len(order)), own[order], color=color)
            for place, count in enumerate(own[order].tolist()):
                axes.text(count, place, f" {count:,}", va="center", fontsize=7)
            axes.set_yticks(range(len(order)), [plain(class_names[one]) for one in order])
            axes.set(ylim=(len(order) - 0.4, -0.6), xlim=(0, 1.25 * max(1, int(own.max()))))
            axes.set(xlabel=words)
        else:
            axes.fill_between(range(len(order)), own[order], step="mid", color=color, alpha=0.6, linewidth=0)
            axes.set(xlabel="classes, in the order of the first panel", ylim=(0, None))
            if number == 0:
                axes.set(ylabel=words)
        total = int(own.sum()) if num_images is None else num_images[split]
        axes.set_title(f"{split}: {total:,}", loc="left", fontsize=9)
    return figure
