"""Explanations as one HTML page that needs nothing but itself: overlays side by side, and how far to believe them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scipy.stats import t

from vit.atomic_files import atomic_write
from vit.explain.explainer import Explanation
from vit.explain.faithfulness import RANDOM_ORDERS, STEPS, Faithfulness
from vit.report.overlay import enlarged, overlay
from vit.report.page import inline, templates
from vit.report.thumbnails import encoded

ABOUT = {
    "attention": "where the last block's attention goes, mean over heads; the same for every class",
    "rollout": "attention of all blocks multiplied, half of each token passed on (Abnar and Zuidema 2020); the same "
    "for every class",
    "relevance": "attention weighted by its gradient, through all blocks (Chefer et al. 2021); for this class",
    "gradcam": "features weighted by their gradient, at the last layer with places (Selvaraju et al. 2017); for this "
    "class",
}


@dataclass(frozen=True)
class Score:
    """How faithful a method is over some images: means, and what it gains on random orders with a 95 % t interval.

    `deletion_gain` is random minus deletion and `insertion_gain` insertion minus random: above 0 the map is better than
    chance. The halves of the intervals are nan with one image.
    """

    method: str
    images: int
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


@dataclass
class ExplainPage:
    """Collects explanations and writes them as a page; pictures are kept small in memory until then."""

    title: str
    methods: Sequence[str]
    cards: list[dict[str, object]] = field(default_factory=list)
    found: dict[str, list[Faithfulness]] = field(default_factory=dict)

    def add(self, explanation: Explanation, heads: bytes | None = None) -> None:
        """Add one image; `heads` is a PNG of its attention heads."""
        for name, one in explanation.faithfulness.items():
            self.found.setdefault(name, []).append(one)
        self.cards.append(
            {
                "path": explanation.path,
                "name": Path(explanation.path).name,
                "explained": explanation.explained,
                "label": explanation.label,
                "probability": explanation.probability,
                "picture": encoded(enlarged(explanation.image)),
                "maps": [
                    (name, encoded(overlay(explanation.image, importance)), explanation.faithfulness.get(name))
                    for name, importance in explanation.maps.items()
                ],
                "heads": inline(heads, "image/png") if heads else None,
            }
        )

    def scores(self) -> list[Score]:
        """A score for each method; none where faithfulness was not measured."""
        return [scored(name, found) for name, found in self.found.items()]

    def write(self, path: Path, unreadable: Sequence[tuple[str, str]]) -> None:
        """Write the page, whole or not at all; `unreadable` are paths with reasons."""
        html = templates.get_template("explain.html").render(
            title=self.title,
            cards=self.cards,
            scores=self.scores(),
            methods=[(name, ABOUT[name]) for name in self.methods],
            steps=STEPS,
            orders=RANDOM_ORDERS,
            unreadable=unreadable,
        )
        with atomic_write(path) as partial:
            partial.write_text(html, encoding="utf-8", errors="replace")


def _half(gains: Sequence[float]) -> float:
    """Half the width of the mean's 95 % t interval."""
    if len(gains) < 2:
        return math.nan
    return float(t.ppf(0.975, len(gains) - 1)) * statistics.stdev(gains) / math.sqrt(len(gains))
