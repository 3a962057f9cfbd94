"""`vit inspect RUN|CKPT|SOURCE [IMAGES...]`: filters, positions, attention distance and cost of a ViT"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vit.checkpoints.model_path import check_weights
from vit.commands.cli.arguments import Paths, PositiveInt, StrPath, new_file, new_folder, path_list
from vit.commands.cli.command_line import Metavar
from vit.console import Reporter, count_of, percent
from vit.errors import DataError, UsageError
from vit.inference.files import ListedImages, list_files
from vit.layout import InspectionLayout, RunLayout

if TYPE_CHECKING:
    from torch import Tensor

    from vit.data.pixels.preprocess import Preprocess
    from vit.explain.inspection import Inspection


@dataclass(frozen=True)
class InspectionSummary:
    """Files and findings of `vit.inspect`."""

    folder: Path  # folder with the figures
    page: Path  # page with all figures
    inspection: "Inspection"  # filters, positions, attention distance and cost as values


def inspect(
    model: Annotated[StrPath, Metavar("RUN|CKPT|SOURCE")],
    images: Paths = (),
    *,
    limit: PositiveInt = 128,
    recursive: bool = False,
    output: StrPath | None = None,
    device: str = "auto",
) -> InspectionSummary:
    """Look into a ViT: filters, positions, attention distance, and the cost of its parts.

    The page shows filters of the patch embedding, similarity of the positions, attention distance and entropy of every
    head, and where parameters and FLOPs go.

    Args:
        model: a run, a checkpoint, or weights as vit convert takes them
        images: files, folders, patterns: attention depends on images; none: images of the run, if there is one
        limit: largest number of images, evenly taken of all
        recursive: also read the folders inside folders
        output: a new folder; null: inspection, or inspection-2, ...
        device: cpu, cuda or mps; auto: an accelerator if there is one

    Returns:
        The folder, and the measured values.

    Example:
        vit inspect runs/photos/vit_tiny_patch16_224/20260101-120000 'holiday/*.jpg'
    """
    model = os.fspath(model)
    wanted = None if output is None else new_file(output)
    check_weights(model)
    image_paths = path_list(images)
    listed = list_files(image_paths, recursive) if image_paths else ListedImages([])

    from vit.explain.inspection import inspect_network
    from vit.inference.devices import choose_device
    from vit.models.vision_transformer import VisionTransformer
    from vit.report.explain_page import write_inspection
    from vit.weights.hubs import UNKNOWN, license_text
    from vit.weights.open import open_pretrained

    on_device, reporter, path = choose_device(device), Reporter(), Path(model).expanduser()
    pretrained = open_pretrained(model)
    filled = pretrained.build(pretrained.num_classes or 1)  # of weights without a classifier, `spec` has no head
    network, spec = filled.network.eval(), replace(filled.spec, num_classes=pretrained.num_classes)
    if not isinstance(network, VisionTransformer):
        problem = f"{model} holds a {type(network).__name__}, and 'vit inspect' looks into ViTs of the catalog"
        raise UsageError(problem, "see 'vit explain' for what a CNN looks at")
    reporter.warn(pretrained.warning)
    pixels = _pixels(model, listed.paths, limit, filled.preprocess, reporter)
    license_name = None if pretrained.license == UNKNOWN else license_text(pretrained.license)
    reporter.notice(f"license: {license_name}" if license_name else "")
    reporter.notice(f"{spec.name}, {count_of(0 if pixels is None else len(pixels), 'image')}, {on_device.type}")
    reporter.notice(listed.remarks)
    title = spec.name if path.name == spec.name else f"{spec.name} ({path.name})"
    inspection = inspect_network(title, network.to(on_device), spec, filled.preprocess, pixels, license_name)
    folder = new_folder(wanted, Path("inspection"))
    write_inspection(inspection, folder)
    _show(reporter, inspection)
    page = InspectionLayout(folder).page_path
    reporter.line(f"\nfigures in {folder}, page in {page}")
    # only a checkpoint has classes whose maps `vit explain` draws; a training starts from any weights
    is_checkpoint = path.suffix == ".ckpt" if path.is_file() else RunLayout(path).best_path.is_file()
    word, more = shlex.quote(model), " --unfinished" * bool(pretrained.unfinished)
    reporter.next_command(f"vit explain {word} IMAGES{more}" if is_checkpoint else f"vit train DATA --init_from {word}")
    return InspectionSummary(folder, page, inspection)


def _pixels(
    model: str, files: Sequence[str], limit: int, preprocess: "Preprocess", reporter: Reporter
) -> "Tensor | None":
    """Readable files, else validation images of the run, evenly taken: (n, 3, S, S) uint8; None without a run."""
    import numpy as np
    import torch

    from vit.checkpoints.run import RunDirectory
    from vit.commands.cli.recipe_options import read_recipe
    from vit.data.core.samples import Samples
    from vit.data.pixels.decode import ImageError
    from vit.data.pixels.images import image_of
    from vit.training.running.run_images import images_of_run

    if files:
        samples = Samples(files, np.zeros(len(files), dtype=np.int64), root=Path())
    else:
        run = RunDirectory.around(Path(model))
        if run is None or run.is_pretraining:
            return None
        splits = images_of_run(run, read_recipe(run.config_path)).splits
        samples = splits.get("validation", splits["train"])
    taken = range(0, len(samples), -(-len(samples) // limit))
    images, reasons = [], []
    for index in taken:
        try:
            images.append(preprocess(image_of(samples, index, preprocess.decoding)))
        except ImageError as error:
            reasons.append(f"{samples.paths[index]}: {error.reason}")
    if not images:
        raise DataError(f"no image can be read in {count_of(len(taken), 'file')}: {reasons[0]}", "give other IMAGES")
    if reasons:
        reporter.warn(f"{len(reasons):,} of {len(taken):,} files could not be read, first {reasons[0]}")
    return torch.stack(images)


def _show(reporter: Reporter, inspection: "Inspection") -> None:
    if (reach := inspection.reach) is None:
        reporter.notice("\nwithout images, attention is not measured: vit inspect MODEL IMAGES...")
    else:
        means = ", ".join(f"{float(row.mean()):.1f}" for row in reach.distance)
        reporter.line(f"\nmean attention distance over {count_of(reach.num_images, 'image')}, by block: {means} pixels")
        reporter.line(f"{reach.uniform_distance:.1f} pixels if every patch attended to all patches alike")
    now = next(size for size in inspection.sizes if str(size.image_size) == inspection.facts["image_size"])
    share = "" if now.timed_share != now.timed_share else f", and took {percent(now.timed_share, 0)} of a block's time"
    quadratic = f"{percent(now.counted_share, 1)} of the FLOPs are quadratic in the {now.num_patches:,} patches"
    reporter.line(f"\n{quadratic} ({percent(now.formula_share, 1)} of a block by N / ((2 + r) D + N)){share}")
