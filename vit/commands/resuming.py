"""What `vit train --resume` continues: a run by its folder, or the newest run that fits the options"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.recipe_layers import Given
from vit.commands.recipe_options import parse_recipe, read_recipe
from vit.errors import UsageError, VitError
from vit.launch import is_first, is_launched
from vit.training.recipes.recipe import UNDECIDING, Recipe
from vit.training.recipes.values import dump, plain

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory
    from vit.training.distributed.meeting import Meeting

_MACHINE = (  # options of the machine, which may be another one when a run is resumed
    "trainer.devices", "trainer.num_nodes", "trainer.accelerator", "trainer.checkpoint_every", "data.num_workers",
)  # fmt: skip


def recipe_for_all(run: Path, given: Given) -> "tuple[Recipe, Meeting]":
    """`recipe_of`, read by the first of several processes, because the others may not see the run folder."""
    if is_first():
        recipe = recipe_of(run, given)

        from vit.training.distributed.devices import device_and_world_size
        from vit.training.distributed.meeting import Meeting

        _, world_size = device_and_world_size(recipe)
        meeting = Meeting(world_size)
        meeting.decided("recipe", lambda: dump(recipe))
        return recipe, meeting

    from vit.training.distributed.meeting import Meeting

    meeting = Meeting(2)
    return parse_recipe(meeting.decided("recipe", str)), meeting


def recipe_of(run: Path, given: Given) -> Recipe:
    """The recipe of an unfinished run, on the devices and with the workers that the user gives.

    Raises:
        UsageError: the folder is not a run, the run is finished or has no checkpoint, or an option differs from the
            run's.
    """
    from vit.checkpoints.run import RunDirectory

    directory = RunDirectory.open(run)
    if directory.result_path.is_file():
        raise UsageError(f"{run} is finished", f"see {directory.result_path}, or start a new run")
    if not directory.can_resume:
        raise directory.unfinished()
    recipe = _recipe_of_run(directory.config_path)
    if is_launched():  # the launcher decides how many processes there are, however many the run had
        recipe = replace(recipe, trainer=replace(recipe.trainer, devices="auto", num_nodes=1))
    if given != Given():
        wanted = given.recipe_above(recipe)
        recipe = _on_machine_of(wanted, recipe)
        _check_same(run, recipe, wanted)
    return recipe


def newest_run(recipe: Recipe, network: str, data: str) -> Path | None:
    """The newest unfinished run of a resolved recipe below its `out` that no process trains; None: there is none."""
    wanted = _deciding(recipe)
    for run, its_recipe in _unfinished(recipe, network, data):
        if _deciding(its_recipe) == wanted:
            return run.path
    return None


def newest_of_starts(recipe: Recipe, network: str, data: str, starts: tuple[str | None, ...]) -> Recipe | None:
    """The recipe of the newest unfinished run whose init_from is one of `starts`; None: there is none."""
    found = (its_recipe for _, its_recipe in _unfinished(recipe, network, data))
    return next((its_recipe for its_recipe in found if its_recipe.model.init_from in starts), None)


def _unfinished(recipe: Recipe, network: str, data: str) -> Iterator[tuple["RunDirectory", Recipe]]:
    """The unfinished runs below `out` that can be resumed and that no process trains, the newest first."""
    from vit.checkpoints.run import RunDirectory

    runs = [
        run for run in RunDirectory.below(recipe.out, data, network) if run.can_resume and not run.result_path.is_file()
    ]
    for run in sorted(runs, key=lambda run: run.config_path.stat().st_mtime, reverse=True):
        try:
            its_recipe = _recipe_of_run(run.config_path)
        except VitError:  # of another version, or not a run's
            continue
        if not run.is_held():
            yield run, its_recipe


def _recipe_of_run(config: Path) -> Recipe:
    """The recipe of a run; runs of versions without `resize_mode` have resized the shorter side."""
    recipe = read_recipe(config)
    pixels = recipe.model.preprocess
    if pixels.resize_mode is not None or pixels.image_size is None:
        return recipe
    return replace(recipe, model=replace(recipe.model, preprocess=replace(pixels, resize_mode="shortest")))


def _on_machine_of(given: Recipe, recipe: Recipe) -> Recipe:
    """The recipe with the machine's options of another recipe."""
    for option in _MACHINE:
        group, key = option.split(".")
        recipe = replace(
            recipe, **{group: replace(getattr(recipe, group), **{key: getattr(getattr(given, group), key)})}
        )
    return recipe


def _deciding(recipe: Recipe) -> dict[str, object]:
    """The options that decide the result of a training, as plain values."""
    return {key: value for key, value in plain(_on_machine_of(Recipe(), recipe)).items() if key not in UNDECIDING}


def _check_same(run: Path, recipe: Recipe, given: Recipe) -> None:
    """Raise UsageError unless the options mean what the run has, also where a name stands for the run's value."""
    from vit.training.planning.plan import make_plan

    if not list(_differences(plain(recipe), plain(given))):
        return
    different = list(_differences(plain(recipe), plain(make_plan(given).recipe)))
    if different:
        words = ", ".join(f"{key} is {old} in the run, {new} here" for key, old, new in different)
        raise UsageError(f"--resume {run}: {words}", "leave these options out, or start a new run")


def _differences(one: object, other: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """(dotted key, value, value) where two trees differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one | other:
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    elif one != other:
        yield path, one, other
