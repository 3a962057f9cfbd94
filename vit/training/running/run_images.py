"""The images of a run: checks before training, their current files, and measured images that a network knows already

`splits.csv` of a run folder lists every image with its split and a hash of its content. So every command notices when
a folder has changed. A network that has learned measured images, from whatever weights, is measured too well. It knows
them by copies, from its teacher, or from the run that it starts from. Of weights without a run folder nothing is known.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import numpy as np

from vit.checkpoints.model_path import LIBRARIES
from vit.checkpoints.run import RunDirectory
from vit.console import count_of
from vit.data.checks.contents import Contents
from vit.data.core.dataset_names import KNOWN
from vit.data.core.groups import copies_note
from vit.data.core.samples import Labels, Samples, Source, label_names
from vit.data.splits.split import SplitRow, listed_task, read_splits, split_rows
from vit.errors import DAMAGE, DataError, explained, some_of
from vit.plain_files import parse_yaml, read_json, read_text
from vit.training.planning.images import opened_data
from vit.training.recipes.recipe import Recipe

SEEN = ("train", "validation", "calibration")  # splits that a run learns or fits from, in the order of importance
MEASURED = ("validation", "test")  # splits in which no other image can take the place of an unreadable one
BY_TEACHER = "results on them are too good; train both networks with the same splits"
BY_START = (
    "results on them are too good; keep the same splits (--data.split_seed, validation, test and groups), or name them "
    "in a column split of DATA so that these images stay in train"
)
WITHOUT_LABELS = "results on them may be too good for new images"
OF_FOLDS = "results on them are too good; start from weights that have not learned these images"


@dataclass(frozen=True)
class SeenImages:
    """Numbers of images of a run among the images of an evaluation, by the split of the run."""

    left_out: Mapping[str, int] = field(default_factory=dict)  # not scored because the run has seen them
    scored: Mapping[str, int] = field(default_factory=dict)  # scored although the run has seen them
    warning: str = ""  # why metrics are or may be too good for new images, without a full stop; "": they are not


def check_readable(source: Source, contents: Contents) -> None:
    """Raise DataError before the first step if validation or test files are not images."""
    bad = [
        f"{source.splits[split].name(place)}: {reason}"
        for split in MEASURED
        for place, reason in contents.unreadable.get(split, {}).items()
    ]
    if bad:
        some = some_of(bad, separator="; ")
        others = len(contents.unreadable.get("train", {}))
        besides = f" (and {count_of(others, 'training file')})" if others else ""
        problem = f"cannot read {count_of(len(bad), 'validation or test file')}{besides}: {some}"
        raise DataError(problem, "fix them, or move them elsewhere ('vit data check' lists all)")


def splits_of_run(run: RunDirectory) -> dict[str, list[SplitRow]]:
    """The rows of a run's `splits.csv`, by split.

    DataError: the file is missing or damaged, or a finished run was about another number of images.
    """
    listed = read_splits(run.splits_path)
    try:
        result = run.read_result()
    except DataError:  # who needs the result tells that it is damaged
        return listed
    if result is None:
        return listed
    for split, measured in result.num_images.items():
        rows, count = len(listed.get(split, ())), measured + len(result.left_out.get(split, {}))
        if rows != count:
            problem = f"{run.splits_path} lists {rows:,} {split} images, and the run had {count:,}"
            raise DataError(problem, "restore the file, or train again")
    return listed


def images_of_run(run: RunDirectory, recipe: Recipe, root: str | None = None) -> Source:
    """The images of a run with the splits of its training, without new files in the same folder.

    DataError: the images do not exist, or a data set with a name has changed. `root`: a moved folder of torchvision.
    """
    listed, data = splits_of_run(run), recipe.data
    run.check_not_moved(data.source)
    if data.source not in KNOWN and any(Path(row.path).is_absolute() for rows in listed.values() for row in rows[:1]):
        return _files(run, Path(data.source).expanduser(), listed)
    source = opened_data(replace(data, root=root or data.root, download=False))
    changed = f"the images of {source.name} have changed since the run"
    with explained(DataError, changed, "restore them, or train again", LookupError):
        return replace(source, splits={split: _listed(source, rows) for split, rows in listed.items()})


def _listed(source: Source, rows: Sequence[SplitRow]) -> Samples:
    """The images of a data set that `splits.csv` lists in one split; the cut may have been made by other rules.

    LookupError: one is not there, or has another label.
    """
    names = [row.name for row in rows]
    parts = [one for one in source.splits.values() if not set(names).isdisjoint(one.paths)]
    whole = reduce(Samples.followed_by, parts or source.splits.values())
    places = {path: place for place, path in enumerate(whole.paths)}
    samples = whole.select([places[name] for name in names])
    if label_names(samples, source.class_names) != [row.label for row in rows]:
        raise LookupError("another label")
    return replace(samples, groups=tuple(row.group for row in rows) if any(row.group for row in rows) else None)


def _files(run: RunDirectory, data: Path, listed: Mapping[str, Sequence[SplitRow]]) -> Source:
    base = data.resolve() if data.is_dir() else data.parent.resolve()
    with explained(DataError, f"{run.class_names_path} is damaged", "restore it, or train again", DAMAGE):
        class_names = tuple(map(str, read_json(run.class_names_path)["classes"]))
        task = listed_task(run.splits_path)
        splits = {
            split: Samples(
                [row.name for row in rows],
                task.array([row.label for row in rows], class_names),
                base,
                groups=tuple(row.group for row in rows) if any(row.group for row in rows) else None,
            )
            for split, rows in listed.items()
        }
    return Source(base.name if data.is_dir() else data.stem, class_names, splits)


def _seen_among(run: RunDirectory, rows: Mapping[str, Sequence[SplitRow]]) -> dict[str, dict[str, Labels]]:
    """Indices of the rows of each split whose images a run was trained, validated or calibrated on, by split of `SEEN`.

    Images are recognized by content, with any name.
    """
    listed = splits_of_run(run)
    used: dict[str, str] = {}  # {content hash: the first of the splits `SEEN` that has the image}
    for name in reversed(SEEN):
        used |= {row.content_hash: name for row in listed.get(name, ())}
    used.pop("", None)
    names = {split: np.array([used.get(row.content_hash, "") for row in some], np.str_) for split, some in rows.items()}
    return {split: {name: np.flatnonzero(some == name) for name in SEEN} for split, some in names.items()}


def groups_in_training(run: RunDirectory, samples: Samples) -> list[str]:
    """Sorted names of the groups of some images that training images of a run have, too."""
    if samples.groups is None:
        return []
    rows = splits_of_run(run)["train"]
    return sorted({row.group for row in rows if row.group} & set(samples.groups))


def left_out_of(run: RunDirectory) -> dict[str, dict[str, str]]:
    """{split: {path: reason}} of images that a run could not measure. Empty before the run is finished."""
    result = run.read_result()
    return {} if result is None else result.left_out


def seen_before(recipe: Recipe, source: Source, contents: Contents, fix: str | None = None) -> list[str]:
    """A sentence for each run that knows validation or test images and that a training learns from; one about copies.

    These are the run of the teacher, the run of the weights to start from, and the runs that those learned from.

    DataError: `splits.csv` of such a run is damaged.

    Args:
        contents: content of the validation and test images, and of the others, where their copies count.
        fix: what follows, and what to do; None: for a training with these splits.
    """
    measured = {split: source.splits[split] for split in MEASURED if split in source.splits}
    rows = split_rows(replace(source, splits=measured), contents.hashes)
    copies = copies_note(contents.hashes)
    notes = [copies] if copies else []
    if (start := Path(recipe.model.init_from or "")).is_absolute() and not start.exists():  # of a resumed training
        notes.append(f"{start}, from which this training starts, is missing: images that it learned are not recognized")
    for weights, is_teacher in ((recipe.distill.teacher, True), (recipe.model.init_from, False)):
        for who, run in _earlier_runs(weights, is_teacher):
            words = _words(run, rows)
            if words:
                then = WITHOUT_LABELS if run.is_pretraining else fix or (BY_TEACHER if is_teacher else BY_START)
                notes.append(f"{who} {words}, so that {then}")
    return notes


def seen_in_training(runs: Sequence[RunDirectory], source: Source, split: str, contents: Contents) -> dict[str, Labels]:
    """Indices of the images of a split that some runs were trained, validated or calibrated on, by split of `SEEN`.

    The runs are one and those of `learned_from`. An image of several splits counts in the first one.
    DataError: `splits.csv` of such a run is missing or damaged.
    """
    rows = split_rows(replace(source, splits={split: source.splits[split]}), contents.hashes)
    by_run = [_seen_among(one, rows)[split] for one in runs]
    seen, free = dict[str, Labels](), np.full(len(rows[split]), True)
    for name in SEEN:
        indices = np.unique(np.concatenate([one[name] for one in by_run]))
        seen[name] = indices[free[indices]]
        free[indices] = False
    return seen


def learned_from(run: RunDirectory) -> list[RunDirectory]:
    """The runs that a run learned labels from: of its teacher, of its first weights, and before these."""
    start, teacher = _origins(run)
    earlier = [*_earlier_runs(start, False), *_earlier_runs(teacher, True)]
    return [one for _, one in earlier if not one.is_pretraining]


def missing_origins(runs: Sequence[RunDirectory]) -> list[str]:
    """Runs, or files of runs, that some runs learned from, and that are not there any more."""
    paths = {Path(name) for run in runs for name in _origins(run) if name is not None}
    absent = (path for path in paths if path.is_absolute() and not path.exists())
    return sorted(str(path) for path in absent if path.suffix in ("", ".ckpt"))


def _words(run: RunDirectory, rows: dict[str, list[SplitRow]]) -> str:
    """What a run did with the measured images, by split; empty where it knows none of them.

    That an earlier run was validated on the images that validate this one is as it should be. A pretraining chooses
    nothing by its validation images.
    """
    done = "has trained on {}"
    seen = _seen_among(run, rows)
    counts = {split: {used: len(indices) for used, indices in some.items()} for split, some in seen.items()}
    learned = {split: used["train"] for split, used in counts.items()}
    fitted = {"test": sum(counts["test"].values()) - learned["test"]} if "test" in counts else {}
    if run.is_pretraining:
        done, fitted = "has learned from {} without their labels", {}
    parts = []
    for verb, numbers in ((done, learned), ("was validated or calibrated on {}", fitted)):
        images = [f"{count:,} of {len(rows[split]):,} {split} images" for split, count in numbers.items() if count]
        parts += [verb.format(" and ".join(images))] * bool(images)
    return " and ".join(parts)


def _earlier_runs(weights: str | None, is_teacher: bool) -> Iterator[tuple[str, RunDirectory]]:
    """The run of a teacher or of first weights, and all runs that it has learned from, each as named in a sentence."""
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
    return (None if path.is_dir() else RunDirectory.around(path.parent)) or RunDirectory.around(path)


def _origins(run: RunDirectory) -> list[str | None]:
    """The weights that a run started from, and those of its teacher; None: none, or config.yaml does not say it."""
    try:
        recipe = parse_yaml(read_text(run.config_path))
        origins = [recipe["model"]["init_from"], recipe["distill"]["teacher"]]
    except (OSError, ValueError, LookupError, TypeError):
        return [None, None]
    return [value if isinstance(value, str) else None for value in origins]
