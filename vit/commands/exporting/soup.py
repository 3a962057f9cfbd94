"""`vit soup RUN RUN ... --output FILE`: the average of the weights of several runs, as far as it helps

Greedy soup: Wortsman et al. 2022, "Model soups: averaging weights of multiple fine-tuned models improves accuracy
without increasing inference time". The runs are taken in the order of their accuracy on validation images. A run
stays in the average if the accuracy does not fall.
"""

import os
import shlex
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import StrPath, check_different, in_points, new_file
from vit.commands.cli.command_line import Metavar
from vit.console import Reporter, percent
from vit.errors import DataError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from vit.data.core.samples import Samples, Source
    from vit.inference.scores.scored_images import ScoredImages

Weights = dict[str, "Tensor"]


def soup(runs: Annotated[Sequence[StrPath], Metavar("RUN")], *, output: StrPath, device: str = "auto") -> Path:
    """Average the weights of runs that were fine-tuned from the same weights, where that helps on validation images.

    Args:
        runs: two or more run folders of one network, one recipe of preprocessing, and the same splits
        output: new checkpoint
        device: cpu, cuda or mps; auto: an accelerator if there is one

    Returns:
        The checkpoint, which says what it is made of.

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
    from vit.checkpoints.load import load, write_new_checkpoint
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
    network, first = loaded[paths[0]]
    for run, (other, description) in loaded.items():
        if description.multilabel is not None:
            raise UsageError(f"{run} gives an image several labels, and vit soup is for one class", "leave it out")
        for what, field in (("classes", "class_names"), ("preprocessing", "preprocess")):
            if getattr(first, field) != getattr(description, field):
                raise UsageError(f"{paths[0]} and {run} have different {what}", "give runs of one recipe")
        if network.config != other.config:
            raise UsageError(f"{paths[0]} and {run} have different networks", "give runs of one recipe")

    def scored(weights: Weights, samples: "Samples") -> "ScoredImages":
        network.load_state_dict(weights)
        engine = Engine(network, first.preprocess, on, first.precision)
        scores = score(engine, labeled_images(samples, first.preprocess))
        assert isinstance(scores, ScoredImages)
        return in_groups(scores, samples)

    def accuracy_of(weights: Weights) -> float:
        return float(scored(weights, source.splits["validation"]).correct.mean())

    weights: dict[str, Weights] = {run: deepcopy(trained.state_dict()) for run, (trained, _) in loaded.items()}
    alone = {run: accuracy_of(state) for run, state in weights.items()}
    best, *others = sorted(paths, key=lambda run: -alone[run])
    used, mixed, accuracy = [best], weights[best], alone[best]
    rows = [(best, percent(accuracy), percent(accuracy), "yes")]
    for run in others:
        tried = mean_weights([weights[one] for one in (*used, run)])
        reached = accuracy_of(tried)
        rows.append((run, percent(alone[run]), percent(reached), "yes" if reached >= accuracy else "no"))
        if reached >= accuracy:
            used, mixed, accuracy = [*used, run], tried, reached
    reporter.table(("run", "validation accuracy", "of the average with it", "used"), rows)
    if len(used) == 1:
        reporter.warn(f"no average is better than {best}: the soup is that run alone")
    split = fitted_split(source.splits) or "validation"
    uncalibrated = scored(mixed, source.splits[split])
    fitted = fit_temperature(uncalibrated, split)
    scaled = uncalibrated.at(fitted.value)
    above = os.path.commonpath([Path(run).absolute() for run in paths])
    names = ", ".join(os.path.relpath(run, above) for run in used)
    metrics, made_of = {"val/acc1": accuracy}, f"the average of {len(used):,} of {len(paths):,} runs: {names}"[:1000]
    scores = ValidationScores.of(scaled.labels, scaled.probabilities, scaled.groups, split, first.class_names)
    description = replace(first, temperature=fitted.value, metrics=metrics, validation_scores=scores, made_of=made_of)
    network.load_state_dict(mixed)
    write_new_checkpoint(checkpoint_content(description, network.cpu().state_dict()), path)
    reporter.line(f"\n{path}: {description.made_of}; temperature {fitted.describe()}")
    if "test" in source.splits:
        single, whole = (scored(one, source.splits["test"]) for one in (weights[best], mixed))
        gap = paired_gap(whole.correct, single.correct, whole.groups)
        of_soup, of_best = (percent(float(one.correct.mean())) for one in (whole, single))
        of_single = f"{of_best} of the best run on validation images, {best}"
        reporter.line(f"test accuracy {of_soup}; {of_single}; {in_points(gap)}, paired 95 % interval")
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
    from vit.commands.measuring.measured_images import check_own_images
    from vit.training.running.run_images import images_of_run, splits_of_run

    folders = [RunDirectory.around(Path(run)) for run in paths]
    runs = [run for run in folders if run is not None]
    if None in folders:
        problem = f"{paths[folders.index(None)]} is not in a run folder, so its validation images are not known"
        raise UsageError(problem, "give run folders")
    recipes, splits = [read_recipe(run.config_path) for run in runs], []
    for run in runs:
        listed = splits_of_run(run).items()
        splits.append({split: [(row.content_hash or row.path, row.label) for row in rows] for split, rows in listed})
    first_start = recipes[0].model.init_from
    for name, recipe, images in zip(paths, recipes, splits, strict=True):
        start = recipe.model.init_from
        if start is None or start != first_start:
            other = f", and {paths[0]} from {first_start or 'random weights'}" * (name != paths[0])
            what = f"starts from {start or 'random weights'}{other}"
            fix = "give runs that start from the same pretrained weights, or average answers: vit evaluate RUN RUN"
            raise UsageError(f"{name} {what}: an average of such weights means nothing", fix)
        for split in ("validation", "calibration", "test"):
            if images.get(split) != splits[0].get(split):
                problem = f"{name} has other {split} images or labels than {paths[0]}"
                raise DataError(problem, "give runs with the same splits")
    source = images_of_run(runs[0], recipes[0])
    for split in splits[0].keys() - {"train"}:
        check_own_images(runs[0], source, split, reporter)
    return source
