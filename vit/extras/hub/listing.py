"""The parquet files of a data set of the Hugging Face hub: asked once for each revision, and kept on this machine

huggingface_hub caches files, but not which files a data set has. Without that list, a download that was cut would look
like a whole data set where there is no network.
"""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vit.atomic_files import write_json
from vit.data.dataset_names import PARQUET, HubName
from vit.data.hub_errors import advice, is_final, why_not
from vit.errors import DataError, ResourceError

CONVERTED = "refs/convert/parquet"  # branch to which the hub converts data sets of other formats
PATIENCE = 10.0  # seconds until the hub must have answered
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Listing:
    """The parquet files of one revision of a data set.

    Attributes:
        commit: hash of the commit.
        files: paths of the parquet files.
        configs: what the card of the data set says of its configs, as the hub's API gives it; None: nothing.
        is_old: whether the hub did not answer, and the listing is of an earlier day.
    """

    commit: str
    files: list[str]
    configs: Any = None
    is_old: bool = False


def listing_of(name: HubName) -> Listing:
    """The parquet files of a data set, of its main branch or of the hub's converted branch.

    Raises:
        ResourceError: the hub does not have it or does not answer, and it was not listed before.
        DataError: it has no parquet files.
    """
    from huggingface_hub import constants

    kept = _kept(name)
    if kept is not None and name.revision is not None and _COMMIT.fullmatch(name.revision):
        return kept  # a commit never changes
    if constants.HF_HUB_OFFLINE:
        if kept is None:
            raise ResourceError(
                f"{name} cannot be fetched: HF_HUB_OFFLINE is set, and the cache does not have it",
                "give the command once with a network, or give a local copy of its parquet files",
            )
        return replace(kept, is_old=True)
    try:
        found = _asked(name)
    except Exception as error:
        if kept is not None and not is_final(error):
            return replace(kept, is_old=True)
        fix = "check the name and the network connection, or give a local copy of its parquet files"
        problem = f"{name} cannot be fetched: {why_not(error, 'data set')}"
        raise ResourceError(problem, advice(error, "data set", fix)) from error
    if not found.files:
        raise DataError(
            f"{name} has no parquet files, and the hub has not converted it",
            "download it with its own program, and give a folder of class folders or a CSV",
        )
    for one in (name, replace(name, revision=found.commit)):
        _keep(one, found)
    return found


def _asked(name: HubName) -> Listing:
    """What the hub says; errors are those of huggingface_hub."""
    from huggingface_hub import HfApi

    revisions = [name.revision] if name.revision is not None else [None, CONVERTED]
    found = Listing("", [])
    for revision in revisions:
        try:
            info = HfApi().dataset_info(name.repository, revision=revision, timeout=PATIENCE)
        except Exception as error:
            if revision == CONVERTED and is_final(error):
                return found  # the hub has not converted it
            raise
        files = sorted(one.rfilename for one in info.siblings or () if one.rfilename.endswith(PARQUET))
        card = info.card_data
        found = Listing(str(info.sha), files, card.get("configs") if card is not None else None)
        if files:
            return found
    return found


def _file(name: HubName) -> Path:
    """The file that keeps a listing of any config of a data set."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(f"{name.repository}@{name.revision or ''}".encode()).hexdigest()[:32]
    return home.expanduser() / "vit-lightning" / "hub" / f"{key}.json"


def _keep(name: HubName, listing: Listing) -> None:
    path = _file(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"data set": name.repository, **asdict(listing)})
    except OSError:
        return  # the hub is asked again


def _kept(name: HubName) -> Listing | None:
    """The listing of an earlier day; None where there is none, or it is damaged."""
    try:
        said = json.loads(_file(name).read_text(encoding="utf-8"))
        commit, files = str(said["commit"]), [str(one) for one in said["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Listing(commit, files, said.get("configs")) if _COMMIT.fullmatch(commit) and files else None
