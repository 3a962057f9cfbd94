"""`vit soup RUN RUN ... --output FILE`: the average of the weights of several runs, as far as it helps

Greedy soup: Wortsman et al. 2022, "Model soups: averaging weights of multiple fine-tuned models improves accuracy
without increasing inference time". The runs are taken in the order of their accuracy on validation images. A run
stays in the average if the accuracy does not fall.
"""

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import StrPath, check_different, in_points, new_file
from vit.commands.cli.command_line import Metavar
from vit.console import ProgressReport, Reporter, percent
from vit.errors import DataError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from vit.checkpoints.format import Description
    from vit.data.core.samples import Samples, Source
    from vit.inference.scores.scored_images import ScoredImages

Weights = dict[str, "Tensor"]


@dataclass(frozen=True)
class _Ingredient:
    """The best checkpoint of a run, and its accuracy on the validation images."""

    name: str
    weights: Weights
    accuracy: float


def soup(runs: Annotated[Sequence[StrPath], Metavar("RUN")], *, output: StrPath, device: str = "auto") -> Path:
    """Average the weights of runs that were fine-tuned from the same weights, where that helps on validation images.

    Args:
        runs: two or more run folders of one network, one recipe of preprocessing, and the same splits
        output: new checkpoint
        device: cpu, cuda or mps; auto: an accelerator if there is one

    Returns:
        The checkpoint, which says what it is made of.

    Raises:
        VitError: a run is not finished, or its weights cannot be averaged with those of the others.

    Example:
        vit soup studies/photos/cells/vit/0003000/seed* --output soup.ckpt
    """
    paths, path = [os.fspath(run) for run in runs], new_file(output)
    if len(paths) < 2:
        raise UsageError("vit soup needs two or more runs", "as in 'vit soup RUN RUN --output soup.ckpt'")
    check_different(paths)
    for run in paths:
        check_model(run, unfinished=False)

    from vit.checkpoints.format import checkpoint_content
    from vit.checkpoints.io import write_checkpoint
    from vit.checkpoints.load import load
    from vit.checkpoints.run import checkpoint_of
    from vit.checkpoints.validation_scores import ValidationScores, fitted_split
    from vit.data.loading.loader import labeled_images
    from vit.inference.answers.calibration import fit_temperature
    from vit.inference.devices import choose_device
    from vit.inference.engine import Engine, score
    from vit.inference.scores.image_groups import in_groups
    from vit.inference.scores.scored_images import ScoredImages
    from vit.study.statistics.paired import paired_gap

    reporter, on = Reporter(), choose_device(device)
    source = _same_images(paths, reporter)
    loaded = {run: load(checkpoint_of(Path(run))) for run in paths}
    first = loaded[paths[0]][1]
    for run, (_, description) in loaded.items():
        _check_alike(paths[0], first, run, description)
    network = loaded[paths[0]][0]

    def scored(weights: Weights, samples: "Samples") -> "ScoredImages":
        network.load_state_dict(weights)
        engine = Engine(network, first.preprocess, on, first.precision)
        found = score(engine, labeled_images(samples, first.preprocess))
        assert isinstance(found, ScoredImages)
        return in_groups(found, samples)

    validation = source.splits["validation"]
    ingredients = []
    for run, (trained, _) in loaded.items():
        weights = {name: value.clone() for name, value in trained.state_dict().items()}
        ingredients.append(_Ingredient(run, weights, float(scored(weights, validation).correct.mean())))
    ingredients.sort(key=lambda one: -one.accuracy)
    used, mixed, accuracy = [ingredients[0]], ingredients[0].weights, ingredients[0].accuracy
    rows = [(used[0].name, percent(accuracy), percent(accuracy), "yes")]
    for one in ingredients[1:]:
        tried = mean_weights([*(kept.weights for kept in used), one.weights])
        reached = float(scored(tried, validation).correct.mean())
        rows.append((one.name, percent(one.accuracy), percent(reached), "yes" if reached >= accuracy else "no"))
        if reached >= accuracy:
            used, mixed, accuracy = [*used, one], tried, reached
    reporter.table(("run", "validation accuracy", "of the average with it", "used"), rows)
    if len(used) == 1:
        reporter.notice(f"WARNING: no average is better than {used[0].name}: the soup is that run alone")
    split = fitted_split(source.splits) or "validation"
    uncalibrated = scored(mixed, source.splits[split])
    fitted = fit_temperature(uncalibrated, split)
    calibrated = uncalibrated.at(fitted.value)
    above = os.path.commonpath([Path(run).absolute() for run in paths])
    names = ", ".join(os.path.relpath(one.name, above) for one in used)
    description = replace(
        first,
        temperature=fitted.value,
        metrics={"val/acc1": accuracy},
        validation_scores=ValidationScores.of(
            calibrated.labels, calibrated.probabilities, calibrated.groups, split, first.class_names
        ),
        made_of=f"the average of {len(used)} of {len(paths)} runs: {names}"[:1000],
    )
    network.load_state_dict(mixed)
    write_checkpoint(checkpoint_content(description, network.cpu().state_dict()), path)
    load(path)
    reporter.line(f"\n{path}: {description.made_of}; temperature {fitted.describe()}")
    if "test" in source.splits:
        began = time.perf_counter()
        best, all_together = (scored(weights, source.splits["test"]) for weights in (ingredients[0].weights, mixed))
        single, whole, groups = best.correct, all_together.correct, all_together.groups
        gap = paired_gap(whole, single, groups)
        speed = 2 * len(whole) / (time.perf_counter() - began)
        reporter.line(
            f"test accuracy {percent(float(whole.mean()))} at {speed:,.0f} images/s; {percent(float(single.mean()))} "
            f"of the best run on validation images, {ingredients[0].name}; {in_points(gap)}, paired 95 % interval"
        )
    reporter.next_command(f"vit predict {shlex.quote(str(path))} FOLDER_OF_IMAGES --gallery")
    return path


def mean_weights(every: Sequence[Weights]) -> Weights:
    """The average of weights. Integers, such as counts of batches, are those of the first."""
    import torch

    return {
        name: torch.stack([weights[name] for weights in every]).mean(dim=0) if value.is_floating_point() else value
        for name, value in every[0].items()
    }


def _same_images(paths: Sequence[str], reporter: Reporter) -> "Source":
    """The images of the runs, unchanged; the runs have the same splits, and start from the same weights."""
    from vit.checkpoints.run import RunDirectory
    from vit.commands.cli.recipe_options import read_recipe
    from vit.data.checks.contents import read_contents
    from vit.training.running.run_images import check_contents, images_of_run, splits_of_run

    splits, starts = [], []
    for run in paths:
        found = RunDirectory.around(Path(run))
        if found is None:
            raise UsageError(
                f"{run} is not in a run folder, so its validation images are not known", "give run folders"
            )
        listed = splits_of_run(found)
        splits.append({split: [row.content_hash or row.path for row in rows] for split, rows in listed.items()})
        starts.append(read_recipe(found.config_path).model.init_from)
    for run, start, images in zip(paths, starts, splits, strict=True):
        if start is None or start != starts[0]:
            what = f"starts from {start or 'random weights'}, and {paths[0]} from {starts[0] or 'random weights'}"
            raise UsageError(
                f"{run} {what}: an average of such weights means nothing",
                "give runs that start from the same pretrained weights, or average answers: vit evaluate RUN RUN",
            )
        for split in ("validation", "calibration", "test"):
            if images.get(split) != splits[0].get(split):
                raise DataError(f"{run} has other {split} images than {paths[0]}", "give runs with the same splits")
    first = RunDirectory.around(Path(paths[0]))
    assert first is not None
    source = images_of_run(first, read_recipe(first.config_path))
    for split in splits[0].keys() - {"train"}:
        with ProgressReport(reporter, "image read") as progress:
            check_contents(first, source, split, read_contents(source, progress.update, (split,)))
    return source


def _check_alike(name: str, first: "Description", other_name: str, other: "Description") -> None:
    """Raise UsageError unless two checkpoints hold the same network for the same input and classes."""
    if other.multilabel is not None:
        raise UsageError(f"{other_name} gives an image several labels, and vit soup is for one class", "leave it out")
    same: Mapping[str, tuple[object, object]] = {
        "networks": (first.spec, other.spec),
        "classes": (first.class_names, other.class_names),
        "preprocessing": (first.preprocess, other.preprocess),
    }
    for what, (one, two) in same.items():
        if one != two:
            raise UsageError(f"{name} and {other_name} have different {what}", "give runs of one recipe")
