"""Images of a run or of DATA: of one split, unseen in training, with the class numbers of the model"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import numpy as np

from vit.checkpoints.run import RunDirectory
from vit.commands.cli.arguments import StrPath, path_text, shell_command
from vit.commands.cli.recipe_options import read_recipe
from vit.console import ProgressReport, Reporter, count_of
from vit.data.checks.contents import Contents, read_contents
from vit.data.core.dataset_names import TORCHVISION, TableColumns
from vit.data.core.groups import copies_note, leak_note, with_groups
from vit.data.core.samples import Samples, Source, label_names
from vit.data.sources.sources import columns_for, open_source
from vit.errors import CheckpointError, DataError, UsageError, VitError, some_of
from vit.inference.files import TABLES
from vit.inference.predictor import Predictor
from vit.tasks.label_text import ABSENT, NOT_KNOWN
from vit.tasks.task import Task
from vit.training.planning.images import opened_data
from vit.training.running.run_images import (
    MEASURED,
    SEEN,
    SeenImages,
    groups_in_training,
    images_of_run,
    learned_from,
    left_out_of,
    missing_origins,
    seen_in_training,
    splits_of_run,
)

SPLITS = ("test", "validation", "train")  # in the order in which they are preferred
SHOWN_CLASSES = 10
_USED = {"train": "trained on", "validation": "validated on", "calibration": "was calibrated on"}
_TOO_GOOD = "so the metrics are too good for new images"


def opened_source(
    model: str, data: str | None, root: str | None, columns: TableColumns, groups: str | None, reporter: Reporter
) -> tuple[Source, TableColumns]:
    """DATA, or the images of the run, and their columns. Columns and groups that are not given are those of the run."""
    run = RunDirectory.around(Path(model))
    if data is None:
        assert run is not None
        return _images_of(run, root, reporter)
    data_of_run = None if run is None else read_recipe(run.config_path).data
    if data_of_run is not None:
        columns = columns_for(data, columns, data_of_run.columns)
    source = open_source(data, root, allow_empty=True, columns=columns, to_measure=True)
    absent = tuple(f"{split} has no image " for split in source.splits)
    for note in source.notes:  # such as skipped files; `with_model_classes` names classes without images
        if not note.startswith(absent):
            reporter.notice(note)
    if groups is not None or data_of_run is None:
        return with_groups(source, groups, "--groups"), columns
    try:
        return with_groups(source, data_of_run.groups), columns
    except DataError as error:  # a path has no group of this pattern
        reporter.notice(f"{error.problem}; the run's groups are not used (vit evaluate --groups gives others)")
        return source, columns


def images_for_pictures(run: Path, root: StrPath | None, reporter: Reporter) -> Source | None:
    """The images of a run for the pictures of a page; None, with a notice, where they cannot be opened."""
    try:
        return _images_of(RunDirectory(run), path_text(root), reporter)[0]
    except VitError as error:
        reporter.notice(f"the page has no pictures: {error}")
        return None


def _images_of(run: RunDirectory, root: str | None, reporter: Reporter) -> tuple[Source, TableColumns]:
    recipe = read_recipe(run.config_path)
    if root is not None and recipe.data.source not in TORCHVISION:
        why = f"it is for data sets of torchvision, and the run is of {recipe.data.source}"
        reporter.notice(f"--root changes nothing, because {why}")
    return images_of_run(run, recipe, root), recipe.data.columns


def choose_split(source: Source, split: str) -> str:
    """The split with a name; "auto": the first of test, validation and train that there is."""
    if split == "auto":
        return next(name for name in SPLITS if name in source.splits)
    if split not in source.splits:
        fix = f"choose one of {', '.join(source.splits)}" if len(source.splits) > 1 else "leave --split out"
        raise UsageError(f"{source.name} has no {split} images", fix)
    return split


def shown_split(source: Source, split: str) -> str:
    """The name of a chosen split for people and folders: "all" of plain class folders, which count as training."""
    return "all" if tuple(source.splits) == ("train",) else split


def describe_part(name: str, shown: str) -> str:
    """A data set and a split of it as `shown_split` gives it: "photos (test)", "photos"."""
    return name if shown == "all" else f"{name} ({shown})"


def of_same_task(source: Source, task: Task) -> Source:
    """The images for a model of one class or of several labels: a one-hot table suits both. DataError for others."""
    if source.task is task:
        return source
    if source.is_one_hot:
        return source.with_label_rows()
    raise DataError(f"{source.name} has {source.task.described}, and the model is for {task.described}", task.layout)


def images_to_measure(
    models: Sequence[str], data: str | None, source: Source, split: str, include_seen: bool, reporter: Reporter
) -> tuple[Samples, SeenImages]:
    """The images of a split (without `data` of the first run) that no model has seen, and counts of seen ones."""
    samples, seen, runs = source.splits[split], SeenImages(), list[RunDirectory]()
    for model in models:
        run = RunDirectory.around(Path(model))
        if run is None:
            warning = f"{model} is not in a run folder, so images that it was trained on are not recognized"
            reporter.warn(warning)
            seen = replace(seen, warning="; ".join(filter(None, (seen.warning, warning))))
        elif data is None and model == models[0]:
            samples, seen = own_images(Path(model), run, source, split, reporter)
        else:
            runs.append(run)
    if not runs:
        return samples, seen
    samples, more = unseen_images(runs, source, split, include_seen, reporter)
    scored = {split: len(samples)} if seen.scored else more.scored  # an image that several runs have seen counts once
    return samples, SeenImages(more.left_out, scored, "; ".join(filter(None, (seen.warning, more.warning))))


def own_images(
    model: Path, run: RunDirectory, source: Source, split: str, reporter: Reporter
) -> tuple[Samples, SeenImages]:
    """The images of a split of a model's run, with warnings where it knows them. DataError where they have changed."""
    check_own_images(run, source, split, reporter)
    _check_own_labels(run, source, split)
    samples, warnings = source.splits[split], list[str]()
    if split in SEEN and (own := _own_warning(model, run, source, split)):
        warnings.append(own)
    if split in MEASURED:  # images that its network knows from elsewhere, or by copies
        result, listed = run.read_result(), splits_of_run(run)
        known = [] if result is None else list(result.seen_before or ())
        copied = copies_note({name: [row.content_hash for row in rows] for name, rows in listed.items()})
        warnings += dict.fromkeys([*known, *([copied] if copied else [])])
    reporter.warn(*warnings)
    return samples, SeenImages(scored={split: len(samples)} if split in SEEN else {}, warning="; ".join(warnings))


def check_own_images(run: RunDirectory, source: Source, split: str, reporter: Reporter) -> None:
    """Raise DataError if images of a split changed since the run began, or went missing, but for those it left out."""
    now, left_out = _contents(source, split, reporter).hashes[split], left_out_of(run).get(split, {})
    rows = zip(splits_of_run(run)[split], source.splits[split].paths, now, strict=True)
    changed = [path for row, path, new in rows if row.content_hash not in ("", new) and path not in left_out]
    if changed:
        count = count_of(len(changed), f"{split} image")
        problem = f"{count} of {source.name} changed since the run or went missing: {some_of(changed)}"
        raise DataError(problem, "restore them, or measure them as they are now: vit evaluate RUN DATA")


def _contents(source: Source, split: str, reporter: Reporter) -> Contents:
    with ProgressReport(reporter, "image read") as progress:
        contents = read_contents(source, progress.update, (split,))
    reporter.notice(contents.frames.warning.strip())
    return contents


def _check_own_labels(run: RunDirectory, source: Source, split: str) -> None:
    """Raise DataError if the table of a run now has other labels for images of a split than its training had."""
    data, samples = read_recipe(run.config_path).data, source.splits[split]
    table = Path(data.source).expanduser()
    if table.suffix.lower() not in TABLES or not table.is_file():
        return
    try:
        now = opened_data(data)
    except DataError:  # the table is in use for other images now
        return
    labels: dict[str, str] = {}
    for part in now.splits.values() if now.task is source.task else ():
        labels |= zip(part.paths, label_names(part, now.class_names), strict=True)
    before = zip(samples.paths, label_names(samples, source.class_names), strict=True)
    changed = [path for path, label in before if labels.get(path, label) != label]
    if changed:
        images = f"{count_of(len(changed), f'{split} image')} of {table}"
        command = shell_command("vit", "evaluate", run.path, table, options={})
        raise DataError(f"{images} got other labels since the training: {some_of(changed)}", f"measure them: {command}")


def check_own_model(model: Path, predictor: Predictor) -> None:
    """Raise CheckpointError where best.ckpt is of another training than result.json: what it has seen is not known."""
    run = RunDirectory.around(model)
    result = None if run is None else run.read_result()
    if run is None or result is None or not model.is_dir() or predictor.network is None:
        return
    temperature, expected = predictor.engine.temperature, result.temperature
    if temperature != expected or predictor.multilabel != result.rules:
        why = f"their temperatures are {temperature:.6g} and {expected:.6g}, or their thresholds differ"
        fix = "restore the file that was replaced, or give the checkpoint outside of this run, and DATA"
        raise CheckpointError(f"{run.best_path} and {run.result_path} are of different trainings: {why}", fix)


def _own_warning(model: Path, run: RunDirectory, source: Source, split: str) -> str:
    """What a run has learned or chosen from images of a split; "" where the model depends on nothing of them."""
    count = len(source.splits[split])
    if split == "train":
        return f"the network has trained on these {count:,} train images, {_TOO_GOOD}"
    checkpoint = run.best_path if model.is_dir() else model
    if checkpoint.suffix == run.best_path.suffix and checkpoint.resolve() != run.best_path.resolve():
        return ""  # another checkpoint than the one that was chosen and calibrated
    result = run.read_result()
    fitted = ["the weights"] if result is None or result.is_chosen else []
    fitted += [] if "calibration" in source.splits else ["the temperature", "the thresholds"]
    *most, last = fitted or [""]
    words = f"{', '.join(most)} and {last}" if most else last
    return f"these {count:,} {split} images chose {words}, {_TOO_GOOD}" if words else ""


def unseen_images(
    runs: Sequence[RunDirectory], source: Source, split: str, include_seen: bool, reporter: Reporter
) -> tuple[Samples, SeenImages]:
    """The images of a split that no run learned from, or with `include_seen` all; DataError where none is left."""
    samples, earlier = source.splits[split], [one for run in runs for one in learned_from(run)]
    seen = seen_in_training([*runs, *earlier], source, split, _contents(source, split, reporter))
    if gone := missing_origins([*runs, *earlier]):
        reporter.warn(f"images learned by runs that are missing are not left out: {some_of(gone)}")
    unseen = np.setdiff1d(np.arange(len(samples)), np.concatenate(list(seen.values())))
    part, who = samples if include_seen else samples.select(unseen), "the run" if len(runs) == 1 else "a run"
    if shared := sorted({group for run in runs for group in groups_in_training(run, part)}):
        reporter.notice(leak_note(f"the training images of {who}", source.name, shared))
    counts, none = {name: len(indices) for name, indices in seen.items()}, dict.fromkeys(seen, 0)
    who += ", or one that it learned from," * bool(earlier)
    known = " and ".join(f"{count_of(n, 'image')} that {who} {_USED[name]}" for name, n in counts.items() if n)
    if not known:
        return samples, SeenImages(counts, none)
    if include_seen:
        warning = f"scored too (--include_seen): {known}, {_TOO_GOOD}"
        reporter.warn(warning)
        return samples, SeenImages(none, counts, warning)
    if not len(unseen):
        images = f"all {len(samples):,} images of {source.name}"
        those = " or ".join(str(run.path) for run in runs)
        problem = f"{images} are images that {those} was trained, validated or calibrated on"
        raise DataError(problem, "give other images, or --include_seen to score these")
    reporter.notice(f"left out: {known}; {len(unseen):,} of {len(samples):,} images are measured (--include_seen: all)")
    return part, SeenImages(counts, none)


def with_model_classes(samples: Samples, source: Source, class_names: Sequence[str], reporter: Reporter) -> Samples:
    """The images with labels as the model numbers its classes, matched by name; DataError for a class it lacks."""
    names = _spelled_alike(source.class_names, class_names)
    numbers = {name: number for number, name in enumerate(class_names)}
    unknown = [name for name in names if name not in numbers]
    has_columns = not (source.task.is_exclusive or source.has_label_lists)  # of labels, so that others are unknown
    if unknown:
        problem = f"{source.name} has {source.task.kinds} that the model does not know"
        known = f"(it knows {some_of(class_names, SHOWN_CLASSES)})"
        fix = f"rename them, or give DATA without these {source.task.kinds}"
        raise DataError(f"{problem}: {some_of(unknown, SHOWN_CLASSES)} {known}", fix)
    if source.task.is_exclusive:
        labels = np.array([numbers[name] for name in names], dtype=np.int64)[samples.labels]
        present = {class_names[number] for number in np.unique(labels)}
    else:
        present, columns = set(names), dict(zip(names, samples.labels.T, strict=True))
        nothing = np.full(len(samples), NOT_KNOWN if has_columns else ABSENT, dtype=np.int8)
        labels = np.stack([columns.get(name, nothing) for name in class_names], axis=1)
    missing = [name for name in class_names if name not in present]
    words = some_of(missing, SHOWN_CLASSES)
    if missing and source.task.is_exclusive:
        reporter.notice(f"no image of {count_of(len(missing), 'class', 'classes')}: {words}")
    elif missing:
        effect = "their predictions are not measured" if has_columns else "they count as absent from all images"
        reporter.notice(f"{source.name} has no labels {words}: {effect}")
    return replace(samples, labels=labels)


def _spelled_alike(names: tuple[str, ...], class_names: Sequence[str]) -> tuple[str, ...]:
    """Names as the model spells them, where they differ only in how Unicode composes a letter."""
    spelling, known = {normalize("NFC", name): name for name in class_names}, set(class_names)
    if len(spelling) < len(class_names):
        return names
    alike = tuple(name if name in known else spelling.get(normalize("NFC", name), name) for name in names)
    return alike if len(set(alike)) == len(alike) else names
