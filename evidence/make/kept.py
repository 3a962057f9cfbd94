"""What evidence/ has kept of each row: finished cells, their answers, and what scripts measured."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from definitions import ROOT, Row

from vit.atomic_files import write_text
from vit.checkpoints.result import unpack
from vit.checkpoints.run import RunDirectory
from vit.data.splits.subset import SubsetKind
from vit.study.answer.summary import summarize
from vit.study.findings import CellResult, FailedCell, Findings, Protocol
from vit.study.folder import StudyDirectory, collect
from vit.study.grid import Budget, Inputs, make_cells, parse_sizes
from vit.study.statistics.paired import Pair
from vit.study.statistics.variance_components import Bools
from vit.training.recipes.recipe import Recipe

MACHINES = "machines.json"


@dataclass(frozen=True)
class Answers:
    """Which test images each network has right, under several conditions.

    Attributes:
        num_images: number of test images, T.
        correct: {condition: {series: {seed: (T,) truth values}}}.
        facts: what else a file of measured/ says.
        seedless: series which nothing random decides: their one entry stands for every seed.
    """

    num_images: int
    correct: dict[str, dict[str, dict[int, Bools]]]
    facts: dict[str, Any] = field(default_factory=dict)
    seedless: frozenset[str] = frozenset()

    @classmethod
    def read(cls, path: Path) -> "Answers":
        """The answers of a file of measured/."""
        content = json.loads(path.read_text(encoding="utf-8"))
        count = int(content["num_images"])
        return cls(
            count,
            {
                condition: {
                    series: {int(seed): unpack(text, count) for seed, text in seeds.items()}
                    for series, seeds in by_series.items()
                }
                for condition, by_series in content.pop("correct").items()
            },
            content,
        )

    def across(self) -> "Answers":
        """The same with every series under every condition as a series of its own, "SERIES: CONDITION"."""
        found = {
            f"{series}: {condition}": seeds
            for condition, by_series in self.correct.items()
            for series, seeds in by_series.items()
        }
        return replace(self, correct={"": found})

    def only(self, names: Sequence[str]) -> "Answers":
        """The same with these series alone."""
        found = {
            condition: {series: seeds for series, seeds in by_series.items() if series in names}
            for condition, by_series in self.correct.items()
        }
        return replace(self, correct={condition: one for condition, one in found.items() if one})

    def wrong(self, condition: str, series: str) -> Bools:
        """(k, T) wrong answers of a series, a row for each seed."""
        seeds = self.correct[condition][series]
        return ~np.stack([seeds[seed] for seed in sorted(seeds)])

    def has_pair(self, condition: str, first: str, second: str) -> bool:
        """Whether two series have a common seed."""
        one, other = self._of_pair(condition, first, second)
        return bool(one.keys() & other.keys())

    def pair(self, condition: str, first: str, second: str) -> Pair:
        """Two series on their common seeds."""
        one, other = self._of_pair(condition, first, second)
        seeds = sorted(one.keys() & other.keys())
        rows = [~np.stack([answers[seed] for seed in seeds]) for answers in (one, other)]
        return Pair(0, seeds, rows[0], rows[1])

    def _of_pair(self, condition: str, first: str, second: str) -> tuple[dict[int, Bools], dict[int, Bools]]:
        one, other = (self.correct[condition].get(name, {}) for name in (first, second))
        if one and first in self.seedless:
            one = dict.fromkeys(other, *one.values())
        if other and second in self.seedless:
            other = dict.fromkeys(one, *other.values())
        return one, other


@dataclass(frozen=True)
class Kept:
    """What the repository has of a row.

    Attributes:
        cells: finished cells; where values are tuned, those with the chosen values.
        num_listed: number of cells that the study trains, with those of all tried values.
        num_done: number of finished cells, also counted so.
        unfinished: series with cells that have not ended.
        seconds: sum of the times of the finished cells.
        devices: {run folder: what of its machine trained it} of the finished cells.
    """

    row: Row
    cells: Sequence[CellResult]
    protocol: Protocol
    failed: Sequence[FailedCell]
    num_listed: int
    num_done: int
    unfinished: frozenset[str]
    seconds: float
    devices: Mapping[str, str]

    @classmethod
    def of(cls, row: Row) -> "Kept | None":
        """The kept part of a row, or None where nothing is kept."""
        if not (row.folder / "study.json").is_file():
            return None
        found, protocol, failed = collect(row.folder)
        noted = {cell for cells in cls.machines_of(row).values() for cell in cells}
        study = StudyDirectory(row.folder)
        listed = study.read()[1]
        cells = [cell for cell in found if cell.run in noted]  # the others are being trained at this moment
        done = {
            cell.folder: result for cell in listed if cell.folder in noted and (result := study.run(cell).read_result())
        }
        ended = done.keys() | {cell.folder for cell in failed}
        unfinished = frozenset(cell.series for cell in listed if cell.folder not in ended)
        seconds = sum(result.seconds for result in done.values())
        devices = {folder: result.device for folder, result in done.items()}
        if not cells:
            return None
        return cls(row, cells, protocol, failed, len(listed), len(done), unfinished, seconds, devices)

    @property
    def has_sizes(self) -> bool:
        """Whether the study has several numbers of training images."""
        sizes = self.protocol["sizes"]
        assert isinstance(sizes, list)
        return len(sizes) > 1

    @property
    def on_board(self) -> "Kept | None":
        """The row with the networks that the leaderboard shows, those whose every cell has ended; None without any."""
        cells = [
            cell
            for cell in self.cells
            if cell.series not in self.unfinished and (self.row.board or cell.series in self.row.front)
        ]
        return replace(self, cells=cells) if cells else None

    @property
    def is_finished(self) -> bool:
        """Whether every cell has ended."""
        return not self.unfinished

    @cached_property
    def findings(self) -> Findings:
        """What the study's own report says of the kept cells."""
        return summarize(self.cells, self.protocol, self.failed, None)

    @cached_property
    def answers(self) -> Answers:
        """The study's own test images, at its largest size."""
        largest = max(cell.num_images for cell in self.cells)
        found: dict[str, dict[int, Bools]] = {}
        for cell in self.cells:
            if cell.num_images == largest:
                found.setdefault(cell.series, {})[cell.seed] = cell.correct
        return Answers(len(self.cells[0].correct), {"": found})

    @cached_property
    def answers_by_size(self) -> Answers:
        """The study's own test images; every series at every size is a series of its own, "SERIES (images=SIZE)"."""
        found: dict[str, dict[int, Bools]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.num_images):
            found.setdefault(at(cell.series, cell.num_images), {})[cell.seed] = cell.correct
        return Answers(len(self.cells[0].correct), {"": found})

    def measured(self, name: str) -> Answers | None:
        """A file of measured/, or None where it was not made yet."""
        path = self.row.folder / "measured" / f"{name}.json"
        return Answers.read(path) if path.is_file() else None

    @property
    def machines(self) -> dict[str, list[str]]:
        """{machine: run folders of the cells that it trained}."""
        return self.machines_of(self.row)

    @staticmethod
    def machines_of(row: Row) -> dict[str, list[str]]:
        """{machine: run folders of the kept cells that it trained}, of a row."""
        path = row.folder / MACHINES
        content: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return content


def at(series: str, size: int) -> str:
    """A series at one number of training images, as `Kept.answers_by_size` and the claims name it."""
    return f"{series} (images={size})"


def is_measurable(run: RunDirectory) -> bool:
    """Whether the weights of a finished training are here. A training that runs has a best.ckpt, too."""
    return run.result_path.is_file() and run.best_path.is_file()


def expected_cells(row: Row) -> set[str]:
    """The run folders that the row's command makes for the images that its study.json names.

    A folder's name ends with the hash of everything that decides its result: recipe, images, length, and the weights
    that it starts from. study.json has the hashes of images and weights.
    """
    from vit.commands.studies.study_options import items, read_words
    from vit.commands.studies.study_series import series_of

    config = str(ROOT / row.config) if row.config.endswith(".yaml") else row.config
    options = read_words(["--config", config, "--wandb=off"])
    protocol = StudyDirectory(row.folder).read()[0]
    fingerprints, images = protocol["fingerprints"], protocol["images"]
    assert isinstance(fingerprints, dict)
    assert isinstance(images, dict)
    budget, sizes = Budget.parse(options.budget), parse_sizes(items(options.sizes), int(images["train"]))
    seeds = dict.fromkeys(sizes, options.seed_list())
    kind: SubsetKind = "balanced" if str(protocol["subsets"]).startswith("class-balanced") else "natural"
    weights = protocol.get("weights", {})
    assert isinstance(weights, dict)
    series = {
        name: {choice: as_trained(recipe, kind, list(weights)) for choice, recipe in choices.items()}
        for name, choices in series_of(options).items()
    }
    inputs = Inputs(str(protocol["data"]), fingerprints, weights)
    return {cell.folder for cell in make_cells(series, seeds, budget, inputs)}


def as_trained(recipe: Recipe, subset: SubsetKind, weights: Sequence[str]) -> Recipe:
    """The recipe of kept cells, also on a machine without the weights that they started from.

    Args:
        subset: how training images were drawn.
        weights: names of these weights. One of them takes the place of a pattern with a *.
    """
    recipe, start = replace(recipe, data=replace(recipe.data, subset=subset)), recipe.model.init_from
    found = [name for name in weights if start is not None and fnmatch(name, start)]
    return recipe if len(found) != 1 else replace(recipe, model=replace(recipe.model, init_from=found[0]))


def compact(path: Path) -> None:
    """Take out of a result.json what no page shows, so that hundreds of them stay small."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content.pop("answers", None)
    write_text(path, json.dumps(content, separators=(",", ":")) + "\n")


def seeds_of(cells: Sequence[CellResult]) -> Iterator[tuple[str, list[CellResult]]]:
    """(series, its cells at the largest size by seed), in the order of the study."""
    largest = max(cell.num_images for cell in cells)
    for name in dict.fromkeys(cell.series for cell in cells):
        yield (
            name,
            sorted((c for c in cells if c.series == name and c.num_images == largest), key=lambda cell: cell.seed),
        )
