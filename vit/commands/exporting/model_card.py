"""The facts of a model card, from the run folder of a model or from its source, and the card's file"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.console import Reporter
from vit.data.core.dataset_names import HUB, check_hub_name
from vit.errors import ResourceError, explained
from vit.weights.hubs import CARD, license_text, restricts

if TYPE_CHECKING:
    from vit.export.card import Int8Cost, Origin
    from vit.inference.deployment import LoadedModel

_HUBS = ("timm:", "torchvision:", "hf:")


def show_license(reporter: Reporter, trained: "LoadedModel") -> None:
    """Show the license of the weights that the training started from."""
    license_name = trained.description.license
    if license_name is not None:
        show = reporter.notice if restricts(license_name) else reporter.line
        show(f"license of the first weights: {license_text(license_name)}")


def trained_model(model: Path, unfinished: bool) -> "LoadedModel":
    """A model and what its training lacks; UsageError where it is not finished, and `unfinished` is false."""
    from vit.checkpoints.load import load
    from vit.checkpoints.run import check_finished, checkpoint_of
    from vit.inference.deployment import LoadedModel

    network, description = load(checkpoint_of(model))
    lacks = check_finished(model, unfinished, description.unfinished)
    return LoadedModel(network, replace(description, unfinished=lacks or None))


def write_card(
    model: Path, trained: "LoadedModel", format: str, path: Path, card: Path | None, int8: "Int8Cost | None" = None
) -> Path | None:
    """Write the card of an export: into its folder, or to the new file `card`. Returns its path; None: no card."""
    from vit.export.exporting import export_format

    export_kind = export_format(format)
    file = card if export_kind.ending else path / CARD
    if file is not None:
        code = f"{export_kind.imports}\n{export_kind.how_to_load(trained, Path(path.name))}"
        _write(file, card_of(trained, export_kind.library, path.stem, code, origin_of(model), int8))
    return file


def write_converted_card(trained: "LoadedModel", source: str, path: Path, card: Path) -> None:
    """Write the card of a checkpoint that was converted from SOURCE of `vit convert`."""
    from vit.export.card import Origin

    use = 'for row in predictor.predict(["photo.jpg"]):\n    print(row.label)'
    code = f"import vit\npredictor = vit.load({path.name!r})\n{use}"
    origin = Origin(start=f"The weights were converted from {_describe_source(source)}")
    _write(card, card_of(trained, "pytorch", path.stem, code, origin))


def _write(file: Path, text: str) -> None:
    explain = explained(ResourceError, f"cannot write the model card {file}", "choose another --card")
    with explain, open(file, "x", encoding="utf-8") as stream:  # nothing is overwritten
        stream.write(text)


def card_of(
    trained: "LoadedModel", library: str, title: str, code: str, origin: "Origin", int8: "Int8Cost | None" = None
) -> str:
    """The text of a card."""
    from vit.export.card import CardFacts, card_text

    parameters = sum(parameter.numel() for parameter in trained.network.parameters())
    return card_text(CardFacts(title, trained.description, parameters, library, code, origin, int8))


def hub_data(data: str) -> str | None:
    """The name of DATA on the hub; None where it is elsewhere."""
    return check_hub_name(data).repository if data.startswith(HUB) else None


def origin_of(model: Path) -> "Origin":
    """What the run folder of a model says about its training. Only its best checkpoint has numbers."""
    from vit.checkpoints.run import RunDirectory, checkpoint_of
    from vit.commands.cli.recipe_options import read_recipe
    from vit.export.card import Origin

    run = RunDirectory.around(model)
    if run is None:
        return Origin()
    recipe, result = read_recipe(run.config_path), run.read_result()
    start = recipe.model.init_from
    words = "Random weights" if start is None else f"The training started from {_describe_source(start)}"
    on_hub = hub_data(recipe.data.source)
    if result is None:
        return Origin(start=words, hub_data=on_hub)
    metrics = result.metrics if checkpoint_of(model).resolve() == run.best_path.resolve() else {}
    has_seen = result.seen_before is not None
    return Origin(words, result.data, on_hub, result.num_images, metrics, result.test_groups, has_seen)


def _describe_source(source: str) -> str:
    """Weights to start from, in words, without a folder of this machine."""
    return source if source.startswith(_HUBS) else f"weights in a file or folder, {Path(source).name}"
