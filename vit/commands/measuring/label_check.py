"""The labels of a data set, checked by out-of-fold predictions: `vit data check DATA --labels FOLDER`"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vit.checkpoints.run import RunDirectory
from vit.commands.cli.recipe_options import read_recipe
from vit.console import ProgressReport, Reporter, percent
from vit.csv_files import new_output
from vit.data.checks.contents import read_contents
from vit.data.core.dataset_names import is_far
from vit.data.core.samples import Source
from vit.data.loading.loader import labeled_images
from vit.data.splits.split import split_rows
from vit.errors import DataError, ResourceError
from vit.inference.engine import score
from vit.inference.files import free_name
from vit.inference.predictor import load
from vit.inference.scores.scored_images import ScoredImages
from vit.layout import CrossvalLayout
from vit.report.picture_page import write_label_page
from vit.study.crossval import CrossvalDirectory
from vit.study.fold_table import CheckedImage, FoldPredictions, LabelErrors, find_label_errors
from vit.training.running.run_images import images_of_run

SHOWN_SUSPECTS = 10
COLUMNS = ("path", "label", "suggested", "confidence", "rank")


@dataclass(frozen=True)
class LabelCheck:
    """The labels of a data set beside predictions for its images."""

    source: Source  # the data set
    images: list[CheckedImage]  # images with a prediction
    others: list[CheckedImage]  # the other images
    class_names: tuple[str, ...]  # classes of the predictions
    errors: LabelErrors  # labels that are probably wrong
    accuracy: float  # fraction of the images whose label is the most probable class
    num_changed: int = 0  # number of the others that had another content when they were predicted

    @property
    def unchecked_text(self) -> str:
        """How many images are not checked, and why; "" where all are checked."""
        changed = f"{self.num_changed:,} have changed since they were predicted, or cannot be read"
        missing = len(self.others) - self.num_changed
        why = [f"{missing:,} have no prediction"] * bool(missing) + [changed] * bool(self.num_changed)
        return f"{len(self.others):,} images are not checked: {'; '.join(why)}" if why else ""

    @property
    def can_be_listed(self) -> bool:
        """Whether `vit train` can read the images from a CSV, as files or at addresses."""
        return all(
            samples.root is not None or all(map(is_far, samples.paths)) for samples in self.source.splits.values()
        )

    def suspicion(self, place: int) -> tuple[CheckedImage, str, float]:
        """An image, the class that is suggested for it, and the probability of its label."""
        errors = self.errors
        return self.images[place], self.class_names[errors.suggested[place]], float(errors.confidence[place])


def check_labels(source: Source, folder: Path, list_file: Path, reporter: Reporter) -> Path | None:
    """Find labels that are probably wrong, write them as a CSV and a page, and show the first of them.

    Args:
        folder: a cross-validation of the same images; or a run, whose validation and test images are checked.
        list_file: file of the other findings; the new files stand beside it.

    Returns:
        The table to correct; None where no label is suspicious, or `vit train` cannot read the images from a table.
    """
    source.check_one_class("--labels")
    predictions, seen_before, hashes = _predictions(folder, reporter)
    for sentence in seen_before:
        reporter.notice(f"WARNING: {sentence}; a network that has learned a wrong label does not doubt it")
    changed: set[str] = set()  # paths of images whose content is not the one that was predicted
    if hashes:
        with ProgressReport(reporter, "image read") as progress:
            contents = read_contents(source, progress.update)
        now = (row for rows_now in split_rows(source, contents.hashes).values() for row in rows_now)
        changed = {row.path for row in now if hashes.get(row.path, row.content_hash) != row.content_hash}
    found = _compared(source, predictions, folder, changed)
    table = free_name(list_file.with_name(f"{list_file.stem}_labels.csv"), [".html"])
    page = table.with_suffix(".html")
    has_splits, has_groups = len(source.splits) > 1, any(one.groups is not None for one in source.splits.values())
    columns = (*COLUMNS, *["split"] * has_splits, *["group"] * has_groups)
    num_suspects = found.errors.num_suspects
    listed: list[tuple[CheckedImage, str | None, float | None, int | None]] = []  # the most suspicious label first
    for number, place in enumerate(found.errors.ranking.tolist(), 1):
        listed.append((*found.suspicion(place), number if number <= num_suspects else None))
    listed += [(image, None, None, None) for image in found.others]
    with new_output(table, columns, digits=6) as writer:
        for (split, _, row), suggested, confidence, rank in listed:
            more = (*[split] * has_splits, *[row.group] * has_groups)
            writer.row((row.path, row.label, suggested, confidence, rank, *more))
    try:
        unchecked = found.unchecked_text
        write_label_page(page, source, found.images, found.class_names, found.errors, seen_before, unchecked)
    except OSError as error:
        raise ResourceError(f"cannot write {error.filename}: {error.strerror}", "choose another --output") from error
    suspicious = f"{num_suspects:,} of {len(found.images):,} labels are suspicious"
    agree = f"the networks agree with {percent(found.accuracy, 1)} of the labels"
    reporter.line(f"\n{suspicious}; {agree}, and their own mistakes are among the suspicious ones")
    if unchecked:
        reporter.line(unchecked)
    rows = []
    for rank, place in enumerate(found.errors.suspects[:SHOWN_SUSPECTS].tolist(), 1):
        (split, index, row), suggested, confidence = found.suspicion(place)
        rows.append((rank, source.splits[split].paths[index], row.label, suggested, percent(confidence, 1)))
    if rows:
        reporter.table(("rank", "image", "label", "suggested", "probability of the label"), rows)
    reporter.line()
    reporter.facts([("look" if rows else "page", str(page)), ("correct" if rows else "table", str(table))])
    if not rows:
        reporter.line("there is nothing to correct")
    elif not found.can_be_listed:
        reporter.line(f"{source.name} has no files, so 'vit train' cannot read the corrected table")
    else:
        reporter.line(
            "correct the column label in the first lines, remove lines of unusable images, and train on the table"
        )
        return table
    return None


def _predictions(folder: Path, reporter: Reporter) -> tuple[FoldPredictions, Sequence[str], Mapping[str, str]]:
    """(predictions, sentences about images that the networks learned before, {path: content hash as predicted}).

    They are those of a cross-validation; or of a run, which predicts the files as they are now, so that no hash counts.
    """
    if CrossvalLayout(folder).description_path.is_file():
        crossval = CrossvalDirectory.open(folder)
        if not crossval.predictions_path.is_file():
            raise crossval.unfinished()
        return FoldPredictions.read(crossval.predictions_path), crossval.seen_before, crossval.content_hashes()
    run = RunDirectory.open(folder)
    seen = run.finished_result().seen_before or []
    source, predictor = images_of_run(run, read_recipe(run.config_path)), load(folder)
    source.check_one_class(f"--labels {folder}")
    splits = [source.splits[split] for split in ("validation", "test", "calibration") if split in source.splits]
    count = sum(map(len, splits))
    reporter.notice(f"this run has not trained on {count:,} images: their labels are checked, and no others")
    parts = []
    for samples in splits:
        scored = score(predictor.engine, labeled_images(samples, predictor.preprocess))
        assert isinstance(scored, ScoredImages)  # a run of several labels has other images
        parts.append(FoldPredictions.of_fold(scored, samples, predictor.class_names, 1))
    return FoldPredictions.joined(parts), seen, {}


def _compared(source: Source, predictions: FoldPredictions, folder: Path, changed: Collection[str]) -> LabelCheck:
    """The labels of the source, as they are now, beside the predictions for the same paths and contents."""
    place_of = {path: place for place, path in enumerate(predictions.paths)}
    number_of = {name: number for number, name in enumerate(predictions.class_names)}
    images, others, chosen, labels = [], [], [], []
    for split, listed in split_rows(source).items():
        for place, row in enumerate(listed):
            image = CheckedImage(split, place, row)
            if row.path not in place_of or row.path in changed:
                others.append(image)
                continue
            if row.label not in number_of:
                problem = f"{row.path} has the label {row.label!r}, which the predictions in {folder} lack"
                raise DataError(problem, "correct the label, or run 'vit crossval' again")
            images.append(image)
            chosen.append(place_of[row.path])
            labels.append(number_of[row.label])
    num_changed = sum(image.row.path in place_of for image in others)
    if not images and num_changed:
        problem = f"all {num_changed:,} images with predictions in {folder} have changed since, or cannot be read"
        raise DataError(problem, "run 'vit crossval' again")
    if not images:
        raise DataError(f"the predictions in {folder} are of other images than {source.name}", "give its own DATA")
    given, probabilities = np.array(labels, dtype=np.int64), predictions.probabilities[chosen]
    accuracy = float((probabilities.argmax(axis=1) == given).mean())
    errors = find_label_errors(given, probabilities)
    return LabelCheck(source, images, others, predictions.class_names, errors, accuracy, num_changed)
