"""The images of `vit export --precision int8`: training images to calibrate on, labeled images to measure on"""

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
    describe_part,
    images_to_measure,
    of_same_task,
    opened_source,
    shown_split,
    with_model_classes,
)
from vit.console import Reporter
from vit.data.core.dataset_names import TableColumns
from vit.data.core.image_bytes import ImageError
from vit.data.core.samples import Samples, Source
from vit.data.loading.loader import labeled_images
from vit.data.pixels.preprocess import Preprocess
from vit.errors import DataError, UsageError
from vit.export.card import MeasuredImages
from vit.inference.files import list_images
from vit.inference.prediction import read_input
from vit.training.running.run_images import images_of_run

NUM_CALIBRATED = 256  # images that give the ranges of activations; 64 were too few for NNCF
MOST_MEASURED = 5_000  # labeled images: an accuracy is then known to 1.4 points, and a paired drop far better


def calibration_images(model: Path, preprocess: Preprocess, calibration: str | None) -> Tensor:
    """(n, 3, S, S) uint8: training images of the run, or images of a folder, prepared as in `vit predict`.

    UsageError where the model is not in a run folder and no images are given; DataError where none can be read.
    """
    if calibration is None:
        samples = _of_run(model, "--calibration IMAGES").splits["train"]
        batches = labeled_images(samples.select(_some(len(samples), NUM_CALIBRATED)), preprocess)
        images = [image for batch in batches for image in batch.image[batch.valid].cpu()]
    else:
        listed = list_images([calibration], recursive=True)
        paths = [listed.paths[place] for place in _some(len(listed.paths), NUM_CALIBRATED)]
        read = [read_input(path, preprocess, reader=listed.reader) for path in paths]
        images = [image for image in read if not isinstance(image, ImageError)]
    if not images:
        raise DataError(f"no image of {calibration or 'the run'} can be read", "give --calibration other images")
    return torch.stack(images)


def labeled_samples(
    model: Path, description: Description, data: str | None, reporter: Reporter
) -> tuple[Samples, MeasuredImages]:
    """(images with class numbers of the model, what they are): of DATA, or of the run.

    Those of the run are its calibration images, or else its validation images: the temperature of int8 is fitted on
    them, as that of the checkpoint was. UsageError without a run folder and DATA; DataError as of `vit evaluate`.
    """
    run = RunDirectory.around(model)
    if data is None:
        source = _of_run(model, "--measure DATA")
        split = fitted_split(source.splits)
        if split is None:
            raise UsageError(f"the run {model} has no validation images", "give --measure DATA, images with labels")
    else:
        source, _ = opened_source(str(model), data, None, TableColumns(), None, reporter)
        split = choose_split(source, "auto")
    source = of_same_task(source, description.task)
    samples = source.splits[split]
    if data is None and run is not None:
        check_own_images(run, source, split, reporter)
    else:
        samples, _ = images_to_measure([str(model)], data, source, split, False, reporter)
    if len(samples) > MOST_MEASURED:
        reporter.notice(f"{MOST_MEASURED:,} of {len(samples):,} labeled images are measured, a random choice")
        samples = samples.select(_some(len(samples), MOST_MEASURED))
    samples = with_model_classes(samples, source, description.class_names, reporter)
    if data is None:
        return samples, MeasuredImages(f"{split} images of the run", source.name, origin_of(model).hub_data, split)
    shown = shown_split(source, split)
    return samples, MeasuredImages(f"images of {describe_part(source.name, shown)}", source.name, hub_data(data), shown)


def _of_run(model: Path, instead: str) -> Source:
    run = RunDirectory.around(model)
    if run is None:
        raise UsageError(f"{model} is not in a run folder, so its images are not known", f"give {instead}")
    return images_of_run(run, read_recipe(run.config_path))


def _some(count: int, wanted: int) -> list[int]:
    """At most `wanted` of `count` places, in order; the same ones at every call."""
    places = np.random.default_rng(0).permutation(count)[:wanted]
    return sorted(int(place) for place in places)
