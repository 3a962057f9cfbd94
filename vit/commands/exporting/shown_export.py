"""What `vit export` says of an export: how it differs from the checkpoint, its size, its speed, and how it is loaded"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import StrPath
from vit.console import Reporter

if TYPE_CHECKING:
    from vit.export.format import Classify
    from vit.export.verify import Difference, Structure
    from vit.inference.deployment import LoadedModel


def show_difference(
    reporter: Reporter, difference: "Difference | Structure", files: Sequence[str], verify: StrPath | None
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


def show_licence(reporter: Reporter, trained: "LoadedModel") -> None:
    """Show the licence of the weights that the training started from."""
    from vit.weights.licence import licence_words, restricts

    licence = trained.description.licence
    if licence is not None:
        show = reporter.notice if restricts(licence) else reporter.line
        show(f"licence of the first weights: {licence_words(licence)}")


def show_size_and_speed(
    reporter: Reporter, trained: "LoadedModel", name: str, path: Path, exported: "Classify | None"
) -> None:
    """Show one table for all formats: the export beside its checkpoint.

    Args:
        name: format and precision.
        exported: the export; None where it cannot be computed here.
    """
    from vit.export.speed import measured_speed, size_of

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
