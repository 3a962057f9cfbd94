"""`vit evaluate MODEL MODEL ...`: an ensemble and each of its models on the same images"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import in_points
from vit.console import Reporter, percent

if TYPE_CHECKING:
    from vit.data.core.samples import Samples, Source
    from vit.inference.predictor import Predictor
    from vit.inference.scores.scored_images import Scored, ScoredImages
    from vit.study.findings import Interval
    from vit.training.running.run_images import SeenImages


@dataclass(frozen=True)
class EnsembleFinding:
    """An ensemble beside its models."""

    accuracies: Mapping[str, float]  # accuracy of each model
    seconds: Mapping[str, float]  # seconds in which each scored the images
    best: str  # the model with the highest accuracy on these images, the first of equal ones
    gain: "Interval"  # accuracy of the ensemble minus that of `best`, with the paired 95 % interval over the images

    def to_plain(self) -> dict[str, object]:
        """Plain values for metrics.json."""
        return {**vars(self), "gain": {"value": self.gain.value, "low": self.gain.low, "high": self.gain.high}}


def unseen_by_all(
    others: Sequence[str],
    source: "Source",
    split: str,
    found: "tuple[Samples, SeenImages]",
    include_seen: bool,
    reporter: Reporter,
) -> "tuple[Samples, SeenImages]":
    """The images that the other models have not seen either, with the counts of those left out.

    Args:
        found: images of the split that the first model has not seen.
    """
    from vit.checkpoints.run import RunDirectory
    from vit.commands.measuring.measured_images import unseen_images

    samples, seen = found
    for model in others:
        run = RunDirectory.around(Path(model))
        if run is None:
            reporter.notice(f"{model} is not in a run folder: images that it was trained on are not recognized")
            continue
        part = replace(source, splits={**source.splits, split: samples})
        samples, more = unseen_images(run, part, split, include_seen, reporter)
        seen = replace(
            seen,
            left_out={
                name: count + more.left_out.get(name, 0) for name, count in {**more.left_out, **seen.left_out}.items()
            },
            scored={name: count + more.scored.get(name, 0) for name, count in {**more.scored, **seen.scored}.items()},
            warning=seen.warning or more.warning,
        )
    return samples, seen


def scored_together(
    predictors: "Mapping[str, Predictor]", score: "Callable[[Predictor], Scored]", reporter: Reporter
) -> "tuple[ScoredImages, EnsembleFinding]":
    """The scores of an ensemble on some images, and its gain over the best of its models, in a table."""
    import numpy as np

    from vit.inference.scores.scored_images import ScoredImages
    from vit.study.statistics.paired import paired_gap

    every: dict[str, ScoredImages] = {}
    seconds = {}
    for name, predictor in predictors.items():
        began = time.perf_counter()
        scored = score(predictor)
        assert isinstance(scored, ScoredImages)
        every[name], seconds[name] = scored, time.perf_counter() - began
    first = next(iter(every.values()))
    mean = np.mean([one.probabilities for one in every.values()], axis=0)
    ensemble = replace(first, probabilities=mean, novelty=None, temperature=1.0)
    accuracies = {name: float(one.correct.mean()) for name, one in every.items()}
    best = max(accuracies, key=lambda name: accuracies[name])
    gain = paired_gap(ensemble.correct, every[best].correct, ensemble.groups)
    reporter.line()
    rows = [(name, percent(accuracies[name]), f"{len(first.labels) / seconds[name]:,.1f}") for name in every]
    together = f"{len(first.labels) / sum(seconds.values()):,.1f}"
    rows.append(("all, averaged", percent(float(ensemble.correct.mean())), together))
    reporter.table(("model", "accuracy", "images/s"), rows)
    reporter.line(
        f"all minus the best one on these images, {best}: {in_points(gain)}, paired 95 % interval over images"
    )
    reporter.line()
    return ensemble, EnsembleFinding(accuracies, seconds, best, gain)
