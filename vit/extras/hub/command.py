"""`vit push RUN|CKPT hf:OWNER/NAME`: a trained model with its card on the Hugging Face hub"""

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import Model, shell_command, warn_of_unfinished
from vit.commands.cli.command_line import Metavar
from vit.console import Reporter, count_of
from vit.errors import UsageError

if TYPE_CHECKING:
    from vit.inference.deployment import LoadedModel

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_HUB = "hf:"


def push(
    model: Model,
    target: Annotated[str, Metavar("hf:OWNER/NAME")],
    *,
    format: Literal["hf", "timm", "onnx", "openvino", "safetensors"] = "hf",
    public: bool = False,
    replace: bool = False,
    dry_run: bool = False,
    unfinished: bool = False,
) -> str:
    """Upload a trained model with its model card to the Hugging Face hub, in one commit.

    The files are those of vit export, compared with the checkpoint before anything is uploaded. A new repository is
    private. Files of an existing repository are not replaced, unless --replace asks for a new commit.

    Args:
        model: a run folder or a checkpoint
        target: hf:OWNER/NAME, where OWNER is a user or an organization of the hub
        format: as for vit export; hf: for transformers, and for vit convert hf:OWNER/NAME
        public: make a new repository visible to everyone
        replace: replace the files of a repository that holds others, by a new commit; earlier commits stay
        dry_run: show what would be uploaded, and upload nothing
        unfinished: whether a model whose training is not finished may be uploaded, as it is; its card says so

    Returns:
        The address of the model.

    Raises:
        VitError: the model cannot be used, the format cannot hold it, or the hub refuses it.

    Example:
        vit push runs/photos/vit_tiny_patch16_224/20260101-120000 hf:me/photos-vit --dry_run
    """
    name = target.removeprefix(_HUB)
    if not target.startswith(_HUB) or _NAME.fullmatch(name) is None or name.endswith((".git", "-", ".")):
        raise UsageError(
            f"{target!r} is not a model of the Hugging Face hub", "give hf:OWNER/NAME, such as hf:me/photos-vit"
        )
    check_model(os.fspath(model), unfinished)

    from huggingface_hub import constants

    from vit.extras.hub.upload import check_free, check_login, find_repository, upload

    title, address = name.partition("/")[2], f"{constants.ENDPOINT}/{name}"
    reporter = Reporter()
    user = "" if dry_run else check_login(name)  # before the export, which takes a while

    from vit.commands.exporting.model_card import show_license, trained_model

    trained = trained_model(Path(model), unfinished)
    warn_of_unfinished(trained.description.unfinished or "", reporter)
    with TemporaryDirectory() as parent:
        folder = Path(parent) / title
        _export(Path(model), trained, format, name, folder)
        _show_files(reporter, folder, name)
        reporter.line(f"the card names the data set, its classes and the test results: {_how_to_read(model, format)}")
        show_license(reporter, trained)
        if dry_run:
            reporter.line("nothing was uploaded (--dry_run)")
            options = {"format": format, "public": public, "replace": replace, "unfinished": unfinished}
            reporter.next_command(shell_command("vit", "push", model, target, options=options))
            return address
        repository = find_repository(name)
        if repository.holds(folder):
            reporter.line(f"{address} holds these files already; nothing to do")
        else:
            check_free(repository, replace)
            private = not public if repository.commit is None else repository.private
            reporter.notice(f"uploading as {user} to {address}, {'private' if private else 'visible to everyone'}")
            commit = upload(repository, folder, public)
            reporter.line(f"{address}: commit {commit[:12]}, files compared with those here")
    if format == "hf":
        reporter.next_command(f"vit convert {target} --output {title}.ckpt")
    return address


def _export(model: Path, trained: "LoadedModel", format: str, name: str, folder: Path) -> None:
    """Write the export and its card into a folder that does not exist yet."""
    from vit.commands.exporting.model_card import card_of, origin_of
    from vit.export.exporting import export, export_format
    from vit.weights.license import CARD

    chosen, title = export_format(format), name.partition("/")[2]
    file = folder if not chosen.ending else folder / f"model{chosen.ending}"
    export(trained, format, file)
    shown = Path(name) if format == "hf" else Path(file.name if chosen.ending else ".")
    code = f"{chosen.imports}\n{chosen.how_to_load(trained, shown)}"
    text = card_of(trained, chosen.library, title, code, origin_of(model))
    (folder / CARD).write_text(text, encoding="utf-8")


def _show_files(reporter: Reporter, folder: Path, name: str) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    total = sum(path.stat().st_size for path in files)
    reporter.line(f"hf:{name}: {count_of(len(files), 'file')}, {total / 1e6:.1f} MB")
    rows = [(path.relative_to(folder).as_posix(), f"{path.stat().st_size:,}") for path in files]
    reporter.table(("file", "bytes"), rows)


def _how_to_read(model: Model, format: str) -> str:
    """How to read the card here; in a folder it lies anyway, and beside a single file it has a name."""
    from vit.export.exporting import export_format
    from vit.weights.license import CARD

    is_file = bool(export_format(format).ending)
    command = shell_command("vit", "export", model, options={"format": format, "card": "card.md" if is_file else None})
    return f"read it with {command}" if is_file else f"read {CARD} in the folder of {command}"
