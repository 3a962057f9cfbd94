"""`vit export RUN|CKPT`: a trained model in a format of other programs"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from vit.checkpoints.model_path import check_model
from vit.commands.arguments import Model, StrPath
from vit.commands.command_line import Metavar
from vit.console import Reporter
from vit.inference.files import free_name, list_files
from vit.layout import OPENVINO_GRAPH

if TYPE_CHECKING:
    from vit.export.verify import Difference
    from vit.inference.deployed import Trained

NEXT = {
    "onnx": "vit predict {path} FOLDER_OF_IMAGES",
    "openvino": f"vit predict {{path}}/{OPENVINO_GRAPH} FOLDER_OF_IMAGES",
    "safetensors": "vit train DATA --init_from {path}",
    "timm": "vit train DATA --init_from {path}",
}


def export(
    model: Model,
    *,
    format: Literal["onnx", "openvino", "pt2", "safetensors", "timm", "hf"] = "onnx",
    output: StrPath | None = None,
    verify: Annotated[StrPath | None, Metavar("IMAGES")] = None,
) -> Path:
    """Write a trained model for onnxruntime, OpenVINO, torch.export, safetensors, timm or transformers.

    The export holds the preprocessing and the class names. It is loaded again and compared with the checkpoint. It is
    kept only if no label differs, and no probability differs by more than 1e-4.

    Args:
        model: a run folder or a checkpoint
        format: onnx, openvino, pt2: uint8 images to probabilities, preprocessing inside; safetensors: the weights;
            timm, hf: for timm.create_model and transformers' from_pretrained
        output: new file (openvino, hf: new folder); null: a free name here
        verify: files, a folder or a pattern to compare on; null: random images

    Returns:
        The file or folder.

    Raises:
        VitError: the model cannot be used, the format cannot hold it, or the export differs from it.

    Example:
        vit export runs/photos/vit_tiny_patch16_224/20260101-120000 --format onnx --verify photos/test
    """
    check_model(os.fspath(model))
    files = [] if verify is None else list_files([verify], recursive=True)

    from vit.checkpoints.load import load
    from vit.checkpoints.run import checkpoint_of
    from vit.export.exporting import FORMATS, check_output
    from vit.export.exporting import export as write
    from vit.inference.deployed import Trained
    from vit.weights.licence import licence_words, restricts

    FORMATS[format].check_installed(format)
    wanted = None if output is None else Path(output).expanduser()
    if wanted is not None:
        check_output(format, wanted)  # before the model is loaded
    trained = Trained(*load(checkpoint_of(Path(model))))
    path = wanted or free_name(Path(f"{trained.description.spec.name}{FORMATS[format].ending}"))
    difference = write(trained, format, path, files)
    reporter = Reporter()
    what = "classes" if trained.description.multilabel is None else "labels, of which an image may have several"
    reporter.line(f"{path}: {format}, {len(trained.description.class_names)} {what}")
    _show_difference(reporter, difference, files, verify)
    licence = trained.description.licence
    if licence is not None:
        (reporter.notice if restricts(licence) else reporter.line)(
            f"licence of the first weights: {licence_words(licence)}"
        )
    _show_how_to_load(reporter, trained, format, path)
    following = NEXT.get(format, f"vit evaluate {shlex.quote(os.fspath(model))}")
    reporter.next_command(following.format(path=shlex.quote(str(path))))
    return path


def _show_difference(
    reporter: Reporter, difference: "Difference", files: Sequence[str], verify: StrPath | None
) -> None:
    where = f"{difference.num_images:,} of {len(files):,} files of {verify}" if files else "random images"
    reporter.line(f"compared on {where}: no label differs, probabilities by {difference.largest:.1e} at most")
    peer = difference.peer
    if peer is not None:
        left_out = f", {peer.num_others:,} that Pillow decodes otherwise left out" if peer.num_others else ""
        reporter.line(
            f"{peer.library}'s own transform, from the bytes of {peer.num_images:,} files{left_out}: pixels differ by "
            f"{peer.gray:.2f} gray levels on average at most, probabilities by {peer.largest:.1e}, "
            f"labels of {peer.num_labels:,} files"
        )


def _show_how_to_load(reporter: Reporter, trained: "Trained", format: str, path: Path) -> None:
    from vit.export.exporting import FORMATS

    reporter.line()
    for line in FORMATS[format].how_to_load(trained, path).splitlines():
        reporter.line(line)
