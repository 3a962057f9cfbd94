"""Write, load again as others do, compare, and only then give the file its name."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from vit.errors import CheckpointError, DataError, ResourceError, UsageError
from vit.export.deployed import Trained
from vit.export.format import Format
from vit.export.onnx_file import OnnxFile
from vit.export.program import Program
from vit.export.timm_file import TimmFile
from vit.export.transformers_folder import TransformersFolder
from vit.export.verify import (
    GREY,
    TOLERANCE,
    Difference,
    PeerDifference,
    compare,
    compare_peer,
    contents,
    random_files,
    random_images,
    real_images,
)
from vit.export.weights import Weights
from vit.inference.engine import Engine

FORMATS: dict[str, Format] = {
    "onnx": OnnxFile(),
    "pt2": Program(),
    "safetensors": Weights(),
    "timm": TimmFile(),
    "hf": TransformersFolder(),
}


def export(trained: Trained, name: str, output: Path, files: Sequence[str] = ()) -> Difference:
    """Export a network, and compare it with PyTorch's own answer in float32 on a CPU.

    Args:
        name: of the format.
        output: a file or folder that does not exist yet.
        files: images to compare on; without any, random ones.

    Returns:
        How little it differs.

    Raises:
        UsageError: the output exists, has another ending than the format, or the format cannot hold this network.
        DataError: none of the files can be read.
        CheckpointError: what was written differs; nothing is left of it.
        ResourceError: the output cannot be written.
    """
    chosen = FORMATS[name]
    chosen.check_installed(name)
    check_output(name, output)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
            written = Path(folder) / output.name
            chosen.write(trained, written)
            _give_usual_mode(written, Path(folder))
            found = _compared(trained, chosen, written, files)
            seen = _seen_by_peer(trained, chosen, written, files)
            if seen is not None and not seen.is_small:
                raise CheckpointError(
                    f"{seen.library}'s own transform prepares {seen.worst} otherwise, by {seen.gray:.1f} gray levels "
                    f"on average (allowed: {GREY:g}); nothing was written",
                    "give another --format",
                )
            if not found.is_small:
                raise CheckpointError(
                    f"the {name} file differs from the checkpoint by up to {found.largest:.2g} in a probability, and "
                    f"in {found.labels} of {found.images} labels (allowed: {TOLERANCE:g} and 0); nothing was written",
                    "give another --format",
                )
            check_output(name, output)  # another process may have written it in the meantime
            written.rename(output)
    except OSError as error:
        raise ResourceError(f"cannot write {output}: {error.strerror}", "choose another --output") from error
    return replace(found, peer=seen)


def check_output(name: str, output: Path) -> None:
    """Raise UsageError unless the output may be written, and says by its ending what it is."""
    if output.exists():
        raise UsageError(f"--output {output} exists", "give another name, or remove it")
    ending = FORMATS[name].ending
    if ending and output.suffix != ending:
        raise UsageError(f"--output {output} is for --format {name}", f"give a name that ends in {ending}")


def _compared(trained: Trained, chosen: Format, written: Path, files: Sequence[str]) -> Difference:
    theirs = chosen.read(trained, written)
    preprocess, temperature = trained.description.preprocess, trained.description.temperature
    ours = Engine(trained.network, preprocess, torch.device("cpu"), "32-true", temperature)
    batches = real_images(files, preprocess) if files else random_images(preprocess.image_size)
    found = compare(ours.probabilities, theirs, batches)
    if not found.images:
        raise DataError(f"none of {len(files)} files is an image that can be read", "give --verify other images")
    return found


def _seen_by_peer(trained: Trained, chosen: Format, written: Path, files: Sequence[str]) -> PeerDifference | None:
    """What the format's library makes of the files' bytes, or of random pictures; None: it prepares no pictures."""
    peer = chosen.peer(trained, written)
    if peer is None:
        return None
    preprocess, temperature = trained.description.preprocess, trained.description.temperature
    ours = Engine(trained.network, preprocess, torch.device("cpu"), "32-true", temperature)
    pictures = contents(files) if files else random_files(preprocess.image_size)
    return compare_peer(ours.probabilities, preprocess, peer, pictures)


def _give_usual_mode(written: Path, folder: Path) -> None:
    """Let whoever may read new files read these, too: safetensors writes files that the owner alone can read."""
    probe = folder / ".mode"
    probe.touch()
    for path in (written, *written.rglob("*")) if written.is_dir() else (written,):
        if path.is_file():
            path.chmod(probe.stat().st_mode)
