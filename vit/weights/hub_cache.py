"""Weights of timm in the cache of the Hugging Face hub: found there, or fetched if the hub answers within seconds"""

import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from vit.errors import first_line
from vit.models.network_names import import_timm

FILE = "model.safetensors"
PATIENCE = 5.0  # seconds until the hub must have answered
_OFFLINE = "they are not in the cache, and HF_HUB_OFFLINE is set"


def cached_file(name: str) -> Path | None:
    """The cached file of a model of timm, such as "deit_tiny_patch16_224.fb_in1k"; None: the cache has none."""
    from huggingface_hub import try_to_load_from_cache

    repository = repository_of(name)
    found = try_to_load_from_cache(repository, FILE) if repository else None
    return Path(found) if isinstance(found, str) else None


def published(network: str) -> str:
    """The weights that timm takes for a network by default, as "timm:NAME"; empty: timm publishes none on the hub."""
    timm = import_timm()
    config = timm.get_pretrained_cfg(network)
    name = "" if config is None else ".".join(filter(None, (config.architecture, config.tag)))
    return f"timm:{name}" if name and repository_of(name) else ""


def fetch(name: str, notice: Callable[[str], None]) -> str:
    """Have the weights of a model of timm in the cache. Returns why that is not possible, or an empty text.

    A hub that does not answer costs `PATIENCE` seconds; huggingface_hub itself tries for about a minute.
    """
    if cached_file(name) is not None:
        return ""
    from huggingface_hub import constants, hf_hub_download

    if constants.HF_HUB_OFFLINE:
        return _OFFLINE
    repository = repository_of(name)
    size, obstacle = _asked(repository)
    host = urlsplit(constants.ENDPOINT).hostname
    if obstacle:
        return f"{host}: {obstacle}"
    notice(f"Fetching {repository} from {host}" + (f" ({size / 1e6:.0f} MB)" if size else ""))
    try:
        hf_hub_download(repository, FILE)
    except Exception as error:  # noqa: BLE001  networks and hubs fail in many ways
        return f"{host}: {first_line(error)}"
    return ""


def repository_of(name: str) -> str:
    """The repository of a model of timm on the hub; empty where it has none, or needs a loader of its own."""
    timm = import_timm()
    config = timm.get_pretrained_cfg(name)
    return str(config.hf_hub_id) if config is not None and config.hf_hub_id and not config.custom_load else ""


def _asked(repository: str) -> tuple[int | None, str]:
    """(bytes of the file, obstacle) as the hub says within seconds; an empty obstacle: the file is there."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    answers: list[tuple[int | None, str]] = []

    def ask() -> None:
        try:
            answers.append((get_hf_file_metadata(hf_hub_url(repository, FILE), timeout=PATIENCE).size, ""))
        except Exception as error:  # noqa: BLE001  networks and hubs fail in many ways
            answers.append((None, first_line(error)))

    thread = threading.Thread(target=ask, daemon=True)  # looking up a name ignores the timeout
    thread.start()
    thread.join(PATIENCE)
    return answers[0] if answers else (None, f"no answer within {PATIENCE:.0f} seconds")
