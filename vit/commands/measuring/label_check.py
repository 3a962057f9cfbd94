"""The labels of a data set, checked by out-of-fold predictions: `vit data check DATA --labels FOLDER`"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from vit.atomic_files import free_name
from vit.checkpoints.run import RunDirectory
from vit.commands.cli.recipe_options import read_recipe
from vit.console import ProgressReport, Reporter, count_of, percent
from vit.csv_files import new_output
from vit.data.checks.contents import read_contents
from vit.data.core.dataset_names import is_far
from vit.data.core.samples import Source
from vit.data.loading.loader import labeled_images
from vit.data.splits.split import split_rows
from vit.errors import DataError
from vit.inference.engine import score
from vit.inference.predictor import load
from vit.inference.scores.scored_images import ScoredImages
from vit.layout import CrossvalLayout
from vit.report.picture_page import write_label_page
from vit.study.crossval import CrossvalDirectory
from vit.study.fold_table import CheckedImage, FoldPredictions, find_label_errors
from vit.training.running.run_images import images_of_run

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
    predictions, seen_before, hashes = _predictions(folder, reporter)
    for sentence in seen_before:
        reporter.warn(f"{sentence}; a network that has learned a wrong label does not doubt it")
    changed: set[str] = set()  # paths of images whose content is not the one that was predicted
    if hashes:
        with ProgressReport(reporter, "image read") as progress:
            contents = read_contents(source, progress.update)
        now = (row for rows_now in split_rows(source, contents.hashes).values() for row in rows_now)
        changed = {row.path for row in now if hashes.get(row.path, row.content_hash) != row.content_hash}
    images, others, pairs = _compared(source, predictions, folder, changed)
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


def _predictions(folder: Path, reporter: Reporter) -> tuple[FoldPredictions, Sequence[str], Mapping[str, str]]:
    """(predictions, sentences about images that networks learned before, {path: hash as predicted}; {} for a run)."""
    if CrossvalLayout(folder).description_path.is_file():
        crossval = CrossvalDirectory(folder)
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


def _compared(
    source: Source, predictions: FoldPredictions, folder: Path, changed: Collection[str]
) -> tuple[list[CheckedImage], list[CheckedImage], list[tuple[int, int]]]:
    """(images with a prediction for this path and content, the others, (place of the prediction, label) of each)."""
    place_of = {path: place for place, path in enumerate(predictions.paths)}
    number_of = {name: number for number, name in enumerate(predictions.class_names)}
    images, others, pairs = list[CheckedImage](), list[CheckedImage](), list[tuple[int, int]]()
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
            pairs.append((place_of[row.path], number_of[row.label]))
    if not images and (num_changed := sum(image.row.path in place_of for image in others)):
        problem = f"all {num_changed:,} images with predictions in {folder} have changed since, or cannot be read"
        raise DataError(problem, "run 'vit crossval' again")
    if not images:
        raise DataError(f"the predictions in {folder} are of other images than {source.name}", "give its own DATA")
    return images, others, pairs
