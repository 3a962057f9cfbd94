"""An export: write, load with the other library, compare, then give the file its name"""

import errno
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from vit import registry
from vit.atomic_files import name_new_file, why_unwritable
from vit.errors import CheckpointError, DataError, ResourceError, UsageError, VitError, explained
from vit.export import verify
from vit.export.format import Classify, Format, description_text, label_code
from vit.export.verify import GRAY, TOLERANCE, ExportDifference
from vit.export.weights import TimmFile, Weights
from vit.inference.deployment import LoadedModel, describe_input, notes, traced
from vit.inference.engine import trained_engine

_AS_JSON = ("classes", "thresholds")
_FILE_ENDINGS = (".onnx", ".pt2", ".safetensors", ".xml", ".bin")


class Program(Format):
    """The same graph as in ONNX: from uint8 images to calibrated probabilities."""

    ending = ".pt2"
    imports = "import torch"

    def write(self, trained: LoadedModel, path: Path) -> None:
        texts = notes(trained)
        files = {f"{name}.json" if name in _AS_JSON else f"{name}.txt": text for name, text in texts.items()}
        extra = {"vit.json": description_text(trained.description), **files}
        content = io.BytesIO()  # where a disk is full, torch's own writer aborts the process
        torch.export.save(traced(trained), content, extra_files=extra)
        path.write_bytes(content.getbuffer())

    def read(self, trained: LoadedModel, path: Path) -> Classify:
        module = torch.export.load(path).module()
        return lambda images: module(images)

    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        load, label = f"model = torch.export.load({str(path)!r})", label_code(trained, "probabilities", "torch.tensor")
        return f"{load}.module()\nprobabilities = model(images)  # {describe_input(trained)}{label}"


CORE_FORMATS: dict[str, type[Format]] = {"pt2": Program, "safetensors": Weights, "timm": TimmFile}


def export_format(name: str) -> Format:
    """The format of a name."""
    made: Format = CORE_FORMATS[name]() if name in CORE_FORMATS else registry.FORMATS[name].load()()
    return made


def export(trained: LoadedModel, name: str, output: Path, files: Sequence[str] = ()) -> ExportDifference:
    """Export a network to a new file or folder, and compare it with the checkpoint in float32 on a CPU.

    The comparison is on the images `files`, or on random images. UsageError: the output exists, has the wrong ending,
    or the format cannot hold this network. DataError: none of the files can be read. CheckpointError: the exported
    network differs, and is removed. ResourceError: the output cannot be written.
    """
    export_kind, description = export_format(name), trained.description
    preprocess, rules = description.preprocess, description.multilabel
    export_kind.check_installed(name)
    with new_output(name, output) as written:
        export_kind.write(trained, written)
        ours = trained_engine(trained, torch.device("cpu"), "32-true").probabilities
        side, channels = preprocess.image_size, preprocess.channels
        batches = verify.real_images(files, preprocess) if files else verify.random_images(side, channels)
        difference = verify.compare(ours, export_kind.read(trained, written), batches, rules)
        if not difference.num_images:
            raise DataError(f"no image can be read; files: {len(files):,}", "give --verify other images")
        library = export_kind.peer(trained, written)
        if library is not None:
            pictures = verify.contents(files) if files else verify.random_files(side)
            peer = verify.compare_peer(ours, preprocess, library, pictures, rules)
            if not peer.is_small:
                raise CheckpointError(
                    f"the transform of {peer.library} prepares {peer.worst} differently, by {peer.gray:.1f} gray "
                    f"levels on average (allowed: {GRAY:g}); nothing was written",
                    "give another --format",
                )
            difference = replace(difference, peer=peer)
        if not difference.is_small:
            raise CheckpointError(
                f"the {name} file differs from the checkpoint by up to {difference.largest:.2g} in a probability, and "
                f"in {difference.num_labels} of {difference.num_images} labels (allowed: {TOLERANCE:g} and 0); "
                "nothing was written",
                "give another --format",
            )
    return difference


@contextmanager
def new_output(name: str, output: Path) -> Iterator[Path]:
    """A path to write to. Without an error inside, what was written gets the name of the output; else it is removed.

    UsageError as of `check_output`. ResourceError: the output cannot be written.
    """
    check_output(name, output)
    with explained(ResourceError, f"cannot write {output}", "choose another --output"):
        output.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
            written = Path(folder) / output.name
            try:
                yield written
            except Exception as error:
                reason = "" if isinstance(error, VitError) else why_unwritable(output.parent)
                if reason:
                    raise ResourceError(f"cannot write {output}: {reason}", "choose another --output") from error
                raise
            _give_usual_mode(written, Path(folder))
            _publish(written, output)


def check_output(name: str, output: Path) -> None:
    """Raise UsageError if the output exists, or does not have the ending of the format."""
    if output.exists():
        raise UsageError(f"--output {output} exists", "give another name, or move it elsewhere")
    ending = export_format(name).ending
    if not ending and output.suffix in _FILE_ENDINGS:
        fix = f"give a name without {output.suffix}: the file is written into it"
        raise UsageError(f"--output {output} names a file, and --format {name} writes a folder", fix)
    if ending and output.suffix != ending:
        raise UsageError(f"--output {output} is for --format {name}", f"give a name that ends in {ending}")


def _give_usual_mode(written: Path, folder: Path) -> None:
    """Give the files the usual permissions, because safetensors writes files that only the owner can read."""
    probe = folder / ".mode"
    probe.touch()
    for path in (written, *written.rglob("*")) if written.is_dir() else (written,):
        if path.is_file():
            path.chmod(probe.stat().st_mode)


def _publish(written: Path, output: Path) -> None:
    """Give a file or folder its name. What has appeared under this name meanwhile stays."""
    try:
        if not written.is_dir():
            name_new_file(written, output)
        else:
            if sys.platform != "win32":  # there a folder never takes the place of another
                output.mkdir()  # fails where anything has this name
            written.rename(output)  # takes the place of a folder only while that is empty
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        raise UsageError(f"--output {output} exists: another program has made it", "give another name") from error
