"""The facts of a model card, from the run folder of a model or from its source, and the card's file"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import StrPath
from vit.console import Reporter
from vit.data.core.dataset_names import HUB, check_hub_name
from vit.errors import ResourceError, UsageError
from vit.weights.license import CARD

if TYPE_CHECKING:
    from vit.export.card import Int8Cost, Origin
    from vit.export.format import Classify
    from vit.export.verify import ExportDifference, Structure
    from vit.inference.deployment import LoadedModel


def show_difference(
    reporter: Reporter, difference: "ExportDifference | Structure", files: Sequence[str], verify: StrPath | None
) -> None:
    """Show how far probabilities differ from the checkpoint's, and pixels where the library prepares them itself."""
    from vit.export.verify import Structure

    if isinstance(difference, Structure):
        reporter.line(difference.words)
        return
    where = f"{difference.num_images:,} of {len(files):,} files of {verify}" if files else "random images"
    reporter.line(f"compared on {where}: no label differs, probabilities by {difference.largest:.1e} at most")
    peer = difference.peer
    if peer is not None and not peer.num_images:
        reporter.line(f"{peer.library}'s own transform was not compared: Pillow decodes all files otherwise")
    elif peer is not None:
        left_out = f", {peer.num_others:,} that Pillow decodes otherwise left out" if peer.num_others else ""
        reporter.line(
            f"{peer.library}'s own transform, from the bytes of {peer.num_images:,} files{left_out}: pixels differ by "
            f"{peer.gray:.2f} gray levels on average at most, probabilities by {peer.largest:.1e}, "
            f"labels of {peer.num_labels:,} files"
        )
        if peer.num_shifted:
            reporter.line(
                f"{peer.library} rounds half a pixel down: the middle square of {peer.num_shifted:,} files lies one "
                "pixel higher or farther left than here, which changes their probabilities a little"
            )


def show_license(reporter: Reporter, trained: "LoadedModel") -> None:
    """Show the license of the weights that the training started from."""
    from vit.weights.license import license_text, restricts

    license_name = trained.description.license
    if license_name is not None:
        show = reporter.notice if restricts(license_name) else reporter.line
        show(f"license of the first weights: {license_text(license_name)}")


def show_size_and_speed(
    reporter: Reporter, trained: "LoadedModel", name: str, path: Path, exported: "Classify | None"
) -> None:
    """Show one table for all formats: the export beside its checkpoint.

    Args:
        name: format and precision.
        exported: the export; None where it cannot be computed here.
    """
    from vit.export.latency import measured_speed, size_of

    weights = sum(value.nbytes for value in trained.network.state_dict().values())
    sizes = f"{weights / 1e6:.1f} MB of weights", f"{size_of(path) / 1e6:.1f} MB"
    reporter.line()
    if exported is None:
        reporter.table(("", "size", "images/s"), [("checkpoint", sizes[0], ""), (name, sizes[1], "not measured")])
        return
    speed = measured_speed(trained, exported)
    rows = [
        ("checkpoint", sizes[0], f"{speed.reference:,.1f}", "1.0"),
        (name, sizes[1], f"{speed.exported:,.1f}", f"{speed.exported / speed.reference:.1f}"),
    ]
    reporter.table(("", "size", "images/s", "times as fast"), rows)
    threads = f"{speed.threads} thread{'s' * (speed.threads != 1)}"
    reporter.line(f"CPU, {threads}, batches of {speed.batch_size}; of this machine, as busy as it is")


def show_how_to_load(reporter: Reporter, trained: "LoadedModel", format: str, path: Path) -> None:
    """Show Python code that loads the export."""
    from vit.export.exporting import export_format

    reporter.line()
    for line in export_format(format).how_to_load(trained, path).splitlines():
        reporter.line(line)


_HUBS = ("timm:", "torchvision:", "hf:")


def check_card(card: StrPath | None, format: str, has_folder: bool) -> Path | None:
    """The path of --card; UsageError where it exists, or where the card is in the folder anyway."""
    if card is None:
        return None
    if has_folder:
        raise UsageError(f"--card, but --format {format} has its card in the folder, as {CARD}", "leave --card out")
    path = Path(card).expanduser()
    if path.exists():
        raise UsageError(f"--card {path} exists", "give another name, or move it elsewhere")
    return path


def trained_model(model: Path, unfinished: bool) -> "LoadedModel":
    """The network of a run or checkpoint, and its description, which says what its training lacks.

    Args:
        unfinished: whether a model whose training is not finished is wanted.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        UsageError: the training is not finished, and `unfinished` is false.
    """
    from vit.checkpoints.load import load
    from vit.checkpoints.run import check_finished, checkpoint_of
    from vit.inference.deployment import LoadedModel

    network, description = load(checkpoint_of(model))
    lacks = check_finished(model, unfinished, description.unfinished)
    return LoadedModel(network, replace(description, unfinished=lacks or None))


def write_card(
    model: Path, trained: "LoadedModel", format: str, path: Path, card: Path | None, int8: "Int8Cost | None" = None
) -> Path | None:
    """Write the card of an export: into its folder, or to a file that was asked for. Returns its path.

    Args:
        model: run folder or checkpoint.
        path: the export.
        card: new file for the card of a single file; None: no card.
    """
    from vit.export.exporting import export_format

    export_kind = export_format(format)
    file = card if export_kind.ending else path / CARD
    if file is None:
        return None
    code = f"{export_kind.imports}\n{export_kind.how_to_load(trained, Path(path.name))}"
    return _write(file, card_of(trained, export_kind.library, path.stem, code, origin_of(model), int8))


def write_converted_card(trained: "LoadedModel", source: str, path: Path, card: Path) -> Path:
    """Write the card of a converted checkpoint.

    Args:
        source: SOURCE of `vit convert`.
        path: the checkpoint.
        card: new file for the card.
    """
    from vit.export.card import Origin

    use = 'for row in predictor.predict(["photo.jpg"]):\n    print(row.label)'
    code = f"import vit\npredictor = vit.load({path.name!r})\n{use}"
    origin = Origin(start=f"The weights were converted from {_describe_source(source)}")
    return _write(card, card_of(trained, "pytorch", path.stem, code, origin))


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
    """What the run folder of a model says about its training; nothing for a bare checkpoint.

    Numbers of a finished run are those of its best checkpoint. Another checkpoint has none.
    """
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
    is_best = checkpoint_of(model).resolve() == run.best_path.resolve()
    metrics = result.metrics if is_best else {}
    has_seen = result.seen_before is not None
    return Origin(words, result.data, on_hub, result.num_images, metrics, result.test_groups, has_seen)


def _describe_source(source: str) -> str:
    """Weights to start from, in words, without a folder of this machine."""
    return source if source.startswith(_HUBS) else f"weights in a file or folder, {Path(source).name}"


def _write(file: Path, text: str) -> Path:
    try:
        with open(file, "x", encoding="utf-8") as stream:  # nothing is overwritten
            stream.write(text)
    except OSError as error:
        raise ResourceError(f"cannot write the model card {file}: {error.strerror}", "choose another --card") from error
    return file
