"""A folder as a model of the Hugging Face hub: one commit, which holds all files or does not exist

Nothing on the hub is replaced without being asked for. A second attempt after a cut connection finds what the first one
left: a repository without files, or the finished commit.
"""

import hashlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vit.errors import ResourceError, UsageError, first_line, some_of

_OF_THE_HUB = ".gitattributes"  # which the hub itself puts into a new repository


@dataclass(frozen=True)
class Repository:
    """A repository of the hub, as it is before an upload."""

    name: str  # OWNER/NAME
    commit: str | None = None  # newest commit; None: there is no such repository
    private: bool = True  # whether only its owner sees it
    # {path of a file: its hash, as the hub gives it}, without the hub's own file
    hashes: Mapping[str, str] = field(default_factory=dict)

    def holds(self, folder: Path) -> bool:
        """Whether the repository has exactly the files of a folder, with the same content."""
        local = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        return self.hashes.keys() == local.keys() and all(
            self.hashes[name] in _digests(path) for name, path in local.items()
        )


def check_login(name: str) -> str:
    """Name of the user whose token is used.

    Raises:
        UsageError: there is no token, the hub does not take it, or HF_HUB_OFFLINE is set.
        ResourceError: the hub does not answer.
    """
    from huggingface_hub import HfApi, constants, get_token

    if constants.HF_HUB_OFFLINE:
        raise UsageError("HF_HUB_OFFLINE is set, so nothing can be uploaded", "unset it: env -u HF_HUB_OFFLINE vit ...")
    if get_token() is None:
        raise UsageError(
            f"hf:{name} needs a token of the Hugging Face hub, and there is none",
            "run 'hf auth login', or set HF_TOKEN to a token that may write",
        )
    with _failures(name):
        return str(HfApi().whoami()["name"])


def find_repository(name: str) -> Repository:
    """The repository with a name, as it is now."""
    from huggingface_hub import HfApi, RepoFile
    from huggingface_hub.errors import RepositoryNotFoundError

    api = HfApi()
    with _failures(name):
        try:
            about = api.model_info(name)
        except RepositoryNotFoundError:
            return Repository(name)
        files = [item for item in api.list_repo_tree(name, recursive=True) if isinstance(item, RepoFile)]
    hashes = {item.path: item.lfs.sha256 if item.lfs else item.blob_id for item in files if item.path != _OF_THE_HUB}
    return Repository(name, str(about.sha or ""), bool(about.private), hashes)


def check_free(repository: Repository, replace: bool) -> None:
    """Raise UsageError where a repository holds other files, and no new version was asked for."""
    if repository.hashes and not replace:
        raise UsageError(
            f"hf:{repository.name} exists and holds other content: {some_of(repository.hashes)}",
            "give another name, or --replace for a new commit in place of these files",
        )


def upload(repository: Repository, folder: Path, public: bool) -> str:
    """Upload a folder in one commit, and compare what the hub then holds. Returns the commit.

    Raises:
        UsageError: the hub refuses the token or the repository.
        ResourceError: the connection was cut, the repository changed meanwhile, or holds something else afterwards.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils.tqdm import disable_progress_bars

    api, name = HfApi(), repository.name
    if not sys.stderr.isatty():
        disable_progress_bars()
    with _failures(name):
        if repository.commit is None:
            api.create_repo(name, private=not public, repo_type="model")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of what huggingface_hub asks of httpx
            commit = api.upload_folder(
                repo_id=name,
                folder_path=folder,
                commit_message="Upload by vit push",
                delete_patterns="*" if repository.hashes else None,
                parent_commit=repository.commit or None,
            )
    after = find_repository(name)
    if not after.holds(folder):
        raise ResourceError(f"hf:{name} does not hold what was uploaded", "look at it on the hub, and push again")
    return str(commit.oid)


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
    except (UsageError, ResourceError):
        raise
    except Exception as error:  # of httpx, sockets and the libraries of uploads: each has classes of its own
        raise ResourceError(
            f"hf:{name}: the connection to the hub failed: {_describe(error)}",
            "push again: a commit holds all files or does not exist",
        ) from error


def _describe(error: Exception) -> str:
    """An error and its cause: huggingface_hub names the file in one, and the reason in the other."""
    cause = error.__cause__
    words = f"{type(error).__name__}: {first_line(error)}"
    return f"{words} ({first_line(cause)})" if isinstance(cause, Exception) else words


def _digests(path: Path) -> tuple[str, str]:
    """Both hashes by which the hub knows a file: of git, and sha256 for large files."""
    content = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return blob.hexdigest(), hashlib.sha256(content).hexdigest()
