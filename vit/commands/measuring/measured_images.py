"""The images that `vit evaluate` measures: of one split, unseen in training, with the class numbers of the model"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

import numpy as np

from vit.console import ProgressReport, Reporter, count_of
from vit.data.checks.contents import read_contents
from vit.data.core.dataset_names import TableColumns
from vit.data.core.groups import copies_note, leak_note, with_groups
from vit.errors import CheckpointError, DataError, UsageError, some_of
from vit.inference.files import TABLES
from vit.tasks.label_text import ABSENT, NOT_KNOWN
from vit.tasks.task import Task
from vit.training.running.run_images import (
    MEASURED,
    SEEN,
    SeenImages,
    check_contents,
    groups_in_training,
    learned_from,
    seen_in_training,
    splits_of_run,
)

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory
    from vit.data.checks.contents import Contents
    from vit.data.core.samples import Labels, Samples, Source
    from vit.inference.predictor import Predictor

SPLITS = ("test", "validation", "train")  # in the order in which they are preferred
SHOWN_CLASSES = 10
_USED = {"train": "trained on", "validation": "validated on", "calibration": "was calibrated on"}
_TOO_GOOD = "so the metrics are too good for new images"


def choose_split(source: "Source", split: str) -> str:
    """The split with a name; "auto": the first of test, validation and train that there is."""
    if split == "auto":
        return next(name for name in SPLITS if name in source.splits)
    if split not in source.splits:
        fix = f"choose one of {', '.join(source.splits)}" if len(source.splits) > 1 else "leave --split out"
        raise UsageError(f"{source.name} has no {split} images", fix)
    return split


def shown_split(source: "Source", split: str) -> str:
    """The name of a chosen split for people and folders: "all" where there is no other one.

    A source without splits, such as plain class folders, holds all its images as training images.
    """
    return "all" if tuple(source.splits) == ("train",) else split


def describe_images(name: str, shown: str) -> str:
    """Images of a data set, in words: "images of photos (test)", "images of photos".

    Args:
        name: name of the data set.
        shown: their split, as `shown_split` gives it.
    """
    return f"images of {name}" if shown == "all" else f"images of {name} ({shown})"


def in_groups_of_run(source: "Source", run: "RunDirectory", reporter: Reporter) -> "Source":
    """The images with the groups that the run's pattern finds; as they are, with a notice, where a path has none."""
    from vit.commands.cli.recipe_options import read_recipe

    pattern = read_recipe(run.config_path).data.groups
    try:
        return with_groups(source, pattern)
    except DataError as error:
        reporter.notice(f"{error.problem}; the run's groups are not used (vit evaluate --groups gives others)")
        return source


def check_own_images(run: "RunDirectory", source: "Source", split: str, reporter: Reporter) -> None:
    """Raise DataError if images of a run have changed since its training."""
    check_contents(run, source, split, _contents(source, split, reporter))


def _check_own_labels(run: "RunDirectory", source: "Source", split: str) -> None:
    """Raise DataError if the table of a run now has other labels for images of a split than its training had."""
    from vit.commands.cli.recipe_options import read_recipe
    from vit.data.core.samples import label_names
    from vit.training.planning.images import opened_data

    data, samples = read_recipe(run.config_path).data, source.splits[split]
    table = Path(data.source).expanduser()
    if table.suffix.lower() not in TABLES or not table.is_file():
        return
    try:
        now = opened_data(data)
    except DataError:  # the table is in use for other images now
        return
    labels = {
        path: label
        for part in now.splits.values()
        for path, label in zip(part.paths, label_names(part, now.class_names), strict=True)
    }
    before = zip(samples.paths, label_names(samples, source.class_names), strict=True)
    changed = [path for path, label in before if labels.get(path, label) != label and now.task is source.task]
    if changed:
        raise DataError(
            f"{count_of(len(changed), f'{split} image')} of {table} got other labels since the training: "
            f"{some_of(changed)}",
            f"give DATA to measure the labels as they are now: vit evaluate {run.path} {table}",
        )


def own_images(
    model: Path, run: "RunDirectory", source: "Source", split: str, reporter: Reporter
) -> "tuple[Samples, SeenImages]":
    """The images of a split of a run, with a warning where it knows them or copies of them.

    Args:
        model: the model, which is in the folder of the run.
        source: the images of the run.

    Raises:
        DataError: images have changed since the training.
    """
    check_own_images(run, source, split, reporter)
    _check_own_labels(run, source, split)
    samples = source.splits[split]
    own = _own_warning(model, run, source, split) if split in SEEN else ""
    warnings = [own] * bool(own) + (_known_before(run) if split in MEASURED else [])
    for warning in warnings:
        reporter.notice(f"WARNING: {warning}")
    scored = {split: len(samples)} if split in SEEN else {}
    return samples, SeenImages(scored=scored, warning="; ".join(warnings))


def check_own_model(model: Path, run: "RunDirectory", predictor: "Predictor") -> None:
    """Raise CheckpointError where best.ckpt is of another training than result.json: what it has seen is not known."""
    result = run.read_result()
    if result is None or not model.is_dir() or predictor.network is None:
        return
    found, expected = predictor.engine.temperature, result.temperature
    if found != expected or predictor.multilabel != result.rules:
        raise CheckpointError(
            f"{run.best_path} and {run.result_path} are of different trainings: their temperatures are {found:.6g} and "
            f"{expected:.6g}, or their thresholds differ",
            "restore the file that was replaced, or give the checkpoint outside of this run, and DATA",
        )


def _known_before(run: "RunDirectory") -> list[str]:
    """Sentences about validation and test images of a run that its network knows from elsewhere, or by copies."""
    result = run.read_result()
    told = [] if result is None else list(result.seen_before or ())
    listed = splits_of_run(run)
    copied = copies_note({split: [row.content_hash for row in rows] for split, rows in listed.items()})
    return list(dict.fromkeys([*told, *([copied] if copied else [])]))


def _own_warning(model: Path, run: "RunDirectory", source: "Source", split: str) -> str:
    """What a run has learned or chosen from images of a split; "" where the model depends on nothing of them."""
    count = len(source.splits[split])
    if split == "train":
        return f"the network has trained on these {count:,} train images, {_TOO_GOOD}"
    checkpoint = run.best_path if model.is_dir() else model
    if checkpoint.suffix == run.best_path.suffix and checkpoint.resolve() != run.best_path.resolve():
        return ""  # another checkpoint than the one that was chosen and calibrated
    result = run.read_result()
    chosen = ["the weights"] if result is None or result.is_chosen else []
    chosen += [] if "calibration" in source.splits else ["the temperature", "the thresholds"]
    *most, last = chosen or [""]
    words = f"{', '.join(most)} and {last}" if most else last
    return f"these {count:,} {split} images chose {words}, {_TOO_GOOD}" if words else ""


def unseen_images(
    run: "RunDirectory", source: "Source", split: str, include_seen: bool, reporter: Reporter
) -> "tuple[Samples, SeenImages]":
    """The images of a split without the images that a run was trained, validated or calibrated on.

    Args:
        include_seen: keep these images, with a warning.

    Returns:
        the images, and how many images of the run are left out, or scored.

    Raises:
        DataError: no image is left.
    """
    samples = source.splits[split]
    earlier = learned_from(run)
    seen = seen_in_training([run, *earlier], source, split, _contents(source, split, reporter))
    kept = np.setdiff1d(np.arange(len(samples)), np.concatenate(list(seen.values())))
    shared = groups_in_training(run, samples if include_seen else samples.select(kept))
    if shared:
        reporter.notice(leak_note("the training images of the run", source.name, shared))
    counts, none = {name: len(indices) for name, indices in seen.items()}, dict.fromkeys(seen, 0)
    words = _describe_seen(seen, "the run, or one that it learned from," if earlier else "the run")
    if not words:
        return samples, SeenImages(counts, none)
    if include_seen:
        warning = f"{words} are scored too (--include_seen), {_TOO_GOOD}"
        reporter.notice(f"WARNING: {warning}")
        return samples, SeenImages(none, counts, warning)
    if not len(kept):
        raise DataError(
            f"all {len(samples):,} images of {source.name} are images that {run.path} was trained, validated or "
            "calibrated on",
            "give other images, or --include_seen to score these",
        )
    reporter.notice(f"left out: {words}; {len(kept):,} of {len(samples):,} images are measured (--include_seen: all)")
    return samples.select(kept), SeenImages(counts, none)


def _contents(source: "Source", split: str, reporter: Reporter) -> "Contents":
    with ProgressReport(reporter, "image read") as progress:
        return read_contents(source, progress.update, (split,))


def _describe_seen(seen: "Mapping[str, Labels]", who: str) -> str:
    return " and ".join(
        f"{len(indices):,} images that {who} {_USED[name]}" for name, indices in seen.items() if len(indices)
    )


def say_notes(source: "Source", reporter: Reporter) -> None:
    """Show what DATA says of itself, such as skipped files; `with_model_classes` names classes without images."""
    absent = tuple(f"{split} has no image " for split in source.splits)
    for note in source.notes:
        if not note.startswith(absent):
            reporter.notice(note)


def with_model_classes(
    samples: "Samples", source: "Source", class_names: Sequence[str], reporter: Reporter
) -> "Samples":
    """The same images with labels as the model numbers its classes; classes are matched by name.

    Raises:
        DataError: the model does not know a class.
    """
    source = _spelled_alike(source, class_names)
    numbers = {name: number for number, name in enumerate(class_names)}
    unknown = [name for name in source.class_names if name not in numbers]
    if unknown:
        raise DataError(
            f"{source.name} has {source.task.kinds} that the model does not know: {', '.join(unknown[:SHOWN_CLASSES])} "
            f"(it knows {', '.join(class_names[:SHOWN_CLASSES])})",
            "rename them, or move them elsewhere",
        )
    if not source.task.is_exclusive:
        return _with_model_labels(samples, source, class_names, reporter)
    labels = np.array([numbers[name] for name in source.class_names], dtype=np.int64)[samples.labels]
    missing = sorted(set(range(len(class_names))) - set(labels.tolist()))
    if missing:
        some = ", ".join(class_names[number] for number in missing[:SHOWN_CLASSES])
        reporter.notice(f"no image of {len(missing)} classes: {some}")
    return replace(samples, labels=labels)


def _spelled_alike(source: "Source", class_names: Sequence[str]) -> "Source":
    """The source with names as the model spells them, where they differ only in how Unicode composes a letter."""
    spelling = {normalize("NFC", name): name for name in class_names}
    if len(spelling) < len(class_names):
        return source
    known = set(class_names)
    names = tuple(name if name in known else spelling.get(normalize("NFC", name), name) for name in source.class_names)
    return replace(source, class_names=names) if len(set(names)) == len(names) else source


def _with_model_labels(
    samples: "Samples", source: "Source", class_names: Sequence[str], reporter: Reporter
) -> "Samples":
    """The same for images with several labels.

    A label that the data set does not have is unknown. Where images list their labels, no image has it.
    """
    columns = {name: samples.labels[:, number] for number, name in enumerate(source.class_names)}
    nothing = np.full(len(samples), ABSENT if source.has_label_lists else NOT_KNOWN, dtype=np.int8)
    labels = np.stack([columns.get(name, nothing) for name in class_names], axis=1)
    missing = [name for name in class_names if name not in columns]
    if missing:
        some = ", ".join(missing[:SHOWN_CLASSES])
        are_measured = "they count as absent from all images"
        what = are_measured if source.has_label_lists else "their predictions are not measured"
        reporter.notice(f"{source.name} has no labels {some}: {what}")
    return replace(samples, labels=labels)


def of_same_task(source: "Source", task: "Task") -> "Source":
    """The images for a model of one class or of several labels: those of a one-hot table suit both.

    Raises:
        DataError: the images have one class each, and the model gives several labels; or the other way.
    """
    if source.task is task:
        return source
    if source.is_one_hot:
        return source.with_label_rows()
    raise DataError(f"{source.name} has {source.task.described}, and the model is for {task.described}", task.layout)


def opened_source(
    model: str, data: str | None, root: str | None, columns: TableColumns, groups: str | None, reporter: Reporter
) -> "Source":
    """DATA, or the images of the run. Columns that are not given are those of the run."""
    from vit.checkpoints.run import RunDirectory
    from vit.commands.cli.recipe_options import read_recipe
    from vit.data.sources.sources import columns_for, open_source
    from vit.training.running.run_images import images_of_run

    run = RunDirectory.around(Path(model))
    if data is None:
        assert run is not None
        return images_of_run(run, read_recipe(run.config_path), root)
    if run is not None:
        columns = columns_for(data, columns, read_recipe(run.config_path).data.columns)
    source = open_source(data, root, allow_empty=True, columns=columns, to_measure=True)
    say_notes(source, reporter)
    if groups is not None or run is None:
        return with_groups(source, groups, "--groups")
    return in_groups_of_run(source, run, reporter)


def measured_by(
    model: str, data: str | None, source: "Source", split: str, include_seen: bool, reporter: Reporter
) -> "tuple[Samples, SeenImages]":
    """The images to measure, and how many of the run's images are left out, or are among them."""
    from vit.checkpoints.run import RunDirectory

    run = RunDirectory.around(Path(model))
    if run is None:
        reporter.notice(f"{model} is not in a run folder: images that it was trained on are not recognized")
        return source.splits[split], SeenImages()
    if data is None:
        return own_images(Path(model), run, source, split, reporter)
    return unseen_images(run, source, split, include_seen, reporter)
