"""A data set of the Hugging Face hub, as its parquet files in the hub's cache; none of its code is run

huggingface_hub caches files, but not which files a data set has. Without that list, a download that was cut would look
like a whole data set where there is no network. So a listing is asked once for each revision, and kept.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vit.atomic_files import write_json
from vit.data.core.dataset_names import PARQUET, HubName, TableColumns, check_hub_name
from vit.data.core.samples import Source
from vit.data.hub_errors import advice, is_final, why_not
from vit.errors import DataError, ResourceError
from vit.extras.hub.configs import choose_config
from vit.extras.parquet.files import TableFile
from vit.extras.parquet.names import files_of_splits
from vit.extras.parquet.source import ParquetFiles, list_tables, read_tables
from vit.layout import cache_folder

CONVERTED = "refs/convert/parquet"  # branch to which the hub converts data sets of other formats
PATIENCE = 10.0  # seconds until the hub must have answered
_COMMIT = re.compile(r"[0-9a-f]{40}")


def open_source(data: str, columns: TableColumns, needs_train: bool) -> Source:
    """List the images of hf:NAME with their labels; see `TableSource`."""
    return read_tables(_fetched_files(data, needs_train), columns, needs_train)


def list_images(data: str, columns: TableColumns) -> Source:
    """List the images of hf:NAME, which need no labels."""
    return list_tables(_fetched_files(data, needs_train=False), columns)


def has_columns(data: str) -> bool:
    """A data set of the hub is never an index of shards."""
    return True


def _fetched_files(data: str, needs_train: bool) -> ParquetFiles:
    """The parquet files of hf:NAME[/CONFIG][@REVISION], fetched or cached. Files of other splits are not fetched.

    Raises:
        UsageError: the name is written in another way, or no config, or an unknown one, is chosen.
        ResourceError: the hub does not give the data set.
        DataError: it has no parquet files, or only parts of them.
    """
    name = check_hub_name(data)
    listing = _listing_of(name)
    config = choose_config(name, listing.files, listing.configs)
    pinned = HubName(name.repository, config.name if name.config or len(config.files) < len(listing.files) else None)
    pinned = replace(pinned, revision=listing.commit)
    named = files_of_splits(config.files, str(pinned), config.titles, needs_train)
    splits = {split: {one: TableFile(_fetched(pinned, one)) for one in files} for split, files in named.files.items()}
    notes = list(named.notes)
    if listing.is_old:
        notes.append(f"the hub was not asked for news: {pinned} is from the cache")
    short = name.repository.rpartition("/")[2]
    return ParquetFiles(short, str(pinned), splits, notes, origin=str(pinned))


def _fetched(name: HubName, file: str) -> Path:
    """A file of a data set, fetched into the cache of huggingface_hub if it is not there."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(name.repository, file, repo_type="dataset", revision=name.revision))
    except Exception as error:
        fix = "check the network connection, and give the command again: it continues"
        problem = f"{file} of {name} cannot be fetched: {why_not(error, 'data set')}"
        raise ResourceError(problem, advice(error, "data set", fix)) from error


@dataclass(frozen=True)
class _Listing:
    """Commit and parquet files of one revision of a data set, and what its card says of configs, as the API gives it.

    `is_old`: the hub did not answer, and the listing is of an earlier day.
    """

    commit: str
    files: list[str]
    configs: Any = None
    is_old: bool = False


def _listing_of(name: HubName) -> _Listing:
    """The parquet files of a data set, of its main branch or of the hub's converted branch."""
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


def _asked(name: HubName) -> _Listing:
    """What the hub says; errors are those of huggingface_hub."""
    from huggingface_hub import HfApi

    revisions = [name.revision] if name.revision is not None else [None, CONVERTED]
    found = _Listing("", [])
    for revision in revisions:
        try:
            info = HfApi().dataset_info(name.repository, revision=revision, timeout=PATIENCE)
        except Exception as error:
            if revision == CONVERTED and is_final(error):
                return found  # the hub has not converted it
            raise
        files = sorted(one.rfilename for one in info.siblings or () if one.rfilename.endswith(PARQUET))
        card = info.card_data
        found = _Listing(str(info.sha), files, card.get("configs") if card is not None else None)
        if files:
            return found
    return found


def _file(name: HubName) -> Path:
    """The file that keeps a listing of any config of a data set."""
    key = hashlib.sha256(f"{name.repository}@{name.revision or ''}".encode()).hexdigest()[:32]
    return cache_folder("hub") / f"{key}.json"


def _keep(name: HubName, listing: _Listing) -> None:
    path = _file(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"data set": name.repository, **asdict(listing)})
    except OSError:
        return  # the hub is asked again


def _kept(name: HubName) -> _Listing | None:
    """The listing of an earlier day; None where there is none, or it is damaged."""
    try:
        said = json.loads(_file(name).read_text(encoding="utf-8"))
        commit, files = str(said["commit"]), [str(one) for one in said["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _Listing(commit, files, said.get("configs")) if _COMMIT.fullmatch(commit) and files else None
