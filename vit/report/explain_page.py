"""Explanations as one self-contained HTML page: overlays side by side, and how faithful they are"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup
from scipy.stats import t

from vit.explain.explainer import Explanation
from vit.explain.faithfulness import RANDOM_ORDERS, STEPS, Faithfulness
from vit.report.overlay import enlarged, overlay
from vit.report.page import inline, write_page
from vit.report.thumbnails import encoded

ABOUT = {
    "attention": "attention of the last block, mean over heads; the same map for every class",
    "rollout": "product of the attention of all blocks and their residual connections (Abnar and Zuidema 2020); the "
    "same map for every class",
    "relevance": "attention weighted by its gradient, through all blocks (Chefer et al. 2021); a map for this class",
    "gradcam": "features weighted by their gradient, at the last layer with positions (Selvaraju et al. 2017); a map "
    "for this class",
}


@dataclass(frozen=True)
class Score:
    """Faithfulness of a method over some images: means, and gains over random orders with 95 % t intervals.

    A gain above 0 means that the map is better than chance.

    Attributes:
        num_images: number of images.
        deletion: mean area under the deletion curve.
        insertion: mean area under the insertion curve.
        random: mean area for random orders.
        deletion_gain: random minus deletion.
        deletion_half: half the width of the gain's interval; NaN with one image.
        deletion_better: number of images with a gain.
        insertion_gain: insertion minus random.
        insertion_half: half the width of the gain's interval; NaN with one image.
        insertion_better: number of images with a gain.
    """

    method: str
    num_images: int
    deletion: float
    insertion: float
    random: float
    deletion_gain: float
    deletion_half: float
    deletion_better: int
    insertion_gain: float
    insertion_half: float
    insertion_better: int


def scored(method: str, found: Sequence[Faithfulness]) -> Score:
    """The score of a method over one image or more."""
    falls = [one.random - one.deletion for one in found]
    rises = [one.insertion - one.random for one in found]
    return Score(
        method,
        len(found),
        statistics.fmean(one.deletion for one in found),
        statistics.fmean(one.insertion for one in found),
        statistics.fmean(one.random for one in found),
        statistics.fmean(falls),
        _half(falls),
        sum(gain > 0 for gain in falls),
        statistics.fmean(rises),
        _half(rises),
        sum(gain > 0 for gain in rises),
    )


@dataclass(frozen=True)
class MapPicture:
    """One method's map over the image."""

    method: str
    picture: Markup
    faithfulness: Faithfulness | None


@dataclass(frozen=True)
class ExplainedImage:
    """One image on the page, with a map for each method.

    Attributes:
        explained: name of the class that the maps explain.
        label: name of the predicted class.
        probability: probability of the explained class.
        heads: attention of single heads; None where it was not asked for.
    """

    path: str
    name: str
    explained: str
    label: str
    probability: float
    picture: Markup
    maps: list[MapPicture]
    heads: Markup | None


@dataclass
class ExplainPage:
    """Collects explanations as small pictures in memory, and writes them as a page."""

    title: str
    methods: Sequence[str]
    cards: list[ExplainedImage] = field(default_factory=list)
    found: dict[str, list[Faithfulness]] = field(default_factory=dict)

    def add(self, explanation: Explanation, heads: bytes | None = None) -> None:
        """Add one image; `heads` is a PNG of its attention heads."""
        for name, one in explanation.faithfulness.items():
            self.found.setdefault(name, []).append(one)
        self.cards.append(
            ExplainedImage(
                path=explanation.path,
                name=Path(explanation.path).name,
                explained=explanation.explained,
                label=explanation.label,
                probability=explanation.probability,
                picture=encoded(enlarged(explanation.image)),
                maps=[
                    MapPicture(name, encoded(overlay(explanation.image, map_)), explanation.faithfulness.get(name))
                    for name, map_ in explanation.maps.items()
                ],
                heads=inline(heads, "image/png") if heads else None,
            )
        )

    def scores(self) -> list[Score]:
        """A score for each method whose faithfulness was measured."""
        return [scored(name, found) for name, found in self.found.items()]

    def write(self, path: Path, unreadable: Sequence[tuple[str, str]]) -> None:
        """Write the page, whole or not at all; `unreadable` are paths with reasons."""
        content = {
            "title": self.title,
            "cards": self.cards,
            "scores": self.scores(),
            "methods": [(name, ABOUT[name]) for name in self.methods],
            "steps": STEPS,
            "orders": RANDOM_ORDERS,
            "unreadable": unreadable,
        }
        write_page(path, "explain.html", content)


def _half(gains: Sequence[float]) -> float:
    """Half the width of the mean's 95 % t interval."""
    if len(gains) < 2:
        return math.nan
    return float(t.ppf(0.975, len(gains) - 1)) * statistics.stdev(gains) / math.sqrt(len(gains))
