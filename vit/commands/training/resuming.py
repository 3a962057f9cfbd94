"""What `vit train --resume` continues: a run by its folder, or the newest run that fits the options"""

import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vit.commands.cli.recipe_layers import LENGTHS, RecipeLayers
from vit.commands.cli.recipe_options import parse_recipe, read_recipe
from vit.console import Reporter
from vit.errors import DataError, UsageError, VitError
from vit.launch import is_first, is_launched
from vit.registry import PRETRAINING_PLAN
from vit.training.recipes.pretrain_recipe import PretrainRecipe
from vit.training.recipes.recipe import NOT_IN_HASH_PARTS, PLACES_OF_IMAGES, Recipe
from vit.training.recipes.values import dotted, dump, plain, training_options, with_defaults

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory
    from vit.data.checks.contents import Contents
    from vit.data.core.samples import Source
    from vit.training.distributed.processes import Rendezvous
    from vit.training.planning.plan import Plan

P = TypeVar("P", bound="Plan")
# Options of the machine, which may be another one when a run is resumed, and options that do not change the weights.
_MACHINE = (("trainer", "accelerator"), *NOT_IN_HASH_PARTS)


def recipe_for_all(
    run: Path, layers: RecipeLayers, find: Callable[[Path, RecipeLayers], Recipe]
) -> "tuple[Recipe, Rendezvous]":
    """A recipe that the first of several processes finds, because the others may not see the run folder."""
    recipe: Recipe | None = None
    world_size = int(os.environ.get("WORLD_SIZE", "2"))
    if is_first() and not is_launched():
        recipe = find(run, layers)  # before the imports below, which take seconds

        from vit.training.distributed.devices import device_and_world_size

        _, world_size = device_and_world_size(recipe.trainer)

    from vit.training.distributed.processes import Rendezvous

    # of a launcher, it is opened before the run is read, because the other processes wait for an answer or an error
    rendezvous = Rendezvous(world_size)
    text = rendezvous.decided("recipe", lambda: dump(recipe or find(run, layers)))
    return recipe or parse_recipe(text), rendezvous


def recipe_of(run: Path, layers: RecipeLayers) -> Recipe:
    """The recipe of an unfinished run, with the devices, workers, cache and places of images that the user gives."""
    from vit.checkpoints.run import RunDirectory

    directory = RunDirectory.open(run)
    if directory.result_path.is_file():
        name = shlex.quote(str(run))
        words = f"pretrain DATA --init_from {name}" if directory.is_pretraining else f"train {name} --epochs N"
        raise UsageError(f"{run} is finished", f"'vit {words}' trains it further in a new run")
    if not directory.can_resume:
        raise directory.unfinished()
    recipe = read_recipe(directory.config_path)
    if not layers.says("data.source"):
        directory.check_not_moved(recipe.data.source)
    if is_launched():  # the launcher decides how many processes there are, however many the run had
        recipe = replace(recipe, trainer=replace(recipe.trainer, devices="auto", num_nodes=1))
    if isinstance(recipe, PretrainRecipe) is not issubclass(layers.kind, PretrainRecipe):
        what = "is of a pretraining" if directory.is_pretraining else "is of a training with labels"
        raise UsageError(f"{run} {what}", f"give '{directory.how_to_resume}'")
    if layers == RecipeLayers(kind=layers.kind):
        return recipe
    wanted = layers.recipe_above(recipe)
    recipe = _with_options(recipe, wanted, (*_MACHINE, *PLACES_OF_IMAGES))
    if plain(recipe) == plain(wanted):
        return recipe
    if different := _differences(plain(recipe), plain(_plan_of(wanted, None).recipe)):  # names stand for values
        words = ", ".join(f"{key} is {old} in the run, {new} here" for key, old, new in different)
        raise UsageError(f"--resume {run}: {words}", "leave these options out, or start a new run")
    return recipe


def further_recipe(run: Path, layers: RecipeLayers) -> Recipe:
    """The recipe that trains a finished run further: its own, with its best weights as the start, and another length.

    The schedule begins again: warm-up to the learning rate of the recipe, then cosine (Loshchilov and Hutter 2017).
    UsageError where there is no length, or where an option would change the images or the network.
    """
    from vit.checkpoints.run import RunDirectory

    directory, started = RunDirectory.open(run), f"vit train DATA --init_from {shlex.quote(str(run))}"
    directory.finished_result()
    recipe = read_recipe(directory.config_path)
    directory.check_not_moved(recipe.data.source)
    if recipe.model.freeze == "backbone":
        raise UsageError(f"{run} is a linear probe, which more steps do not change", f"train all weights: {started}")
    if not any(layers.says(name) for name in LENGTHS):
        raise UsageError(f"{run} is a run, and no length is given", "give --epochs N to train it for N more epochs")
    options = {name: value for name, value in layers.options.items() if name != "data.source"}
    wanted = replace(layers, options=options).recipe_above(recipe)
    fixed, here = ({"data": one["data"], "model": one["model"]} for one in map(_deciding, (recipe, wanted)))
    for key, old, new in _differences(fixed, here):
        raise UsageError(f"{run} is trained further as it is: {key} is {old} in it, {new} here", f"or '{started}'")
    return replace(wanted, model=replace(wanted.model, init_from=str(run.absolute())))


def newest_for_all(
    plan: P, rendezvous: "Rendezvous", listed: "Source | None", contents: "Contents | None", reporter: Reporter
) -> tuple[Path | None, P]:
    """The newest unfinished run that fits the plan and that no process trains, or None; and the plan as it began.

    Its images may have moved since. The first process knows their contents.
    """

    def find() -> str:
        """The run, and the recipe with what trial steps or a lack of memory decided when the run began."""
        assert contents is not None
        for run, its_recipe in unfinished_runs(plan.recipe, plan.spec.name):
            begun = _as_begun(plan.recipe, its_recipe)
            moved = _with_options(its_recipe, begun, PLACES_OF_IMAGES)
            if _differences(_deciding(begun), _deciding(moved)):
                continue
            if moved == its_recipe or _holds(run, plan.source, contents):
                reporter.notice(f"--resume auto: going on with {run.path}")
                return json.dumps([str(run.path), dump(begun)])
        reporter.notice(f"--resume auto: starting a new run, for {plan.recipe.out} has no unfinished one")
        return json.dumps(None)

    answer = json.loads(rendezvous.decided("newest", find))
    if answer is None:
        return None, plan
    recipe = parse_recipe(answer[1])
    begun = plan if recipe == plan.recipe else _plan_of(recipe, listed)
    assert isinstance(begun, type(plan))
    return Path(answer[0]), begun


def _holds(run: "RunDirectory", source: "Source", contents: "Contents") -> bool:
    """Whether the images of a run are these, wherever they were then."""
    from vit.training.fit import check_unchanged

    try:
        check_unchanged(run, source, contents, may_have_moved=True)
    except DataError:
        return False
    return True


def _as_begun(recipe: Recipe, its_recipe: Recipe) -> Recipe:
    """A recipe with the choices of a run that such a recipe leaves open."""
    optim, its = recipe.optim, its_recipe.optim
    if its.accumulate % optim.accumulate == 0:  # micro-batches may have become smaller
        optim = replace(optim, accumulate=its.accumulate)
    if optim.is_timed:
        optim = replace(optim, steps=its.steps)
    if optim.batch_size == "auto":
        optim = replace(optim, batch_size=its.batch_size)
    return replace(recipe, optim=optim)


def unfinished_runs(recipe: Recipe, network: str, data: str | None = None) -> Iterator[tuple["RunDirectory", Recipe]]:
    """The unfinished runs below `out` that can be resumed and that no process trains, the newest first.

    `data` is the name of their images; None: any.
    """
    from vit.checkpoints.run import RunDirectory

    below = RunDirectory.below(recipe.out, data, network)
    runs = [run for run in below if run.can_resume and not run.result_path.is_file()]
    for run in sorted(runs, key=lambda run: run.config_path.stat().st_mtime, reverse=True):
        try:
            its_recipe = read_recipe(run.config_path)
        except VitError:  # of another version, or not a run's
            continue
        if type(its_recipe) is type(recipe) and not run.is_held():
            yield run, its_recipe


def _with_options(recipe: Recipe, other: Recipe, options: Sequence[tuple[str, str]]) -> Recipe:
    """A recipe with some options of another one."""
    for group, key in options:
        changed = replace(getattr(recipe, group), **{key: getattr(getattr(other, group), key)})
        recipe = replace(recipe, **{group: changed})
    return recipe


def _deciding(recipe: Recipe) -> dict[str, object]:
    """The options that decide the result of a training, as plain values."""
    return training_options(plain(_with_options(recipe, Recipe(), _MACHINE)))


def _plan_of(recipe: Recipe, listed: "Source | None") -> "Plan":
    if isinstance(recipe, PretrainRecipe):
        plan: Plan = PRETRAINING_PLAN.load()(recipe, listed)
        return plan

    from vit.training.planning.plan import plan_of

    return plan_of(recipe, listed)


def _differences(old: dict[str, object], new: dict[str, object]) -> list[tuple[str, object, object]]:
    """(dotted key, value, value) where two recipes as plain values differ, with the defaults of their networks."""
    one, other = dotted(old), dotted(new)
    if keys := [key for key in one | other if one.get(key) != other.get(key)]:
        one, other = (dotted(with_defaults(values)) for values in (old, new))  # imports the network
    return [(key, one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)]
