"""Backbones of a study of linear probes, compared: accuracy, nearest neighbors, time and licence"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from vit.atomic_files import atomic_write
from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.csv_files import new_table, records
from vit.data.preprocess import Preprocess
from vit.errors import DataError
from vit.layout import FEATURES
from vit.models.spec import NetworkSpec
from vit.study.findings import ALPHA, CellResult, Interval
from vit.study.folder import collect
from vit.study.grid import Cell
from vit.study.neighbors import neighbor_accuracy
from vit.study.paired import Answers, difference, hochberg, pairs
from vit.study.variance_components import mean_error
from vit.study.wording import percents
from vit.training.features import SharedFeatures, StoredFeatures
from vit.training.planning.plan import make_plan
from vit.weights.licence import UNKNOWN
from vit.weights.open import open_pretrained

TITLES = (
    "backbone", "linear probe (%)", "more errors than the first (points)", "nearest neighbors (%)", "ms an image",
    "parameters", "licence",
)  # fmt: skip


@dataclass(frozen=True)
class Backbone:
    """One backbone at the largest size that all backbones have: a row of backbones.csv.

    Attributes:
        name: short name.
        source: weights, as for `init_from`.
        num_images: number of training images.
        num_seeds: number of seeds.
        accuracy: test accuracy of the linear probes; the interval covers other seeds and other test images.
        behind: error beyond that of the most accurate backbone, on the same seeds and images; 0 for that one.
        p_adjusted: p value of the test that `behind` is zero, corrected for all backbones; 1 for that one.
        neighbors: test accuracy of nearest neighbors in its features, mean over the seeds.
        seconds_per_image: time of reading an image and computing its features, on the threads of one cell.
        parameters: number of parameters.
        licence: licence of the weights.
    """

    name: str
    source: str
    num_images: int
    num_seeds: int
    accuracy: Interval
    behind: Interval
    p_adjusted: float
    neighbors: float
    seconds_per_image: float
    parameters: int
    licence: str

    def cells(self) -> tuple[str, ...]:
        """The row of a table with the columns `TITLES`."""
        value, around = percents(self.accuracy)
        return (
            self.name,
            f"{value} ({around})" if around else value,
            _points(self.behind),
            f"{100 * self.neighbors:.2f}",
            f"{1000 * self.seconds_per_image:.1f}",
            f"{self.parameters / 1e6:.1f} M",
            self.licence,
        )

    def row(self) -> dict[str, str | float | None]:
        """The row of backbones.csv: each interval has three columns."""
        plain: dict[str, str | float | None] = {}
        for name, value in vars(self).items():
            if isinstance(value, Interval):
                plain |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
            else:
                plain[name] = value
        return plain

    @classmethod
    def of_row(cls, row: Mapping[str, str]) -> "Backbone":
        """The backbone of a row that `row` made. KeyError or ValueError where it is not one."""
        ends = {
            name: float(row[name]) if row[name] else None
            for name in (f"{one}_{end}" for one in ("accuracy", "behind") for end in ("low", "high"))
        }
        return cls(
            name=row["name"],
            source=row["source"],
            num_images=int(row["num_images"]),
            num_seeds=int(row["num_seeds"]),
            accuracy=Interval(float(row["accuracy"]), ends["accuracy_low"], ends["accuracy_high"]),
            behind=Interval(float(row["behind"]), ends["behind_low"], ends["behind_high"]),
            p_adjusted=float(row["p_adjusted"]),
            neighbors=float(row["neighbors"]),
            seconds_per_image=float(row["seconds_per_image"]),
            parameters=int(row["parameters"]),
            licence=row["licence"],
        )


def measured_backbones(study: Path, cells: Sequence[Cell], sources: Mapping[str, str]) -> list[Backbone]:
    """The backbones of a finished study, the most accurate first.

    Differences are paired by seed and test image, and tested with Hochberg's correction for all of them.

    Args:
        study: folder of the study.
        cells: cells of the study.
        sources: {series: weights}.
    """
    results, _, _ = collect(study)
    largest = max(result.num_images for result in results)
    here = {name: [one for one in results if one.series == name and one.num_images == largest] for name in sources}
    here = {name: found for name, found in here.items() if found}
    errors = {name: mean_error(np.stack([~one.correct for one in found])) for name, found in here.items()}
    order = sorted(here, key=lambda name: errors[name].value)
    gaps = {name: difference(pairs(_answers(here[name]), _answers(here[order[0]]))[0]) for name in order[1:]}
    adjusted = hochberg([gap.p for gap in gaps.values()])
    gaps = {name: replace(gap, p_adjusted=p) for (name, gap), p in zip(gaps.items(), adjusted, strict=True)}
    recipes = {cell.series: cell.recipe for cell in cells if cell.num_images == largest}
    found = []
    for name in order:
        runs, error, gap = here[name], errors[name], gaps.get(name)
        stored = StoredFeatures.read(SharedFeatures(study / FEATURES, {}).files(make_plan(recipes[name])).values_path)
        source = sources[name]
        found.append(
            Backbone(
                name=name,
                source=source,
                num_images=largest,
                num_seeds=len(runs),
                accuracy=Interval(1 - error.value, _one_minus(error.high), _one_minus(error.low)),
                behind=Interval(0.0, None, None) if gap is None else gap.gap,
                p_adjusted=1.0 if gap is None else gap.p_adjusted,
                neighbors=float(np.mean([neighbor_accuracy(study / one.run, stored) for one in runs])),
                seconds_per_image=stored.seconds_per_image,
                parameters=runs[0].parameters,
                licence=open_pretrained(source).licence if source.startswith("timm:") else UNKNOWN,
            )
        )
    return found


def verdict(found: Sequence[Backbone]) -> str:
    """The answer in one or two sentences."""
    best = found[0]
    if len(found) == 1:
        return f"{best.name} is the only backbone."
    tied = [one.name for one in found[1:] if one.p_adjusted >= ALPHA]
    worse = len(found) - 1 - len(tied)
    if not tied:
        return f"Use {best.name}: at {best.num_images:,} images every other backbone makes more errors."
    fastest = min((one for one in found if one is best or one.name in tied), key=lambda one: one.seconds_per_image)
    words = f"{best.name} and {', '.join(tied)} cannot be told apart at {best.num_images:,} images."
    words += f" {worse} of the {len(found)} backbones make{'s' * (worse == 1)} more errors." if worse else ""
    return f"{words} Of those that cannot be told apart, {fastest.name} is the fastest."


def write_backbones(found: Sequence[Backbone], path: Path) -> None:
    """Write backbones.csv whole or not at all: a row for each backbone."""
    rows = [one.row() for one in found]
    with atomic_write(path) as partial, new_table(partial, list(rows[0]), digits=6) as table:
        for row in rows:
            table.row(row.values())


def read_backbones(path: Path) -> list[Backbone]:
    """The backbones that `write_backbones` wrote; none where the study has no such file.

    Raises:
        DataError: the file is damaged.
    """
    if not path.is_file():
        return []
    try:
        return [Backbone.of_row(row) for row in records(path)]
    except (KeyError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error!r}", "give its 'vit probe' command again") from error


def write_random(network: str, path: Path) -> None:
    """A checkpoint of a network with random weights, drawn from a fixed seed."""
    spec = NetworkSpec.named(network, 2)
    preprocess = Preprocess(spec.default_image_size)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        weights = spec.build(preprocess.image_size).state_dict()
    write_checkpoint(checkpoint_content(Description(("a", "b"), spec, preprocess), weights), path)


def _answers(results: Sequence[CellResult]) -> Answers:
    return {results[0].num_images: {one.seed: ~one.correct for one in results}}


def _one_minus(value: float | None) -> float | None:
    return None if value is None else 1 - value


def _points(gap: Interval) -> str:
    if gap.low is None or gap.high is None:
        return f"{100 * gap.value:.2f}" if gap.value else ""
    return f"{100 * gap.value:.2f} ({100 * gap.low:.2f} to {100 * gap.high:.2f})"
