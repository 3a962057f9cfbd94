"""A study's folder: its list of cells, and the results of the finished ones

study.json lists the cells of the study, each with its run folder. A cell is finished when its run has a result, and
failed when its run has a failure. results.csv, summary.json, curve.png and report.html can be made from these files at
any time.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

from vit.atomic_files import write_json
from vit.checkpoints.result import rule_text
from vit.checkpoints.run import RunDirectory
from vit.console import count_of
from vit.data.core.groups import with_most_copies
from vit.errors import DAMAGE, DataError, UsageError, explained
from vit.inference.scores.image_groups import number_of
from vit.layout import StudyLayout
from vit.plain_files import read_json
from vit.study.answer.answer_warnings import at_the_end, late_gain
from vit.study.answer.wording import LINEAR_PROBE, short_percents
from vit.study.common_images import CommonAnswers
from vit.study.design import seeds_of_protocol
from vit.study.findings import CellResult, FailedCell, Group, Interval, ListedCell, Protocol, Series

Rank = tuple[float, float]  # how good the validation images find a candidate: RunResult.validation_rank

_LOWEST: Rank = (float("-inf"), float("-inf"))


@dataclass(frozen=True)
class Preliminary:
    """What a study has said of frozen networks, before it trains any."""

    answer: list[str]
    protocol: Protocol
    errors: dict[str, tuple[int, Interval]]  # {network: its largest number of images, error there}

    def beside(self, series: Sequence[Series]) -> list[str]:
        """A warning where a head on a frozen network makes fewer errors than every network that was trained."""
        name, (size, error) = min(self.errors.items(), key=lambda item: item[1][1].value)
        best = min(series, key=lambda one: one.points[-1].mean.value)
        if error.value >= (ours := best.points[-1]).mean.value:
            return []
        return [
            f"A linear head on frozen {name} has an error of {short_percents(error)} with {size:,} images, below the "
            f"{short_percents(ours.mean)} of {best.name}, trained on {ours.num_images:,}: such a head may do "
            "('vit train --freeze backbone --init_from' with its weights), or trainings were too short."
        ]


class StudyDirectory(StudyLayout):
    """A study folder."""

    def preliminary(self) -> Preliminary | None:
        """The answer of frozen networks; None without one, DataError where it is damaged."""
        path = StudyLayout(self.frozen_dir).summary_path
        if not path.is_file():
            return None
        fix = "move this folder elsewhere, and run the study again"
        with explained(DataError, f"{path.parent} is damaged", fix, DAMAGE):
            content = read_json(path)
            lasts = {one["name"]: one["points"][-1] for one in content["series"]}
            errors = {name: (int(last["images"]), Interval(**last["mean"])) for name, last in lasts.items()}
            return Preliminary([*content["answer"], content["trend"]], content["protocol"], errors)

    def run(self, cell: ListedCell) -> RunDirectory:
        return RunDirectory(self.path / cell.folder)

    def read(self) -> tuple[Protocol, list[ListedCell]]:
        """The protocol and the cells of study.json; none without the file."""
        if not self.description_path.is_file():
            return {}, []
        content = read_json(self.description_path)
        return content["protocol"], [ListedCell.from_json(entry) for entry in content["cells"]]

    def weights(self) -> list[str]:
        """The files and names of weights that networks of study.json start from or learn from."""
        hashes = self.read()[0].get("weights")
        return list(hashes) if isinstance(hashes, Mapping) else []

    def check_extends(self, cells: Sequence[ListedCell]) -> None:
        """Raise UsageError where finished cells of the study in this folder are missing in a new list of cells."""
        folders = {cell.folder for cell in cells}
        lost = [cell for cell in self.read()[1] if cell.folder not in folders and self.run(cell).result_path.is_file()]
        if lost:
            raise UsageError(
                f"{self.path} holds another study, of other options, images, groups or weights: {len(lost):,} of its "
                f"finished cells would be missing in the new report, such as {lost[0].describe()}",
                "give --name for a new folder, or repeat all options of that study and add to them",
            )

    def designed(self, fingerprints: Mapping[str, str]) -> tuple[dict[int, list[int]], str, float]:
        """What a time has designed here for these images: seeds of each size, the length, seconds; else {}, "", 0."""
        protocol, cells = self.read()
        if "seconds" not in protocol or protocol["fingerprints"] != fingerprints:
            return {}, "", 0.0
        return _seeds_of(cells), str(protocol["budget"]), float(str(protocol["seconds"]))

    def describe(self, cells: Sequence[ListedCell], protocol: Protocol) -> None:
        """Write study.json. It counts the looks: reports of the study after which it went on with unplanned cells."""
        self.path.mkdir(parents=True, exist_ok=True)
        before, planned = self.read()
        goes_on = self.summary_path.is_file() and not {one.folder for one in cells} <= {one.folder for one in planned}
        looks = max(1, int(str(before.get("looks", 0))) + goes_on)
        self._write({**protocol, "looks": looks}, cells)

    def forget(self, folders: Collection[str]) -> None:
        """Take cells out of the list, for which no time was left."""
        protocol, cells = self.read()
        left = [cell for cell in cells if cell.folder not in folders]
        self._write({**protocol, **seeds_of_protocol(_seeds_of(left))}, left)

    def _write(self, protocol: Protocol, cells: Sequence[ListedCell]) -> None:
        write_json(self.description_path, {"protocol": dict(protocol), "cells": [cell.to_json() for cell in cells]})


def _seeds_of(cells: Sequence[ListedCell]) -> dict[int, list[int]]:
    sizes = {cell.num_images for cell in cells}
    return {size: sorted({cell.seed for cell in cells if cell.num_images == size}) for size in sizes}


def chosen(ranks: Mapping[str, Rank | None]) -> str | None:
    """The choice with the highest rank, or None: one of them is neither finished nor failed (None), or all failed."""
    known = {choice: _LOWEST if isnan(sum(rank)) else rank for choice, rank in ranks.items() if rank is not None}
    if len(known) < len(ranks) or all(rank == _LOWEST for rank in known.values()):
        return None
    return min(known, key=lambda choice: ([-value for value in known[choice]], choice))


def tuned(study: StudyDirectory, cells: Sequence[ListedCell]) -> dict[Group, str]:
    """The choice of every group whose candidates are all done, by `optim.best_metric` of their recipes."""
    ranks: dict[Group, dict[str, Rank | None]] = {}
    for cell in cells:
        run = study.run(cell)
        result = run.read_result()
        failed = _LOWEST if run.failure_path.is_file() else None
        ranks.setdefault(cell.group, {})[cell.choice] = result.validation_rank if result else failed
    choices = {group: chosen(each) for group, each in ranks.items()}
    return {group: choice for group, choice in choices.items() if choice is not None}


def collect(path: Path) -> tuple[list[CellResult], Protocol, list[FailedCell]]:
    """(finished cells, protocol, failed cells) of a study's folder.

    Where values are tuned, finished cells are those with the chosen values, and failed ones those with any value. The
    protocol names the chosen values, the number of cells, the metric that chose their checkpoints, and versions.
    DataError where two runs were tested on different images. UsageError for a folder without a study.
    """
    study = StudyDirectory(path)
    if not study.description_path.is_file():
        problem = f"{path} is not a study folder: it has no {study.description_path.name}"
        raise UsageError(problem, "give a folder that 'vit study' made")
    described, cells = study.read()
    choices = tuned(study, cells)
    wanted = [cell for cell in cells if cell.choice == choices.get(cell.group, "")]
    read = [(cell, study.run(cell).read_result()) for cell in wanted]
    finished = [(cell, result) for cell, result in read if result is not None]
    for cell, result in finished:  # one training in two places would be two that agree
        if (result.seed, result.num_images.get("train", cell.num_images)) != (cell.seed, cell.num_images):
            raise DataError(
                f"{study.run(cell).path} holds a training with seed {result.seed}, and not that of {cell.describe()}",
                "move this folder elsewhere, and give the 'vit study' command again",
            )
    runs = [(study.run(cell), result) for cell, result in finished]
    seeds = [cell.seed for cell, _ in finished]
    common = CommonAnswers.of_folds(runs, seeds) if "folds" in described else CommonAnswers.of(runs)
    failed = [
        FailedCell(**vars(cell), error=run.failure_path.read_text(encoding="utf-8", errors="replace").strip())
        for cell in cells
        if (run := study.run(cell)).failure_path.is_file() and not run.result_path.is_file()
    ]
    num_wanted = len({(cell.group, cell.seed) for cell in cells})
    results = [result for _, result in finished]
    versions: dict[str, set[str]] = {}
    for result in results:
        for name, version in result.versions.items():
            versions.setdefault(name, set()).add(version)
    protocol = {
        **described,
        "cells": f"{len(finished):,} of {num_wanted:,} finished, {len(failed):,} failed",
        "checkpoints": _distinct(rule_text(result.best_metric) for result in results),
        "device": _distinct(result.device for result in results),
        "precision": _distinct(result.precision for result in results),
        "versions": {name: _distinct(values) for name, values in versions.items()},
    }
    if seen := with_most_copies(sentence for result in results for sentence in result.seen_before or ()):
        protocol["seen_before"] = seen
    cells_found = [
        CellResult(
            series=cell.series,
            network=result.spec.name,
            num_images=cell.num_images,
            seed=cell.seed,
            accuracy=float(correct.mean()),
            validation_loss=result.validation["val/loss"],
            steps=result.steps,
            batch_size=result.batch_size,
            epochs=result.epochs,
            best_round=result.best_epoch,
            parameters=result.parameters,
            flops=result.flops,
            seconds=result.seconds,
            images_per_second=result.images_per_second,
            last_is_better=result.last_is_better,
            run=cell.folder,
            correct=correct,
            groups=common.groups,
            late_gain=late_gain(study.run(cell).metrics_path),
        )
        for (cell, result), correct in zip(finished, common.correct, strict=True)
    ]
    if tested := {result.tested_text for result in results} - {""}:
        protocol["tested"] = f"{' or '.join(sorted(tested))}: nothing is measured about the others"
    if words := "" if protocol.get("budget") == LINEAR_PROBE else at_the_end(cells_found):
        protocol["at_the_end"] = words
    if common.num_left_out:
        left_out = count_of(common.num_left_out, "test image")
        protocol["left_out"] = f"{left_out} that a run could not read, and that no run counts"
    if unreadable := max((result.unreadable_images for result in results), default=0):
        lacks = f"A run could not read {count_of(unreadable, 'training image')}"
        protocol["unreadable"] = f"{lacks}, and took others instead: 'vit data check' lists all."
    if (num_groups := number_of(common.groups)) is not None:
        protocol["test_groups"] = num_groups
    if any(choices.values()):
        own: dict[str, dict[str, None]] = {}  # different seeds may choose the same
        for (name, images, _), choice in choices.items():
            own.setdefault(f"{name}, {images:,} images", {})[choice] = None
        protocol["chosen"] = {group: "; ".join(each) for group, each in own.items()}
    return cells_found, protocol, failed


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))
