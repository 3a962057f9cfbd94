"""Explanations as one self-contained HTML page: overlays, and how faithful they are"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from vit.checkpoints.run import unfinished_text
from vit.explain.explainer import RANDOM_ORDERS, STEPS, Explanation, Faithfulness, MethodScore, score_method
from vit.report.page.overlay import enlarged, overlay
from vit.report.page.page import inline, write_page
from vit.report.page.thumbnails import encoded

ABOUT = {
    "attention": "attention of the last block, mean over heads; the same map for every class",
    "rollout": "product of the attention of all blocks and their residual connections (Abnar and Zuidema 2020); the "
    "same map for every class",
    "relevance": "attention weighted by its gradient, through all blocks (Chefer et al. 2021); a map for this class",
    "gradcam": "features weighted by their gradient, at the last layer with positions (Selvaraju et al. 2017); a map "
    "for this class",
}


@dataclass(frozen=True)
class MapPicture:
    """One method's map over the image."""

    method: str
    picture: Markup
    faithfulness: Faithfulness | None


@dataclass(frozen=True)
class ExplainedImage:
    """One image on the page, with a map for each method."""

    path: str
    name: str
    explained: str  # name of the class that the maps explain
    label: str  # name of the predicted class
    probability: float  # probability of the explained class
    picture: Markup
    maps: list[MapPicture]
    heads: Markup | None  # attention of single heads, or None where it was not requested


@dataclass
class ExplainPage:
    """Collects explanations as small pictures in memory, and writes them as a page."""

    title: str
    methods: Sequence[str]
    lacks: str = ""  # what the training of the model lacks; "" where it is finished
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

    def scores(self) -> list[MethodScore]:
        """A score for each method whose faithfulness was measured."""
        return [score_method(name, found) for name, found in self.found.items()]

    def write(self, path: Path, unreadable: Sequence[tuple[str, str]]) -> None:
        """Write the page, whole or not at all; `unreadable` are paths with reasons."""
        content = {
            "title": self.title,
            "warning": unfinished_text(self.lacks) if self.lacks else "",
            "cards": self.cards,
            "scores": self.scores(),
            "methods": [(name, ABOUT[name]) for name in self.methods],
            "steps": STEPS,
            "orders": RANDOM_ORDERS,
            "unreadable": unreadable,
        }
        write_page(path, "explain.html", content)
