"""What `vit train --resume` goes on with: a run by its folder, or the newest one that fits the command line."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.commands.arguments import expand
from vit.commands.recipe_options import SHORT, make_parser, parse_options, read_recipe, to_recipe
from vit.errors import UsageError, VitError
from vit.launch import is_first, is_launched
from vit.layout import RunLayout
from vit.training.recipe import UNDECIDING, Recipe, dump, plain

if TYPE_CHECKING:
    from vit.training.distributed.meeting import Meeting

AUTO = "auto"
_MACHINE = (  # what computes it, which may be another one when a run goes on
    "trainer.devices", "trainer.num_nodes", "trainer.accelerator", "trainer.checkpoint_every", "data.num_workers",
)  # fmt: skip


def recipe_for_all(run: str, arguments: Sequence[str]) -> "tuple[Recipe, Meeting]":
    """`recipe_of`, read by the first of several processes, because the others may not see the run folder."""
    if is_first():
        recipe = recipe_of(run, arguments)

        from vit.training.distributed.devices import device_and_world_size
        from vit.training.distributed.meeting import Meeting

        _, world_size = device_and_world_size(recipe)
        meeting = Meeting(world_size)
        meeting.decided("recipe", lambda: dump(recipe))
        return recipe, meeting

    from vit.training.distributed.meeting import Meeting

    meeting = Meeting(2)
    with tempfile.TemporaryDirectory(prefix="vit-") as folder:
        config = RunLayout(Path(folder)).config_path
        config.write_text(meeting.decided("recipe", str), encoding="utf-8")
        return read_recipe(config), meeting


def recipe_of(run: str, arguments: Sequence[str]) -> Recipe:
    """The recipe of an unfinished run, on the devices and with the workers that the command line asks for.

    Raises:
        UsageError: it is no run, finished, or has no checkpoint; or an option of the command line is not the run's.
    """
    from vit.checkpoints.run import RunDirectory

    directory = RunDirectory.open(Path(run))
    if directory.result_path.is_file():
        raise UsageError(f"{run} is finished", f"see {directory.result_path}, or start a new run")
    if not directory.can_resume:
        raise directory.unfinished()
    recipe = _recipe_of_run(directory.config_path)
    if is_launched():  # however many processes there were, the launcher has decided how many there are
        recipe = replace(recipe, trainer=replace(recipe.trainer, devices="auto", num_nodes=1))
    others = [token for token in expand(arguments, SHORT, "data.source") if not token.startswith("--resume=")]
    if others:
        parser = make_parser()
        given = to_recipe(parser, parse_options(parser, [f"--config={directory.config_path}", *others]))
        recipe = _on_machine_of(given, recipe)
        _check_same(run, recipe, given)
    if is_launched() and not any(token.startswith("--trainer.devices=") for token in others):
        # the launcher has decided how many processes there are, however many the run had
        recipe = replace(recipe, trainer=replace(recipe.trainer, devices="auto", num_nodes=1))
    return recipe


def newest_run(recipe: Recipe, network: str, data: str) -> Path | None:
    """The newest unfinished run of a resolved recipe below its `out`, which nobody is training; None: there is none."""
    from vit.checkpoints.run import RunDirectory

    wanted = _deciding(recipe)
    runs = [
        run for run in RunDirectory.below(recipe.out, data, network) if run.can_resume and not run.result_path.is_file()
    ]
    for run in sorted(runs, key=lambda run: run.config_path.stat().st_mtime, reverse=True):
        try:
            same = _deciding(_recipe_of_run(run.config_path)) == wanted
        except VitError:  # of another version, or not a run's
            continue
        if same and not run.is_held():
            return run.path
    return None


def _recipe_of_run(config: Path) -> Recipe:
    """The recipe in a run's folder; runs from before there was a choice have resized the shorter side."""
    recipe = read_recipe(config)
    pixels = recipe.model.preprocess
    if pixels.resize_mode is not None or pixels.image_size is None:
        return recipe
    return replace(recipe, model=replace(recipe.model, preprocess=replace(pixels, resize_mode="shortest")))


def _on_machine_of(given: Recipe, recipe: Recipe) -> Recipe:
    """The recipe with what another one says of the machine."""
    for option in _MACHINE:
        group, key = option.split(".")
        recipe = replace(
            recipe, **{group: replace(getattr(recipe, group), **{key: getattr(getattr(given, group), key)})}
        )
    return recipe


def _deciding(recipe: Recipe) -> dict[str, Any]:
    return {key: value for key, value in plain(_on_machine_of(Recipe(), recipe)).items() if key not in UNDECIDING}


def _check_same(run: str, recipe: Recipe, given: Recipe) -> None:
    """Raise UsageError unless the options mean what the run has; a name that stands for a value may be given again."""
    from vit.training.plan import make_plan

    if not list(_differences(plain(recipe), plain(given))):
        return
    different = list(_differences(plain(recipe), plain(make_plan(given).recipe)))
    if different:
        words = ", ".join(f"{key} is {old} in the run, {new} here" for key, old, new in different)
        raise UsageError(
            f"--resume {run}: {words}", "leave these out, for a run goes on as it began, or start a new run"
        )


def _differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, value, value) where two trees differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one | other:
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    elif one != other:
        yield path, one, other
