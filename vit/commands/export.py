"""`vit export RUN|CKPT`: a trained model for programs that know nothing of this one."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from vit.checkpoints.model_path import check_model
from vit.commands.arguments import Parser, parse
from vit.console import Reporter
from vit.inference.files import free_name, list_files

NEXT = {
    "onnx": "vit predict {path} FOLDER_OF_IMAGES",
    "safetensors": "vit train DATA --init_from {path}",
    "timm": "vit train DATA --init_from {path}",
}


def export(arguments: Sequence[str]) -> int:
    """Write one format, say how far it is from the checkpoint, and how it is loaded."""
    parser = Parser(
        "export",
        "Write a trained model as ONNX, a torch.export program, safetensors, or for timm or transformers, with its "
        "preprocessing and class names. What was written is loaded again and compared with the checkpoint; it is kept "
        "only if no probability differs by more than 1e-4, and no label.",
        "vit export runs/photos/vit_tiny_patch16_224/20260101-120000 --format onnx --verify photos/test",
    )
    parser.add_argument("model", metavar="RUN|CKPT", type=str, help="a run folder or a checkpoint")
    parser.add_argument(
        "--format",
        type=Literal["onnx", "pt2", "safetensors", "timm", "hf"],
        default="onnx",
        help="onnx, pt2: uint8 images to probabilities, preprocessing inside; safetensors: the weights; timm, hf: for "
        "timm.create_model and transformers' from_pretrained",
    )
    parser.add_argument("--output", type=str | None, default=None, help="file (hf: folder); null: a free name here")
    about = "files, a folder or a pattern to compare on; null: random images"
    parser.add_argument("--verify", metavar="IMAGES", type=str | None, default=None, help=about)
    given = parse(parser, arguments)
    check_model(given.model)
    files = list_files([given.verify], recursive=True) if given.verify else []

    from vit.checkpoints.load import load
    from vit.checkpoints.run import checkpoint_of
    from vit.export.deployed import Trained
    from vit.export.exporting import FORMATS, check_output
    from vit.export.exporting import export as write

    chosen = FORMATS[given.format]
    chosen.check_installed(given.format)
    output = Path(given.output).expanduser() if given.output else None
    if output is not None:
        check_output(given.format, output)
    trained = Trained(*load(checkpoint_of(Path(given.model))))
    if output is None:
        output = free_name(Path(f"{trained.description.spec.name}{chosen.ending}"))
    reporter = Reporter()
    found = write(trained, given.format, output, files)
    where = "random images" if not files else f"{found.images:,} of {len(files):,} files of {given.verify}"
    reporter.line(f"{output}: {given.format}, {len(trained.description.class_names)} classes")
    reporter.line(f"compared on {where}: no label differs, probabilities by {found.largest:.1e} at most")
    if found.peer is not None:
        seen = found.peer
        left = f", {seen.others:,} that Pillow decodes otherwise left out" if seen.others else ""
        reporter.line(
            f"{seen.library}'s own transform, from the bytes of {seen.images:,} files{left}: pixels differ by "
            f"{seen.gray:.2f} gray levels on average at most, probabilities by {seen.largest:.1e}, "
            f"labels of {seen.labels:,} files"
        )
    reporter.line()
    for line in chosen.how_to_load(trained, output).splitlines():
        reporter.line(line)
    following = NEXT.get(given.format, f"vit evaluate {shlex.quote(given.model)}")
    reporter.next_command(following.format(path=shlex.quote(str(output))))
    return 0
