"""Measured images that a network knows already: by copies, from its teacher, or from the run that it starts from

A network that has learned these images, from whatever weights, is measured too well. Only weights in a run folder say
which images they know: by `splits.csv`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vit.checkpoints.model_path import LIBRARIES
from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import Contents
from vit.data.core.groups import copies_note
from vit.data.core.samples import Labels, Source
from vit.data.splits.split import SplitRow, split_rows
from vit.plain_files import parse_yaml, read_text
from vit.training.recipes.recipe import Recipe
from vit.training.running.run_images import MEASURED, SEEN, SeenRows

BY_TEACHER = "results on them are too good; train both networks with the same splits"
BY_START = (
    "results on them are too good; keep the same splits (--data.split_seed, validation, test and groups), or name them "
    "in a column split of DATA so that these images stay in train"
)
WITHOUT_LABELS = "results on them may be too good for new images"


OF_FOLDS = "results on them are too good; start from weights that have not learned these images"


def seen_before(recipe: Recipe, source: Source, contents: Contents, fix: str | None = None) -> list[str]:
    """A sentence for each run that knows validation or test images and that a training learns from; one about copies.

    These are the run of the teacher, the run of the weights to start from, and the runs that those learned from.

    Args:
        recipe: recipe whose teacher and weights to start from have been found.
        source: images of the training.
        contents: content of its validation and test images, and of the others, where their copies count.
        fix: what follows, and what to do; None: for a training with these splits.

    Raises:
        DataError: `splits.csv` of such a run is damaged.
    """
    measured = {split: source.splits[split] for split in MEASURED if split in source.splits}
    rows = split_rows(replace(source, splits=measured), contents.hashes)
    found = [words for words in (copies_note(contents.hashes),) if words]
    for weights, is_teacher in ((recipe.distill.teacher, True), (recipe.model.init_from, False)):
        for who, run in _earlier_runs(weights, is_teacher):
            words = _words(run, rows)
            if words:
                then = WITHOUT_LABELS if run.is_pretraining else fix or (BY_TEACHER if is_teacher else BY_START)
                found.append(f"{who} {words}, so that {then}")
    return found


def seen_in_training(runs: Sequence[RunDirectory], source: Source, split: str, contents: Contents) -> dict[str, Labels]:
    """Which images of a split some runs were trained, validated or calibrated on.

    Args:
        runs: a run and those of `learned_from`.

    Returns:
        indices of the images in the split, by the splits of `SEEN`. An image of several counts in the first one.

    Raises:
        DataError: `splits.csv` of such a run is missing or damaged.
    """
    rows = split_rows(replace(source, splits={split: source.splits[split]}), contents.hashes)[split]
    found = [SeenRows.of(one).among(rows) for one in runs]
    seen, free = dict[str, Labels](), np.full(len(rows), True)
    for name in SEEN:
        indices = np.unique(np.concatenate([one[name] for one in found]))
        seen[name] = indices[free[indices]]
        free[indices] = False
    return seen


def learned_from(run: RunDirectory) -> list[RunDirectory]:
    """The runs that a run learned from: of its teacher, of its first weights, and before these.

    Pretrainings do not count, because they know no labels.
    """
    start, teacher = _origins(run)
    earlier = [*_earlier_runs(start, False), *_earlier_runs(teacher, True)]
    return [one for _, one in earlier if not one.is_pretraining]


def _words(run: RunDirectory, rows: dict[str, list[SplitRow]]) -> str:
    """What a run did with the measured images, by split; empty where it knows none of them.

    That an earlier run was validated on the images that validate this one is as it should be. A pretraining chooses
    nothing by its validation images.
    """
    seen, done = SeenRows.of(run), "has trained on {}"
    counts = {split: {used: len(found) for used, found in seen.among(rows[split]).items()} for split in rows}
    learned = {split: used["train"] for split, used in counts.items()}
    fitted = {"test": sum(counts["test"].values()) - learned["test"]} if "test" in counts else {}
    if run.is_pretraining:
        done, fitted = "has learned from {} without their labels", {}
    parts = []
    for verb, found in ((done, learned), ("was validated or calibrated on {}", fitted)):
        images = [f"{count:,} of {len(rows[split]):,} {split} images" for split, count in found.items() if count]
        parts += [verb.format(" and ".join(images))] * bool(images)
    return " and ".join(parts)


def _earlier_runs(weights: str | None, is_teacher: bool) -> Iterator[tuple[str, RunDirectory]]:
    """The run of some weights, and all runs that it has learned from, each with its words in a sentence.

    Args:
        weights: of the teacher of a training, or weights that it starts from.
    """
    role, known = "" if is_teacher else "from which this training starts", set()
    waiting = [(weights, role)]
    while waiting:
        weights, role = waiting.pop(0)
        run = None if weights is None else _run_of(weights)
        if run is None or run.path in known:
            continue
        known.add(run.path)
        yield f"the run {run.path}, {role}," if role else f"the teacher {weights}", run
        start, teacher = _origins(run)
        waiting += [(start, f"from which {run.path} started"), (teacher, f"the teacher of {run.path}")]


def _run_of(weights: str) -> RunDirectory | None:
    """The run that weights are of: a run folder, or a file in it or among its checkpoints; None for other weights."""
    if weights.partition(":")[0] in LIBRARIES:
        return None
    path = Path(weights).expanduser().absolute()
    run = (None if path.is_dir() else RunDirectory.around(path.parent)) or RunDirectory.around(path)
    return run if run is not None and run.splits_path.is_file() else None


def _origins(run: RunDirectory) -> tuple[str | None, str | None]:
    """The weights that a run started from, and those of its teacher; None: none, or config.yaml does not say it."""
    try:
        recipe = parse_yaml(read_text(run.config_path))
    except (OSError, ValueError):
        return None, None
    return _text(recipe, "model", "init_from"), _text(recipe, "distill", "teacher")


def _text(recipe: object, group: str, name: str) -> str | None:
    options = recipe.get(group) if isinstance(recipe, dict) else None
    value = options.get(name) if isinstance(options, dict) else None
    return value if isinstance(value, str) else None
