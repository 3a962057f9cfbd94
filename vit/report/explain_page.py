"""Explanations as one self-contained HTML page: overlays, and how faithful they are"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vit.checkpoints.run import unfinished_text
from vit.explain.explainer import RANDOM_ORDERS, STEPS, Explanation, Faithfulness, MethodScore, score_method
from vit.report.page.image_figures import enlarged, overlay
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


@dataclass
class ExplainPage:
    """Collects explanations as small pictures in memory, and writes them as a page."""

    title: str
    methods: Sequence[str]
    lacks: str = ""  # what the training of the model lacks; "" where it is finished
    cards: list[dict[str, object]] = field(default_factory=list)
    found: dict[str, list[Faithfulness]] = field(default_factory=dict)

    def add(self, explanation: Explanation, heads: bytes | None = None) -> None:
        """Add one image; `heads` is a PNG of its attention heads."""
        for name, one in explanation.faithfulness.items():
            self.found.setdefault(name, []).append(one)
        maps = [
            {
                "method": name,
                "picture": encoded(overlay(explanation.image, one)),
                "faithfulness": explanation.faithfulness.get(name),
            }
            for name, one in explanation.maps.items()
        ]
        self.cards.append({
            "path": explanation.path,
            "name": Path(explanation.path).name,
            "explained": explanation.explained,  # class that the maps explain
            "label": explanation.label,  # predicted class
            "probability": explanation.probability,  # of the explained class
            "picture": encoded(enlarged(explanation.image)),
            "maps": maps,
            "heads": inline(heads, "image/png") if heads else None,
        })  # fmt: skip

    def scores(self) -> list[MethodScore]:
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
