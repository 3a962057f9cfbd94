"""`--tta` of `vit predict` and `vit evaluate`: its warning, and the temperature that `vit evaluate` fits for it"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from vit.console import Reporter
from vit.errors import DataError, UsageError
from vit.layout import RunLayout

if TYPE_CHECKING:
    from vit.inference.predictor import Predictor
    from vit.inference.tta import Tta


def warn_of_mirror(model: str, tta: "Tta | None", reporter: Reporter) -> None:
    """Say that a mirror image may have another label, where the training was without mirror images, or is not known."""
    run = RunLayout.around(Path(model))
    if tta != "flip":
        return
    if run is None:
        reporter.notice(
            f"--tta flip: {model} is not in a run folder, so whether its training mirrored images is not known"
        )
        return
    from vit.commands.recipe_options import read_recipe

    recipe = read_recipe(run.config_path)
    if recipe.augment.flip == 0 and recipe.model.freeze != "backbone":
        reporter.notice(
            "WARNING: --tta flip, but the training did not mirror images (augment.flip 0): mirror images may have "
            "other labels, as digits and text do; vit evaluate --tta flip measures it"
        )


def say_uncalibrated(model: str, predictor: "Predictor", tta: "Tta", reporter: Reporter) -> None:
    """Say where probabilities have a temperature that was fitted without the augmentation."""
    if predictor.validation_scores is not None:
        return
    fit = f"'vit evaluate {shlex.quote(model)} --tta {tta}' fits one for the views"
    if RunLayout.around(Path(model)) is None:
        fit = "one for the views needs the images of a run, and this model is not in its run folder"
    reporter.notice(f"--tta {tta}: the temperature is that of single views; {fit}")


def fit_tta(model: str, predictor: "Predictor", root: str | None, reporter: Reporter) -> None:
    """Fit the temperature of a run's augmented network on its calibration or validation images, unless it was fitted.

    The result is kept beside the checkpoint, and becomes that of the predictor. Where the run or its images are gone,
    a notice says so, and the temperature stays that of single views.
    """
    from vit.checkpoints.run import RunDirectory, checkpoint_of
    from vit.checkpoints.tta_file import FittedTta
    from vit.checkpoints.validation_scores import ValidationScores, fitted_split
    from vit.commands.measured_images import check_own_images
    from vit.commands.recipe_options import read_recipe
    from vit.data.loader import labeled_images
    from vit.inference.calibration import fit_temperature
    from vit.inference.engine import score
    from vit.inference.image_groups import in_groups
    from vit.inference.scored_images import ScoredImages
    from vit.inference.tta import AugmentedEngine
    from vit.launch import is_first
    from vit.training.run_images import images_of_run

    engine, run = predictor.engine, RunDirectory.around(Path(model))
    assert isinstance(engine, AugmentedEngine)
    if predictor.validation_scores is not None:
        return
    if run is None:
        reporter.notice(
            f"--tta {engine.tta}: {model} is not in a run folder, so the temperature is that of single views"
        )
        return
    try:
        source = images_of_run(run, read_recipe(run.config_path), root)
        split = fitted_split(source.splits)
        if split is None:
            raise DataError("the run has no validation images", "")
        check_own_images(run, source, split, reporter)
    except (DataError, UsageError) as error:
        reporter.notice(f"--tta {engine.tta}: {error.problem}; the temperature is that of single views")
        return
    engine.temperature = 1.0
    samples = source.splits[split]
    scored = in_groups(score(engine, labeled_images(samples, predictor.preprocess)), samples)
    assert isinstance(scored, ScoredImages)  # several labels are refused
    fitted = fit_temperature(scored, split)
    engine.temperature = fitted.value
    calibrated = scored.at(fitted.value)
    scores = ValidationScores.of(calibrated.labels, calibrated.probabilities, calibrated.groups, split)
    predictor.validation_scores = scores
    reporter.notice(f"temperature for --tta {engine.tta} {fitted.words()}")
    if not is_first():
        return
    try:
        FittedTta(fitted.value, scores).write(checkpoint_of(Path(model)), engine.tta)
    except OSError as error:
        reporter.notice(f"WARNING: the temperature for --tta {engine.tta} could not be kept: {error.strerror}")
