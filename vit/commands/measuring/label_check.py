"""The labels of a data set, checked by out-of-fold predictions: `vit data check DATA --labels FOLDER`"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from pathlib import Path

import numpy as np

from vit.atomic_files import free_name
from vit.checkpoints.run import RunDirectory
from vit.console import ProgressReport, Reporter, count_of, percent
from vit.csv_files import new_output
from vit.data.checks.contents import read_contents
from vit.data.core.dataset_names import is_far
from vit.data.core.samples import Samples, Source
from vit.data.loading.loader import labeled_images
from vit.data.splits.split import SplitRow, listed_task, split_rows
from vit.errors import DataError, UsageError
from vit.inference.engine import score
from vit.inference.predictor import load
from vit.inference.scores.scored_images import ScoredImages
from vit.layout import CrossvalLayout
from vit.report.picture_page import write_label_page
from vit.study.crossval import CrossvalDirectory
from vit.study.fold_table import CheckedImage, FoldPredictions, find_label_errors
from vit.training.running.run_images import splits_of_run

SHOWN_SUSPECTS = 10
COLUMNS = ("path", "label", "suggested", "label_probability", "rank")


def can_be_listed(source: Source) -> bool:
    """Whether `vit train` can read the images from a CSV, as files or at addresses."""
    return all(samples.root is not None or all(map(is_far, samples.paths)) for samples in source.splits.values())


def check_labels(source: Source, folder: Path, list_file: Path, reporter: Reporter) -> Path | None:
    """Find labels that are probably wrong, write a CSV and a page beside `list_file`, and show the first of them.

    The predictions are of a cross-validation, or of a run for its validation and test images. Returns the table to
    correct; None where there is nothing to correct, or where `vit train` cannot read the images from a table.
    """
    source.check_one_class("--labels")
    with ProgressReport(reporter, "image read") as progress:
        rows_now = split_rows(source, read_contents(source, progress.update).hashes)
    predictions, seen_before, hashes = _predictions(folder, source, rows_now, reporter)
    for sentence in seen_before:
        reporter.warn(f"{sentence}; a network that has learned a wrong label does not doubt it")
    images, others, pairs = _compared(source, rows_now, predictions, hashes, folder)
    probabilities = predictions.probabilities[[place for place, _ in pairs]]
    labels = np.array([label for _, label in pairs], dtype=np.int64)
    errors = find_label_errors(labels, probabilities)
    accuracy = float((probabilities.argmax(axis=1) == labels).mean())
    predicted = set(predictions.paths)
    num_changed = sum(image.row.path in predicted for image in others)
    why = [f"without a prediction: {len(others) - num_changed:,}"] * (num_changed < len(others))
    why += [f"changed since the prediction, or not readable: {num_changed:,}"] * bool(num_changed)
    notes = [f"{count_of(len(others), 'image')} not checked; {'; '.join(why)}"] if why else []
    notes += [
        f"WARNING: the networks are {sentence}; the suggestions may be guesses, too"
        for sentence in predictions.guessing
    ]
    table = free_name(list_file.with_name(f"{list_file.stem}_labels.csv"), [".html"])
    page = table.with_suffix(".html")
    has_splits, has_groups = len(source.splits) > 1, any(one.groups is not None for one in source.splits.values())
    columns = (*COLUMNS, *["split"] * has_splits, *["group"] * has_groups)
    num_suspects = errors.num_suspects
    listed: list[tuple[CheckedImage, str | None, float | None, int | None]] = []  # the most suspicious label first
    for number, place in enumerate(errors.ranking.tolist(), 1):
        suggested = predictions.class_names[errors.suggested[place]]
        rank = number if number <= num_suspects else None
        listed.append((images[place], suggested, float(errors.label_probability[place]), rank))
    listed += [(image, None, None, None) for image in others]
    with new_output(table, columns, digits=6) as writer:
        for (split, _, row), *of_label in listed:
            writer.row((row.path, row.label, *of_label, *[split] * has_splits, *[row.group] * has_groups))
    write_label_page(page, source, images, predictions.class_names, errors, seen_before, notes)
    suspicious = f"{num_suspects:,} of {len(images):,} labels are suspicious"
    agree = f"the networks agree with {percent(accuracy, 1)} of the labels"
    reporter.line(f"\n{suspicious}; {agree}, and their own mistakes are among the suspicious ones")
    for note in notes:
        reporter.line(note)
    rows = []
    for (split, index, row), suggestion, probability, rank in listed[: min(num_suspects, SHOWN_SUSPECTS)]:
        rows.append((rank, source.splits[split].paths[index], row.label, suggestion, percent(probability or 0.0, 1)))
    reporter.table(("rank", "image", "label", "suggested", "probability of the label"), rows)
    reporter.line()
    reporter.facts([("look" if rows else "page", str(page)), ("correct" if rows else "table", str(table))])
    if not rows:
        reporter.line("there is nothing to correct")
        return None
    if not can_be_listed(source):
        reporter.line(f"{source.name} has no files, so 'vit train' cannot read the corrected table")
        return None
    reporter.line(
        "correct the column label in the first lines, remove lines of unusable images, and train on the table"
    )
    return table


def _predictions(
    folder: Path, source: Source, rows_now: Mapping[str, Sequence[SplitRow]], reporter: Reporter
) -> tuple[FoldPredictions, Sequence[str], Mapping[str, str]]:
    """(predictions, sentences about images that networks learned before, {path: hash as predicted}; {} for a run)."""
    if CrossvalLayout(folder).description_path.is_file():
        crossval = CrossvalDirectory(folder)
        if not crossval.predictions_path.is_file():
            raise crossval.unfinished()
        return FoldPredictions.read(crossval.predictions_path), crossval.seen_before, crossval.content_hashes()
    run = RunDirectory.open(folder)
    seen, listed = run.finished_result().seen_before or [], splits_of_run(run)
    if not listed_task(run.splits_path).is_exclusive:
        raise UsageError(f"--labels {folder} gives images several labels", "give a run of images with one class each")
    predictor = load(folder)
    number_of = {name: number for number, name in enumerate(predictor.class_names)}
    contents = {split: {row.content_hash for row in rows} for split, rows in listed.items()}
    unseen = set[str]().union(*contents.values()) - contents["train"] - {""}
    whole = reduce(Samples.followed_by, (source.splits[split] for split in rows_now))
    rows = {place: row for place, row in enumerate(chain(*rows_now.values())) if row.content_hash in unseen}
    if not rows:
        raise _of_others(source, folder)
    reporter.notice(f"this run has not trained on {len(rows):,} images: their labels are checked, and no others")
    labels = np.array([_number(row, number_of, folder) for row in rows.values()], dtype=np.int64)
    samples = replace(whole.select(list(rows)), labels=labels)
    scored = score(predictor.engine, labeled_images(samples, predictor.preprocess))
    assert isinstance(scored, ScoredImages)  # as `listed_task` says
    return FoldPredictions.of_fold(scored, samples, predictor.class_names, 1), seen, {}


def _compared(
    source: Source,
    rows_now: Mapping[str, Sequence[SplitRow]],
    predictions: FoldPredictions,
    hashes: Mapping[str, str],
    folder: Path,
) -> tuple[list[CheckedImage], list[CheckedImage], list[tuple[int, int]]]:
    """(images with a prediction for their content, the others, (place of the prediction, label) of each).

    Where no content is known, the path decides.
    """
    place_of = {path: place for place, path in enumerate(predictions.paths)}
    place_of_content = {hashes[path]: place for path, place in place_of.items() if path in hashes}
    number_of = {name: number for number, name in enumerate(predictions.class_names)}
    images, others, pairs = list[CheckedImage](), list[CheckedImage](), list[tuple[int, int]]()
    for split, listed in rows_now.items():
        for index, row in enumerate(listed):
            image = CheckedImage(split, index, row)
            is_same = hashes.get(row.path, row.content_hash) == row.content_hash
            place = place_of.get(row.path) if is_same else None
            place = place_of_content.get(row.content_hash) if place is None else place
            if place is None:
                others.append(image)
                continue
            images.append(image)
            pairs.append((place, _number(row, number_of, folder)))
    if not images and (num_changed := sum(image.row.path in place_of for image in others)):
        problem = f"all {num_changed:,} images with predictions in {folder} have changed since, or cannot be read"
        raise DataError(problem, "run 'vit crossval' again")
    if not images:
        raise _of_others(source, folder)
    return images, others, pairs


def _number(row: SplitRow, number_of: Mapping[str, int], folder: Path) -> int:
    if row.label not in number_of:
        problem = f"{row.path} has the label {row.label!r}, which the predictions in {folder} lack"
        raise DataError(problem, "correct the label, or run 'vit crossval' again")
    return number_of[row.label]


def _of_others(source: Source, folder: Path) -> DataError:
    return DataError(f"the predictions in {folder} are of other images than {source.name}", "give its own DATA")
