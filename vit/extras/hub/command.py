"""`vit push RUN|CKPT hf:OWNER/NAME`: a trained model with its card on the Hugging Face hub

One commit holds all files or does not exist, and nothing on the hub is replaced without being asked for. A second
attempt after a cut connection finds what the first one left: a repository without files, or the finished commit.
"""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import Model, shell_command, warn_of_unfinished
from vit.commands.cli.command_line import Metavar
from vit.console import Reporter, count_of
from vit.errors import ResourceError, UsageError, first_line, some_of

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_HUB = "hf:"
_OF_THE_HUB = ".gitattributes"  # which the hub itself puts into a new repository


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
        problem = f"{target!r} is not a model of the Hugging Face hub"
        raise UsageError(problem, "give hf:OWNER/NAME, such as hf:me/photos-vit")
    check_model(os.fspath(model), unfinished)

    from huggingface_hub import constants

    title, address = name.partition("/")[2], f"{constants.ENDPOINT}/{name}"
    reporter = Reporter()
    user = "" if dry_run else _check_login(name)  # before the export, which takes a while

    from vit.commands.exporting.model_card import card_of, origin_of, show_license, trained_model
    from vit.export.exporting import export, export_format
    from vit.weights.hubs import CARD

    trained = trained_model(Path(model), unfinished)
    warn_of_unfinished(trained.description.unfinished or "", reporter)
    with TemporaryDirectory() as parent:
        folder, kind = Path(parent) / title, export_format(format)
        file = folder if not kind.ending else folder / f"model{kind.ending}"
        export(trained, format, file)
        shown = Path(name) if format == "hf" else Path(file.name if kind.ending else ".")
        code = f"{kind.imports}\n{kind.how_to_load(trained, shown)}"
        card = card_of(trained, kind.library, title, code, origin_of(Path(model)))
        (folder / CARD).write_text(card, encoding="utf-8")
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
        reporter.line(f"hf:{name}: {count_of(len(sizes), 'file')}, {sum(sizes.values()) / 1e6:.1f} MB")
        reporter.table(("file", "bytes"), [(path, f"{size:,}") for path, size in sizes.items()])
        # in a folder a card lies anyway, and beside a single file it has a name
        options = {"format": format, "card": "card.md" if kind.ending else None, "unfinished": unfinished}
        how = shell_command("vit", "export", model, options=options)
        how = f"read it with {how}" if kind.ending else f"read {CARD} in the folder of {how}"
        reporter.line(f"the card names the data set, its classes and the test results: {how}")
        show_license(reporter, trained)
        if dry_run:
            reporter.line("nothing was uploaded (--dry_run)")
            again = {"format": format, "public": public, "replace": replace, "unfinished": unfinished}
            reporter.next_command(shell_command("vit", "push", model, target, options=again))
            return address
        _upload(name, folder, public, replace, user, reporter)
    if format == "hf":
        reporter.next_command(f"vit convert {target} --output {title}.ckpt")
    return address


def _check_login(name: str) -> str:
    """Name of the user whose token is used. UsageError where there is none, or the hub does not take it."""
    from huggingface_hub import HfApi, constants, get_token

    if constants.HF_HUB_OFFLINE:
        raise UsageError("HF_HUB_OFFLINE is set, so nothing can be uploaded", "unset it: env -u HF_HUB_OFFLINE vit ...")
    if get_token() is None:
        problem = f"hf:{name} needs a token of the Hugging Face hub, and there is none"
        raise UsageError(problem, "run 'hf auth login', or set HF_TOKEN to a token that may write")
    with _failures(name):
        return str(HfApi().whoami()["name"])


def _upload(name: str, folder: Path, public: bool, replace: bool, user: str, reporter: Reporter) -> None:
    """Upload a folder in one commit, unless the repository holds its files already. UsageError: it holds others."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import RepositoryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    api, address = HfApi(), f"{constants.ENDPOINT}/{name}"

    def is_there() -> bool:
        """Whether the repository has exactly the files of the folder, with the same hashes."""
        compared = api.verify_repo_checksums(name, local_dir=folder)
        return not compared.mismatches and not compared.extra_paths and set(compared.missing_paths) <= {_OF_THE_HUB}

    with _failures(name):
        try:
            before = api.model_info(name)
        except RepositoryNotFoundError:
            before = None
        siblings = [] if before is None else before.siblings or []
        files = [one.rfilename for one in siblings if one.rfilename != _OF_THE_HUB]
        is_done = bool(files) and is_there()
    if is_done:
        reporter.line(f"{address} holds these files already; nothing to do")
        return
    if files and not replace:
        problem = f"hf:{name} exists and holds other content: {some_of(files)}"
        raise UsageError(problem, "give another name, or --replace for a new commit in place of these files")
    is_private = not public if before is None else before.private
    reporter.notice(f"uploading as {user} to {address}, {'private' if is_private else 'visible to everyone'}")
    if not sys.stderr.isatty():
        disable_progress_bars()
    with _failures(name), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what huggingface_hub asks of httpx
        if before is None:
            api.create_repo(name, private=not public, repo_type="model")
        commit = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message="Upload by vit push",
            delete_patterns="*" if files else None,
            parent_commit=(before.sha or None) if before else None,
        )
        is_done = is_there()
    if not is_done:
        raise ResourceError(f"hf:{name} does not hold what was uploaded", "look at it on the hub, and push again")
    reporter.line(f"{address}: commit {commit.oid[:12]}, files compared with those here")


@contextmanager
def _failures(name: str) -> Iterator[None]:
    """While entered: every failure of the hub is one line that names the next step."""
    from huggingface_hub import errors

    try:
        yield
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", 0)
        if status == 401:
            problem, fix = "the Hugging Face hub does not take the token (401)", "run 'hf auth login', or set HF_TOKEN"
            raise UsageError(problem, fix) from error
        if status == 403:
            problem = f"the token may not write to {name.partition('/')[0]} on the Hugging Face hub (403)"
            raise UsageError(problem, "give another OWNER, or a token with the right to write there") from error
        if status in (409, 412):
            raise ResourceError(f"hf:{name} was changed by another upload ({status})", "push again") from error
        problem = f"the Hugging Face hub refuses hf:{name} ({status}): {first_line(error)}"
        raise ResourceError(problem, "push again later") from error
    except Exception as error:  # of httpx, sockets and the libraries of uploads: each has classes of its own
        # huggingface_hub names the file in one error, and the reason in its cause
        cause = f" ({first_line(error.__cause__)})" if isinstance(error.__cause__, Exception) else ""
        problem = f"hf:{name}: the connection to the hub failed: {type(error).__name__}: {first_line(error)}{cause}"
        raise ResourceError(problem, "push again: a commit holds all files or does not exist") from error
