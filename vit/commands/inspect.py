"""`vit inspect RUN|CKPT|SOURCE [IMAGES...]`: what a ViT learned, how far it looks, and what it costs."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse.typing import PositiveInt

from vit.checkpoints.model_path import check_weights
from vit.commands.arguments import new_file, parse
from vit.commands.parser import Parser
from vit.console import Reporter
from vit.errors import ResourceError, UsageError
from vit.inference.files import free_name, list_files

if TYPE_CHECKING:
    from torch import Tensor

    from vit.data.preprocess import Preprocess
    from vit.explain.distance import AttentionSpread
    from vit.models.spec import NetworkSpec
    from vit.report.inspect_page import Inspection

FILTERS = 28  # principal components that are shown, as in the paper


def inspect(arguments: Sequence[str]) -> int:
    """Look into a ViT, and write a page with its figures."""
    parser = Parser(
        "inspect",
        "Look into a ViT: filters of its patch embedding, similarity of its positions, attention distance and entropy "
        "of every head, and where its parameters and FLOPs go.",
        "vit inspect runs/photos/vit_tiny_patch16_224/20260101-120000 'holiday/*.jpg'",
    )
    parser.add_argument(
        "model", metavar="RUN|CKPT|SOURCE", type=str, help="a run, a checkpoint, or weights as vit convert takes them"
    )
    parser.add_argument(
        "images",
        metavar="IMAGES",
        type=str,
        nargs="*",
        help="files, folders, patterns: attention depends on images; none: images of the run, if it is one",
    )
    parser.add_argument("--limit", type=PositiveInt, default=128, help="images at most, evenly taken of all")
    parser.add_argument("--recursive", action="store_true", help="read folders in folders")
    parser.add_argument(
        "--output", type=str | None, default=None, help="a new folder; null: inspection, or inspection-2, ..."
    )
    parser.add_argument("--device", type=str, default="auto", help="cpu, cuda, mps")
    given = parse(parser, arguments)
    wanted = None if given.output is None else new_file(given.output)
    check_weights(given.model)
    files = list_files(given.images, given.recursive) if given.images else []

    from vit.explain.cost import cost_by_part, cost_by_size, image_sizes_around
    from vit.explain.distance import attention_spread
    from vit.explain.embeddings import position_similarity, principal_filters
    from vit.inference.devices import choose_device
    from vit.models.vision_transformer import VisionTransformer
    from vit.report.inspect_page import Inspection, write_inspection
    from vit.weights.open import open_pretrained

    reporter = Reporter()
    device = choose_device(given.device)
    pretrained = open_pretrained(given.model)
    filled = pretrained.build(pretrained.num_classes or 1)  # weights without a classifier get an empty one
    network, spec, preprocess = filled.network.eval(), filled.spec, filled.preprocess
    if not isinstance(network, VisionTransformer):
        raise UsageError(
            f"{given.model} holds a {type(network).__name__}, and this looks into ViTs of ours",
            "see 'vit explain' for what a CNN looks at",
        )
    images = _images(given, files, preprocess)
    reporter.notice(f"{spec.name}, {0 if images is None else len(images)} images, {device.type}")
    network = network.to(device)
    found = Inspection(
        Path(given.model).name,
        _facts(spec, preprocess.image_size),
        *principal_filters(network, FILTERS),
        position_similarity(network),
        None if images is None else attention_spread(network, preprocess.normalize(images.to(device))),
        cost_by_part(network.config),
        cost_by_size(network.config, image_sizes_around(network.image_size, network.config.patch_size), device),
        f"measured in float32 on {device.type}",
    )
    folder = wanted or free_name(Path("inspection"))
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ResourceError(f"cannot make {folder}: {error.strerror}", "choose another --output") from error
    write_inspection(found, folder)
    _show(reporter, found)
    reporter.line(f"\nfigures in {folder}, page in {folder}/inspection.html")
    reporter.next_command(f"vit explain {shlex.quote(given.model)} IMAGES")
    return 0


_FACTS = ("patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "pool", "pos_embed")


def _facts(spec: "NetworkSpec", image_size: int) -> dict[str, str]:
    options = {name: str(spec.options[name]) for name in _FACTS if name in spec.options}
    return {"network": spec.name, "image_size": str(image_size), **options}


def _images(given: Any, files: Sequence[str], preprocess: "Preprocess") -> "Tensor | None":
    """Pictures (n, 3, S, S) uint8 of the files given, else of the run's own images; None where there are none."""
    import torch

    from vit.data.decode import ImageError, read_image
    from vit.errors import DataError

    if not files:
        return _sample(given.model, given.limit, preprocess)
    pictures = []
    for path in files[:: -(-len(files) // given.limit)]:
        try:
            pictures.append(preprocess(read_image(path)))
        except ImageError:
            continue  # a few bad files among many change no mean
    if not pictures:
        raise DataError(f"none of {len(files)} files is an image that can be read", "give images")
    return torch.stack(pictures)


def _sample(model: str, limit: int, preprocess: "Preprocess") -> "Tensor | None":
    """Some images of a run: of its validation part, which it was not trained on; None if the model lies in no run."""
    import torch

    from vit.checkpoints.run import RunDirectory
    from vit.commands.recipe_options import read_recipe
    from vit.data.dataset import array_image
    from vit.data.decode import ImageError, read_image
    from vit.errors import DataError
    from vit.training.run_images import images_of_run

    run = RunDirectory.around(Path(model))
    if run is None:
        return None
    found = images_of_run(run, read_recipe(run.config_path)).splits
    samples = found.get("validation", found["train"])
    pictures = []
    for place in range(0, len(samples), -(-len(samples) // limit)):
        try:
            image = array_image(samples, place) if samples.arrays is not None else read_image(samples.file(place))
        except ImageError:
            continue
        pictures.append(preprocess(image))
    if not pictures:
        raise DataError(f"none of the run's images in {samples.root} can be read", "give IMAGES")
    return torch.stack(pictures)


def _show(reporter: Reporter, found: "Inspection") -> None:
    total = [sum(part[place] for part in found.parts.values()) for place in range(2)]
    reporter.table(
        ("part", "parameters", "share (%)", "MFLOPs", "share (%)"),
        [
            (name, f"{own:,}", f"{100 * own / total[0]:.1f}", f"{work / 1e6:,.1f}", f"{100 * work / total[1]:.1f}")
            for name, (own, work) in found.parts.items()
        ],
    )
    if found.reach is None:
        reporter.notice("\nno images were given, so nothing is said of attention: vit inspect MODEL IMAGES...")
    else:
        _show_reach(reporter, found.reach)
    now = next(size for size in found.sizes if str(size.image_size) == found.facts["image_size"])
    share = "" if now.timed_share != now.timed_share else f", and took {100 * now.timed_share:.0f} % of a block's time"
    reporter.line(
        f"\n{100 * now.counted_share:.1f} % of the FLOPs are quadratic in the {now.num_patches:,} patches "
        f"({100 * now.formula_share:.1f} % of a block by N / ((2 + r) D + N)){share}"
    )


def _show_reach(reporter: Reporter, reach: "AttentionSpread") -> None:
    reporter.line(
        f"\nmean attention distance over {reach.num_images} images; all alike: {reach.uniform_distance:.1f} pixels"
    )
    reporter.table(
        ("block", "nearest head", "mean", "farthest head", "entropy (nats)"),
        [
            (
                block,
                *(f"{float(value):.1f}" for value in (row.min(), row.mean(), row.max())),
                f"{float(even.mean()):.2f}",
            )
            for block, (row, even) in enumerate(zip(reach.distance, reach.entropy, strict=True))
        ],
    )
