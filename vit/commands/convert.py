"""`vit convert SOURCE --output x.ckpt`: weights of other libraries as a checkpoint of ours."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse.typing import PositiveInt

from vit.checkpoints.model_path import check_weights
from vit.commands.arguments import new_file, parse
from vit.commands.parser import Parser
from vit.console import Reporter
from vit.errors import CheckpointError, DataError

if TYPE_CHECKING:
    from vit.weights.pretrained import Pretrained

_MAX_CLASSES_FILE = 16 << 20


def convert(arguments: Sequence[str]) -> int:
    """Read weights from anywhere, say what became of each tensor, and write a checkpoint that predicts at once."""
    parser = Parser(
        "convert",
        "Turn pretrained ViT weights into a checkpoint, with preprocessing and class names. SOURCE is a file or folder "
        "(timm, torchvision, Hugging Face ViT, DeiT, DINOv2, CLIP, SigLIP, JAX .npz, DINO, MAE, OpenCLIP: found from "
        "the names in it), or timm:NAME, torchvision:NAME, hf:ORG/NAME.",
        "vit convert deit_tiny_patch16_224.safetensors --output deit_tiny.ckpt",
    )
    parser.add_argument("source", metavar="SOURCE", type=str, help="a file, a folder, timm:, torchvision: or hf:")
    parser.add_argument("--output", type=str, required=True, help="the checkpoint to write")
    parser.add_argument("--image_size", type=PositiveInt | None, default=None, help="pixels; null: as it was trained")
    parser.add_argument(
        "--patch_size", type=PositiveInt | None, default=None, help="pixels; null: as it was trained, else resampled"
    )
    parser.add_argument(
        "--num_heads", type=PositiveInt | None, default=None, help="null: what the source says, else 64 channels a head"
    )
    parser.add_argument(
        "--activation",
        type=Literal["gelu", "gelu_tanh", "quick_gelu"] | None,
        default=None,
        help="of the MLPs; null: what the source says (CLIP's and SigLIP's bare files do not)",
    )
    about = "a text file with a class name a line; null: the source's own, ImageNet's for 1,000 outputs"
    parser.add_argument("--classes", type=str | None, default=None, help=about)
    given = parse(parser, arguments)
    output = new_file(given.output)
    check_weights(given.source)

    from vit.weights.open import open_pretrained

    reporter = Reporter()
    pretrained = open_pretrained(given.source)
    if not pretrained.num_classes:
        raise CheckpointError(
            f"{given.source} has no classifier ({pretrained.format} names), so there is nothing to predict with",
            f"train one on your images: vit train DATA --init_from {shlex.quote(given.source)}",
        )
    class_names, whose = _classes(pretrained, given.classes)
    facts = _write(pretrained, output, class_names, given)
    reporter.line(f"Converted {given.source}")
    reporter.facts(
        [*pretrained.facts(), ("classes", f"{len(class_names):,}: {', '.join(class_names[:3])}, ... ({whose})"), *facts]
    )
    reporter.next_command(f"vit predict {shlex.quote(str(output))} FOLDER_OF_IMAGES --gallery")
    return 0


def _classes(pretrained: "Pretrained", file: str | None) -> tuple[tuple[str, ...], str]:
    """(class names, who gave them); numbers where nobody did."""
    if file is None:
        if pretrained.class_names is not None:
            return pretrained.class_names, "ImageNet's" if len(pretrained.class_names) == 1000 else "the source's"
        return tuple(
            f"class {number}" for number in range(pretrained.num_classes)
        ), "numbers, for nobody says their names"
    path = Path(file).expanduser()
    if not path.is_file() or path.stat().st_size > _MAX_CLASSES_FILE:
        raise DataError(f"there is no list of classes {path}", "give a text file with a name a line")
    names = tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())
    if len(names) != pretrained.num_classes or not all(names):
        raise DataError(f"{path} has {len(names)} names for {pretrained.num_classes} classes", "give a name a line")
    return names, path.name


def _write(pretrained: "Pretrained", output: Path, class_names: tuple[str, ...], given: Any) -> list[tuple[str, str]]:
    """Build the network, fill it, write it, and read it back; what became of the tensors."""
    from vit.checkpoints.format import Description, checkpoint_content
    from vit.checkpoints.io import write_checkpoint
    from vit.checkpoints.load import load
    from vit.checkpoints.result import versions

    told = {"num_heads": given.num_heads, "activation": given.activation, "patch_size": given.patch_size}
    options = {name: value for name, value in told.items() if value is not None}
    filled = pretrained.build(len(class_names), given.image_size and int(given.image_size), options)
    if filled.report.remade:
        raise CheckpointError(
            f"{pretrained.source}: its classifier does not fit: {filled.report.remade}", "give other weights"
        )
    description = Description(class_names, filled.spec, filled.preprocess, versions=versions())
    write_checkpoint(checkpoint_content(description, filled.network.state_dict()), output)
    load(output)
    parameters = sum(parameter.numel() for parameter in filled.network.parameters())
    network_words = f"{filled.spec.name}, {parameters:,} parameters, {filled.preprocess.image_size} pixels"
    return [("network", network_words), *filled.report.facts(), ("checkpoint", str(output))]
