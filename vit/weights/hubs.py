"""Pretrained weights by name, fetched by timm or the Hugging Face hub, or found in its cache, and their license

A license is known as far as timm's configuration or a model card states it. Imports neither torch nor timm before a
function needs them.
"""

import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from vit.errors import ResourceError, UsageError, first_line, nearest
from vit.models.network_names import import_timm
from vit.plain_files import parse_yaml

if TYPE_CHECKING:
    from torch import Tensor

    from vit.weights.formats.weight_format import TimmModel

CARD = "README.md"
PATIENCE = 5.0  # seconds until the hub must have answered
_FILE = "model.safetensors"
_HF_FILES = ("*.json", CARD, "model*.safetensors", "open_clip_model.safetensors")
_HF_FILES_PICKLED = ("*.json", CARD, "pytorch_model.bin", "open_clip_pytorch_model.bin")
PERMISSIVE = ("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc-by-4.0", "cc0-1.0", "unlicense")
UNKNOWN = "not stated"
_MAX_CARD = 1 << 20
_HEADER = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[\w.+-]{1,80}")  # the hub's identifiers of licenses
_NOT_COMMERCIAL = re.compile(r"(^|[-_])(nc|non-?commercial)($|[-_])", re.IGNORECASE)

T = TypeVar("T")


def from_timm(name: str) -> "dict[str, Tensor]":
    """Weights of timm. UsageError: timm has none of that name; ResourceError: they cannot be fetched."""
    from huggingface_hub.errors import EntryNotFoundError

    timm = import_timm()
    if not timm.is_model(name):
        raise UsageError(f"timm has no model {name!r}", nearest(name, timm.list_models()))
    if not timm.models.is_model_pretrained(name):
        raise UsageError(f"timm has no weights for {name!r}", nearest(name, timm.list_models(pretrained=True)))
    file = _cached(repository_of(name))  # the hub is not asked for a file that is there
    overlay = None if file is None else {"file": file}
    repository = timm.get_pretrained_cfg(name).hf_hub_id

    def fetch_now() -> "dict[str, Tensor]":
        if repository and _cached(repository) is None:  # timm by itself tries for a minute
            with suppress(EntryNotFoundError):  # timm asks for other files, too
                _asked(repository)
        return dict(timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay).state_dict())

    return fetched(f"timm:{name}", fetch_now)


def from_hugging_face(name: str) -> Path:
    """The folder of ORG/NAME[@REVISION] of the Hugging Face hub, fetched or cached: configs and weights, no code."""
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    folder = Path()
    for files in (_HF_FILES, _HF_FILES_PICKLED):
        download = partial(snapshot_download, repository, revision=revision or None, allow_patterns=list(files))
        folder = Path(fetched(f"hf:{name}", download))
        if any(folder.glob("*.safetensors")):
            break
    return folder


def fetched(source: str, fetch_now: Callable[[], T]) -> T:
    """The result of `fetch_now`. ResourceError stands for the many errors of networks and hubs."""
    try:
        return fetch_now()
    except Exception as error:
        fix = "check the name and the network connection, or download the weights and give the file"
        raise not_fetched(error, source, "model", fix) from error


def repository_of(name: str) -> str:
    """The repository of a model of timm on the hub; empty where it has none, or needs a loader of its own."""
    config = import_timm().get_pretrained_cfg(name)
    return str(config.hf_hub_id) if config is not None and config.hf_hub_id and not config.custom_load else ""


def published(network: str) -> str:
    """The weights that timm takes for a network by default, as "timm:NAME"; empty: timm publishes none on the hub."""
    config = import_timm().get_pretrained_cfg(network)
    name = "" if config is None else ".".join(filter(None, (config.architecture, config.tag)))
    return f"timm:{name}" if name and repository_of(name) else ""


def fetch(name: str, notice: Callable[[str], None]) -> str:
    """Have the weights of a model of timm in the cache. Returns why that is not possible, or an empty text.

    A hub that does not answer costs `PATIENCE` seconds; huggingface_hub itself tries for about a minute.
    """
    repository = repository_of(name)
    if _cached(repository) is not None:
        return ""
    from huggingface_hub import constants, hf_hub_download

    if constants.HF_HUB_OFFLINE:
        return "they are not in the cache, and HF_HUB_OFFLINE is set"
    host = urlsplit(constants.ENDPOINT).hostname
    try:
        size = _asked(repository)
        notice(f"Fetching {repository} from {host}" + (f" ({size / 1e6:.0f} MB)" if size else ""))
        hf_hub_download(repository, _FILE)
    except Exception as error:  # noqa: BLE001  networks and hubs fail in many ways
        return f"{host}: {first_line(error)}"
    return ""


def _cached(repository: str) -> str | None:
    """The file of weights in the cache; None: the cache has none."""
    from huggingface_hub import try_to_load_from_cache

    file = try_to_load_from_cache(repository, _FILE) if repository else None
    return file if isinstance(file, str) else None


def _asked(repository: str) -> int | None:
    """The bytes of the file of weights, as the hub says within seconds; any error: it does not say."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    answer = Future[int | None]()

    def ask() -> None:
        try:
            answer.set_result(get_hf_file_metadata(hf_hub_url(repository, _FILE), timeout=PATIENCE).size)
        except Exception as error:  # noqa: BLE001  networks and hubs fail in many ways
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()  # looking up a name ignores the timeout
    if not wait([answer], PATIENCE).done:
        raise TimeoutError(f"no answer within {PATIENCE:.0f} seconds")
    return answer.result()


def not_fetched(error: Exception, source: str, thing: str, fix: str) -> ResourceError:
    """Why the Hugging Face hub, or another server, does not give a thing: a model or a data set."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        fix = f"accept the terms on the {thing}'s page, then run 'hf auth login' or set HF_TOKEN"
    return ResourceError(f"{source} cannot be fetched: {_why_not(error, thing)}", fix)


def _why_not(error: Exception, thing: str) -> str:
    from huggingface_hub import constants, errors

    if isinstance(error, errors.GatedRepoError):
        return "it is gated, and the hub does not know that you accepted its terms"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no such {thing}, or it is private"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"the {thing} has no such revision"
    if isinstance(error, errors.OfflineModeIsEnabled | errors.LocalEntryNotFoundError):
        offline = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub does not answer"
        return f"{offline}, and the cache does not have it"
    if isinstance(error, errors.EntryNotFoundError):
        return f"the {thing} has no such file: {first_line(error)}"
    return f"{type(error).__name__}: {first_line(error)}"


def is_final(error: Exception) -> bool:
    """Whether the hub has answered, so that another attempt would end the same."""
    from huggingface_hub import errors

    answers = errors.GatedRepoError | errors.RepositoryNotFoundError | errors.EntryNotFoundError
    no_answer = errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled  # the first is an EntryNotFoundError, too
    return isinstance(error, answers | errors.RevisionNotFoundError) and not isinstance(error, no_answer)


def license_of(model: "TimmModel | None") -> str:
    """The license of a model's weights; "not stated" where timm does not know them."""
    return _stated(None if model is None else model.config.get("license"))


def license_of_card(folder: Path) -> str:
    """The license in the YAML header of a folder's card: a word, a list, or "other" beside `license_name`."""
    card = folder / CARD
    try:
        if not card.is_file() or card.stat().st_size > _MAX_CARD:
            return UNKNOWN
        header = _HEADER.match(card.read_text(encoding="utf-8"))
        plain: Any = parse_yaml(header[1]) if header else None
    except Exception:  # noqa: BLE001  an untrusted card never keeps weights from loading
        return UNKNOWN
    if not isinstance(plain, Mapping):
        return UNKNOWN
    value = plain.get("license")
    words = value if isinstance(value, list) else [value]
    named = [plain.get("license_name") if word == "other" and plain.get("license_name") else word for word in words]
    stated = [word for word in map(_stated, named) if word != UNKNOWN]
    return ", ".join(dict.fromkeys(stated)) or UNKNOWN


def _stated(word: object) -> str:
    """A license as a word; "not stated" for anything else."""
    is_word = isinstance(word, str) and _WORD.fullmatch(word) is not None and word != "unknown"
    return str(word) if is_word else UNKNOWN


def restricts(license: str) -> bool:
    """Whether a license is stated that is not one of the usual permissive licenses."""
    return license != UNKNOWN and any(word not in PERMISSIVE for word in license.split(", "))


def license_text(license: str) -> str:
    """A license with a warning where it is not one of the usual permissive licenses."""
    if not restricts(license):
        return license
    if any(_NOT_COMMERCIAL.search(word) for word in license.split(", ")):
        return f"{license}: its name excludes commercial use, so read it before you publish or sell a model"
    return f"{license}: it may restrict some uses, so read it before you publish or sell a model"
