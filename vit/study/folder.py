"""A study's folder: every file name in it, and what its finished cells found.

study.json says which cells the study has, each with its run folder below cells/. A cell is finished when its run has a
result.json, and failed when it has a failure.txt; results.csv, summary.json, curve.png and report.html are made from
these alone, at any time.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vit.atomic_files import write_json
from vit.checkpoints.result import RunResult, unpack
from vit.errors import UsageError
from vit.layout import RunLayout, StudyLayout
from vit.study.findings import CellResult
from vit.study.grid import Cell


class StudyDirectory(StudyLayout):
    """A study folder."""

    @classmethod
    def open(cls, path: Path) -> "StudyDirectory":
        """An existing study; UsageError when the folder is none."""
        study = cls(path)
        if not study.description_path.is_file():
            raise UsageError(
                f"{path} is not a study folder: it has no {study.description_path.name}",
                "give a folder that 'vit study' made",
            )
        return study

    def check_extends(self, cells: Sequence[Cell]) -> None:
        """UsageError where the study that is here has finished cells that are not among these: its report would go."""
        if not self.description_path.is_file():
            return
        kept = {cell.folder.as_posix() for cell in cells}
        there = json.loads(self.description_path.read_text(encoding="utf-8"))["cells"]
        lost = [cell for cell in there if cell["folder"] not in kept and result_of(self.path / cell["folder"])]
        if lost:
            one = lost[0]
            words = f"{one['series']}, {one['images']:,} images, seed {one['seed']}"
            raise UsageError(
                f"{self.path} holds another study, of other options, images or weights: {len(lost):,} of its finished "
                f"cells would not be in this one's report, such as {words}",
                "give --name for a folder of its own, or what the study that is there had, or more of it",
            )

    def describe(self, cells: Sequence[Cell], protocol: Mapping[str, Any]) -> None:
        """Write study.json."""
        self.path.mkdir(parents=True, exist_ok=True)
        listed = [
            {
                "series": cell.series,
                "images": cell.images,
                "seed": cell.seed,
                "choice": cell.choice,
                "folder": cell.folder.as_posix(),
            }
            for cell in cells
        ]
        write_json(self.description_path, {"protocol": dict(protocol), "cells": listed})


def result_of(run: Path) -> RunResult | None:
    """The result of a run folder, or None while the run is not finished."""
    file = RunLayout(run).result_path
    return RunResult.read(file) if file.is_file() else None


def chosen(losses: Mapping[str, float | None]) -> str | None:
    """The choice with the lowest validation loss; None while one is neither finished nor failed (None)."""
    if any(loss is None for loss in losses.values()):
        return None
    return min(losses, key=lambda choice: (losses[choice], choice))


def tuned(study: StudyDirectory, cells: Sequence[tuple[tuple[str, int], int, str, str]]) -> dict[tuple[str, int], str]:
    """The choice of every group whose candidates are all done.

    Args:
        cells: (group, seed, choice, folder) of each; candidates are those of the group's first seed.
    """
    losses: dict[tuple[str, int], dict[str, float | None]] = {}
    first: dict[tuple[str, int], int] = {}
    for group, seed, choice, folder in cells:
        if seed == first.setdefault(group, seed):
            run = study.path / folder
            result = result_of(run)
            failed = float("inf") if RunLayout(run).failure_path.is_file() else None
            losses.setdefault(group, {})[choice] = result.validation["val/loss"] if result else failed
    found = {group: chosen(each) for group, each in losses.items()}
    return {group: choice for group, choice in found.items() if choice is not None}


def collect(path: Path) -> tuple[list[CellResult], dict[str, Any], list[dict[str, Any]]]:
    """(finished cells, protocol, failed cells) of a study's folder.

    Where values were tuned, only the cells of the chosen ones count; the protocol says which were chosen, how many
    cells there are, and with which versions and devices they ran.

    Raises:
        UsageError: the folder is no study.
    """
    study = StudyDirectory.open(path)
    content = json.loads(study.description_path.read_text(encoding="utf-8"))
    cells = content["cells"]
    keyed = [((cell["series"], cell["images"]), cell["seed"], cell["choice"], cell["folder"]) for cell in cells]
    choices = tuned(study, keyed)
    results: list[CellResult] = []
    failed: list[dict[str, Any]] = []
    places: dict[str, set[str]] = {"device": set(), "precision": set()}
    versions: dict[str, set[str]] = {}
    wanted = 0
    for (group, _, choice, folder), cell in zip(keyed, cells, strict=True):
        if choices.get(group, choice) != choice:
            continue
        wanted += 1
        result = result_of(path / folder)
        if result is not None:
            results.append(_cell_result(cell, result))
            places["device"].add(result.device)
            places["precision"].add(result.precision)
            for name, version in result.versions.items():
                versions.setdefault(name, set()).add(str(version))
        elif (failure := RunLayout(path / folder).failure_path).is_file():
            reason = failure.read_text(encoding="utf-8", errors="replace").strip()
            failed.append({**cell, "run": folder, "error": reason})
    protocol = {
        **content["protocol"],
        "cells": f"{len(results):,} of {wanted:,} finished, {len(failed):,} failed",
        **{name: ", ".join(sorted(seen)) for name, seen in places.items()},
        "versions": {name: ", ".join(sorted(seen)) for name, seen in versions.items()},
    }
    if any(choices.values()):
        protocol["chosen"] = {f"{name}, {images:,} images": choice for (name, images), choice in choices.items()}
    return results, protocol, failed


def _cell_result(cell: Mapping[str, Any], result: RunResult) -> CellResult:
    return CellResult(
        series=cell["series"],
        network=result.spec.name,
        images=cell["images"],
        seed=cell["seed"],
        accuracy=result.metrics["acc1"]["value"],
        validation_loss=result.validation["val/loss"],
        steps=result.steps,
        batch_size=result.batch_size,
        epochs=result.epochs,
        best_round=result.best_epoch,
        parameters=result.parameters,
        flops=result.flops,
        seconds=result.seconds,
        images_per_second=result.images_per_second,
        run=cell["folder"],
        correct=unpack(result.correct["test"], result.num_images["test"]),
    )
