"""The images of `vit export --precision int8`: training images to calibrate on, labeled images to measure on"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vit.checkpoints.format import Description
from vit.checkpoints.run import RunDirectory
from vit.checkpoints.validation_scores import fitted_split
from vit.commands.cli.recipe_options import read_recipe
from vit.commands.exporting.model_card import hub_data, origin_of
from vit.commands.measuring.measured_images import (
    check_own_images,
    choose_split,
    describe_images,
    in_groups_of_run,
    of_same_task,
    say_notes,
    shown_split,
    unseen_images,
    with_model_classes,
)
from vit.console import Reporter
from vit.data.core.dataset_names import TableColumns
from vit.data.core.image_bytes import ImageError
from vit.data.core.samples import Samples, Source
from vit.data.loading.loader import labeled_images
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.sources import columns_for, open_source
from vit.errors import DataError, UsageError
from vit.export.card import MeasuredImages
from vit.inference.engine import Classifies, score
from vit.inference.files import list_images
from vit.inference.prediction import read_input
from vit.inference.scores.image_groups import in_groups
from vit.inference.scores.scored_images import Scored
from vit.training.running.run_images import images_of_run

NUM_CALIBRATED = 256  # images that give the ranges of activations; 64 were too few for NNCF (docs/guides/export.md)
MOST_MEASURED = 5_000  # labeled images: an accuracy is then known to 1.4 points, and a paired drop far better


def calibration_images(model: Path, preprocess: Preprocess, calibration: str | None) -> Tensor:
    """(n, 3, S, S) uint8: training images of the run, or images of a folder, prepared as in `vit predict`.

    Raises:
        UsageError: the model is not in a run folder, and no images are given.
        DataError: none of the images can be read.
    """
    if calibration is None:
        samples = _of_run(model, "--calibration IMAGES").splits["train"]
        batches = labeled_images(samples.select(_some(len(samples), NUM_CALIBRATED)), preprocess)
        images = [batch.image[batch.valid].cpu() for batch in batches]
        found = torch.cat(images)
    else:
        listed = list_images([calibration], recursive=True)
        paths = [listed.paths[place] for place in _some(len(listed.paths), NUM_CALIBRATED)]
        read = [read_input(path, preprocess, reader=listed.reader) for path in paths]
        kept = [image for image in read if not isinstance(image, ImageError)]
        found = (
            torch.stack(kept)
            if kept
            else torch.zeros(0, preprocess.channels, preprocess.image_size, preprocess.image_size)
        )
    if not len(found):
        raise DataError(f"no image of {calibration or 'the run'} can be read", "give --calibration other images")
    return found


def labeled_samples(
    model: Path, description: Description, data: str | None, reporter: Reporter
) -> tuple[Samples, MeasuredImages]:
    """(images with class numbers of the model, what they are): of DATA, or of the run.

    Those of the run are its calibration images, or else its validation images: the temperature of int8 is fitted on
    them, as that of the checkpoint was.

    Raises:
        UsageError: the model is not in a run folder, and no DATA is given.
        DataError: the images cannot be used, or are images of the training.
    """
    run = RunDirectory.around(model)
    of_run = TableColumns() if run is None else read_recipe(run.config_path).data.columns
    if data is None:
        source = _of_run(model, "--measure DATA")
    else:
        source = open_source(data, allow_empty=True, columns=columns_for(data, TableColumns(), of_run), to_measure=True)
        say_notes(source, reporter)
    if data is not None and run is not None:
        source = in_groups_of_run(source, run, reporter)
    split = fitted_split(source.splits) if data is None else choose_split(source, "auto")
    if split is None:
        raise UsageError(f"the run {model} has no validation images", "give --measure DATA, images with labels")
    source = of_same_task(source, description.task)
    samples = source.splits[split]
    if data is None and run is not None:
        check_own_images(run, source, split, reporter)
    elif run is not None:
        samples, _ = unseen_images(run, source, split, False, reporter)
    else:
        reporter.notice(f"{model} is not in a run folder: images that it was trained on are not recognized")
    if len(samples) > MOST_MEASURED:
        reporter.notice(f"{MOST_MEASURED:,} of {len(samples):,} labeled images are measured, a random choice")
        samples = samples.select(_some(len(samples), MOST_MEASURED))
    samples = with_model_classes(samples, source, description.class_names, reporter)
    of_data = describe_images(source.name, shown_split(source, split))
    words = f"{split} images of the run" if data is None else of_data
    on_hub = origin_of(model).hub_data if data is None else hub_data(data)
    return samples, MeasuredImages(words, source.name, on_hub, split)


def scorer(samples: Samples, preprocess: Preprocess) -> Callable[[Classifies], Scored]:
    """A function that scores these images, from the bytes of their files, with any engine."""
    return lambda engine: in_groups(score(engine, labeled_images(samples, preprocess)), samples)


def _of_run(model: Path, instead: str) -> Source:
    run = RunDirectory.around(model)
    if run is None:
        raise UsageError(f"{model} is not in a run folder, so its images are not known", f"give {instead}")
    return images_of_run(run, read_recipe(run.config_path))


def _some(count: int, wanted: int) -> list[int]:
    """At most `wanted` of `count` places, in order; the same ones at every call."""
    chosen = np.random.default_rng(0).permutation(count)[:wanted]
    return sorted(int(place) for place in chosen)
