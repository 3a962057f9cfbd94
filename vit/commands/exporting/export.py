"""`vit export RUN|CKPT`: a trained model in a format of other programs"""

import os
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from vit import registry
from vit.atomic_files import free_name
from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import Model, StrPath, new_file, path_text, warn_of_unfinished
from vit.commands.cli.command_line import Metavar
from vit.commands.exporting.model_card import show_license, trained_model, write_card
from vit.console import Reporter, count_of
from vit.data.core.dataset_names import check_data
from vit.errors import UsageError
from vit.inference.files import list_files
from vit.layout import RunLayout
from vit.weights.hubs import CARD

if TYPE_CHECKING:
    from vit.export.format import Quantized
    from vit.export.verify import ExportDifference

Precision = Literal["32-true", "int8"]


def export(
    model: Model,
    *,
    format: Literal["onnx", "openvino", "pt2", "safetensors", "timm", "hf"] = "onnx",
    precision: Precision = "32-true",
    output: StrPath | None = None,
    verify: Annotated[StrPath | None, Metavar("IMAGES")] = None,
    calibration: Annotated[StrPath | None, Metavar("IMAGES")] = None,
    measure: Annotated[StrPath | None, Metavar("DATA")] = None,
    card: Annotated[StrPath | None, Metavar("FILE")] = None,
    latency: bool = False,
    unfinished: bool = False,
) -> Path:
    """Write a trained model for onnxruntime, OpenVINO, torch.export, safetensors, timm or transformers.

    The export holds the preprocessing and the class names. It is loaded again and compared with the checkpoint. It is
    kept only if no label differs, and no probability differs by more than 1e-4. An int8 file is measured on labeled
    images instead, beside the checkpoint. It is kept only if it loses at most 5 points of the accuracy, and of the
    micro F1 of several labels.

    Args:
        model: a run folder or a checkpoint
        format: onnx, openvino, pt2: uint8 images to probabilities, normalization inside; safetensors: the weights;
            timm, hf: for timm.create_model and transformers' from_pretrained
        precision: 32-true: float32; int8: weights and activations of 8 bits, for onnx and openvino
        output: new file (openvino, hf: new folder); null: a free name here
        verify: files, a folder or a pattern to compare on; null: random images
        calibration: files, a folder or a pattern of images like those of the training, on which int8 is calibrated;
            null: training images of the run
        measure: DATA with labels on which int8 is measured; null: calibration images of the run, or else
            validation images
        card: new file for the model card, in the format of the Hugging Face hub; openvino and hf have theirs in the
            folder, as README.md; null: none beside a single file
        latency: also measure a prediction with each engine that is installed: median and 99th percentile, for 1 and 32
            images, with one thread and with all; up to 20 seconds each
        unfinished: whether a model whose training is not finished may be exported, as it is; the export says so

    Returns:
        The file or folder.

    Example:
        vit export runs/photos/vit_tiny_patch16_224/20260101-120000 --format onnx --verify photos/test
    """
    check_model(os.fspath(model), unfinished)
    is_int8 = precision == "int8"
    if is_int8 and verify is not None:
        fix = "give --measure DATA, with labels, or neither"
        raise UsageError("--verify compares probabilities to 1e-4, which int8 cannot keep", fix)
    for option, value in (("--calibration", calibration), ("--measure", measure)):
        if not is_int8 and value is not None:
            raise UsageError(f"{option} is for --precision int8", f"add it, or leave {option} out")
    if measure is not None:
        check_data(os.fspath(measure))
    files = [] if verify is None else list_files([verify], recursive=True).paths

    from vit.checkpoints.run import slug
    from vit.export.exporting import check_output, export_format
    from vit.export.exporting import export as write
    from vit.export.latency import show_latencies_of, show_size_and_speed

    export_kind = export_format(format)
    if is_int8:
        registry.INT8_FORMAT.load()(format)  # its errors come first
    export_kind.check_installed(format)
    wanted = None if output is None else Path(output).expanduser()
    if wanted is not None:
        check_output(format, wanted)  # before the model is loaded
    if card is not None and not export_kind.ending:
        raise UsageError(f"--card, but --format {format} has its card in the folder, as {CARD}", "leave --card out")
    card_file = None if card is None else new_file(card, "--card")
    trained, reporter = trained_model(Path(model), unfinished), Reporter()
    description = trained.description
    warn_of_unfinished(description.unfinished or "", reporter)
    path = wanted or free_name(Path(f"{slug(description.spec.name)}{'-int8' * is_int8}{export_kind.ending}"))
    kind = f"{format}, int8" if is_int8 else format
    summary = f"{path}: {kind}, {len(description.class_names):,} {description.task.kinds_text}"
    exported, cost = trained, None
    if is_int8:
        images = path_text(calibration), path_text(measure)
        int8: Quantized = registry.INT8.load()(trained, format, path, Path(model), *images, reporter)
        exported, cost, classify = replace(trained, description=int8.description), int8.cost, int8.classify
        reporter.line(summary)
        reporter.facts(int8.facts)
    else:
        difference = write(trained, format, path, files)
        classify = export_kind.read(trained, path)
        reporter.line(summary)
        where = f"{difference.num_images:,} of {count_of(len(files), 'file')} of {verify}" if files else "random images"
        _show_difference(reporter, difference, where)
    show_license(reporter, trained)
    if (written := write_card(Path(model), exported, format, path, card_file, cost)) is not None:
        reporter.line(f"model card: {written}")
    show_size_and_speed(reporter, trained, kind, path, classify)
    if latency:
        engines = {f"{format} {precision}": partial(export_kind.read, exported, path)}
        show_latencies_of(reporter, trained, "cpu", "32-true", engines)
    for line in ("", *export_kind.how_to_load(exported, path).splitlines()):
        reporter.line(line)
    if export_kind.next_command:
        following = export_kind.next_command.format(path=shlex.quote(str(path)))
    else:
        data = " DATA" if RunLayout.around(Path(model)) is None else ""  # a run knows its own
        following = f"vit evaluate {shlex.quote(os.fspath(model))}{data}"
    is_refused = description.unfinished is not None and not following.startswith("vit train")
    reporter.next_command(following + " --unfinished" * is_refused)
    return path


def _show_difference(reporter: Reporter, difference: "ExportDifference", where: str) -> None:
    """Show how far probabilities differ from the checkpoint's, and pixels where the library prepares them itself."""
    reporter.line(f"compared on {where}: no label differs, probabilities by {difference.largest:.1e} at most")
    if (peer := difference.peer) is None:
        return
    if not peer.num_images:
        reporter.line(f"{peer.library}'s own transform was not compared: Pillow decodes all files otherwise")
        return
    left_out = f", {peer.num_others:,} that Pillow decodes otherwise left out" if peer.num_others else ""
    pixels = f"pixels differ by {peer.gray:.2f} gray levels on average at most"
    labels = f"probabilities by {peer.largest:.1e}, labels of {count_of(peer.num_labels, 'file')}"
    of_files = f"from the bytes of {count_of(peer.num_images, 'file')}{left_out}"
    reporter.line(f"{peer.library}'s own transform, {of_files}: {pixels}, {labels}")
    if peer.num_shifted:
        shifted = f"the middle square of {peer.num_shifted:,} of them lies one pixel higher or farther left than here"
        reporter.line(f"{peer.library} rounds half a pixel down: {shifted}, which changes their probabilities a little")
