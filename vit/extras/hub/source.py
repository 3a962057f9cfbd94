"""A data set of the Hugging Face hub, as its parquet files in the hub's cache; none of its code is run

huggingface_hub caches files, but not which files a data set has. Without that list, a download that was cut would look
like a whole data set where there is no network. So a listing is asked once for each revision, and kept.
The card of a data set names its configs and their files; without it, its folders do.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from vit.atomic_files import write_json
from vit.data.core.dataset_names import PARQUET, HubName, TableColumns, check_hub_name
from vit.data.core.samples import Source
from vit.errors import DataError, UsageError, nearest, some_of
from vit.extras.parquet.open import files_of_splits, is_split_name
from vit.extras.parquet.rows import TableFile
from vit.extras.parquet.source import ParquetFiles, list_tables, read_tables
from vit.layout import cache_folder
from vit.weights.hubs import is_final, not_fetched

CONVERTED = "refs/convert/parquet"  # branch to which the hub converts data sets of other formats
PATIENCE = 10.0  # seconds until the hub must have answered
DEFAULT = "default"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CONVERTED = re.compile(r"[^/]+/[^/]+/[0-9]{4,}\.parquet")  # CONFIG/SPLIT/0000.parquet, as the hub converts


@dataclass(frozen=True)
class Config:
    """The files of one config."""

    name: str  # name of the config
    files: list[str]  # paths of its parquet files
    titles: dict[str, str] | None = None  # {file: name of its split} by the card; None: the names of the files say it
    is_default: bool = False  # whether the card calls it the default


def choose_config(name: HubName, files: Sequence[str], said: Any) -> Config:
    """The config that a name asks for, or the only one, or the default. UsageError: none, or no such one, is chosen.

    Args:
        files: paths of the parquet files of the data set.
        said: `configs` of its card, as the API gives it.
    """
    configs = {one.name: one for one in _of_card(files, said) or _of_folders(files)}
    if name.config is not None:
        if name.config not in configs:
            raise UsageError(f"{name.repository} has no config {name.config!r}", nearest(name.config, configs))
        return configs[name.config]
    preferred = [one for one in configs.values() if one.is_default or one.name == DEFAULT]
    for candidates in (preferred, list(configs.values())):
        if len(candidates) == 1:
            return candidates[0]
    fix = f"choose one of {some_of((f'hf:{name.repository}/{one}' for one in configs), 12)}"
    raise UsageError(f"hf:{name.repository} has {len(configs):,} configs, and none is chosen", fix)


def _of_card(files: Sequence[str], card_configs: Any) -> list[Config]:
    """The configs that the card names with their files; [] where it names none, or none with parquet files."""
    configs = []
    for one in card_configs if isinstance(card_configs, list) else ():
        if not isinstance(one, Mapping) or not isinstance(one.get("config_name"), str):
            continue
        prefix = str(one["data_dir"]).strip("/") + "/" if isinstance(one.get("data_dir"), str) else ""
        below = [name for name in files if name.startswith(prefix)]
        titles, unmatched = dict[str, str](), list[str]()
        patterns = _patterns(one.get("data_files"))
        for title, pattern in patterns:
            parts = pattern.removeprefix("./").split("/")
            matching = [name for name in below if _fits(name.removeprefix(prefix).split("/"), parts)]
            if not matching:
                unmatched.append(pattern)
            twice = next((name for name in matching if titles.get(name, title) != title), None)
            if twice is not None:
                problem = f"the card of the data set puts {twice} into {titles[twice]} and {title}"
                raise DataError(problem, "download its files, and give a folder with files of one split each")
            titles |= dict.fromkeys(matching, title)
        config_files = sorted(titles) if patterns else below
        if config_files and unmatched:
            problem = f"the card of the data set names {unmatched[0]}, which fits none of its parquet files"
            raise DataError(problem, "download its files, and give their folder")
        if config_files:
            stated = titles if patterns and all(titles.values()) else None
            configs.append(Config(one["config_name"], config_files, stated, one.get("default") is True))
    return configs


def _fits(name: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path fit those of a pattern; ** stands for any folders. The time is bounded: no regex."""
    reached = {0}  # how many parts of the name the pattern so far may fit
    for part in pattern:
        if part == "**":
            reached = set(range(min(reached, default=len(name) + 1), len(name) + 1))
        else:
            reached = {number + 1 for number in reached if number < len(name) and fnmatchcase(name[number], part)}
    return len(name) in reached


def _patterns(data_files: Any) -> list[tuple[str, str]]:
    """(split, or ""; pattern of paths) as `data_files` of a card names them."""
    if isinstance(data_files, Mapping):
        return [(str(split), str(path)) for split, paths in data_files.items() for path in _texts(paths)]
    patterns: list[tuple[str, str]] = []
    for one in data_files if isinstance(data_files, list) else [data_files]:
        split, paths = (str(one.get("split", "")), one.get("path")) if isinstance(one, Mapping) else ("", one)
        patterns += [(split, path) for path in _texts(paths)]
    return patterns


def _texts(value: Any) -> list[str]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def _of_folders(files: Sequence[str]) -> list[Config]:
    """The configs that the folders of a data set show. Folders data/ and those of splits do not count."""
    files_of: dict[str, list[str]] = {}
    for name in files:
        parts = list(PurePosixPath(name).parts[:-1])
        if _CONVERTED.fullmatch(name):
            parts = parts[:1]
        else:
            parts = parts[1:] if parts[:1] == ["data"] else parts
            parts = parts[:-1] if parts and is_split_name(parts[-1]) else parts
        files_of.setdefault("/".join(parts) or DEFAULT, []).append(name)
    return [Config(name, own) for name, own in files_of.items()]


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
    """The parquet files of hf:NAME[/CONFIG][@REVISION], fetched or cached. Files of other splits are not fetched."""
    name = check_hub_name(data)
    listing = _listing_of(name)
    config = choose_config(name, listing.files, listing.configs)
    pinned = HubName(name.repository, config.name if name.config or len(config.files) < len(listing.files) else None)
    pinned = replace(pinned, revision=listing.commit)
    named, notes = files_of_splits(config.files, str(pinned), config.titles, needs_train)
    splits = {split: {one: TableFile(_fetched(pinned, one)) for one in files} for split, files in named.items()}
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
        raise not_fetched(error, f"{file} of {name}", "data set", fix) from error


@dataclass(frozen=True)
class _Listing:
    """Commit and parquet files of one revision of a data set, and `configs` of its card, as the API gives it."""

    commit: str
    files: list[str]
    configs: Any = None
    is_old: bool = False


def _listing_of(name: HubName) -> _Listing:
    """The parquet files of a data set, of its main branch or of the hub's converted branch."""
    cached = _kept(name)
    if cached is not None and name.revision is not None and _COMMIT.fullmatch(name.revision):
        return cached  # a commit never changes
    try:
        listing = _asked(name)
    except Exception as error:
        if cached is not None and not is_final(error):
            return replace(cached, is_old=True)
        fix = "check the name and the network connection, or give a local copy of its parquet files"
        raise not_fetched(error, str(name), "data set", fix) from error
    if not listing.files:
        fix = "download it with its own program, and give a folder of class folders or a CSV"
        raise DataError(f"{name} has no parquet files, and the hub has not converted it", fix)
    for one in (name, replace(name, revision=listing.commit)):
        with suppress(OSError):  # the hub is asked again
            _file(one).parent.mkdir(parents=True, exist_ok=True)
            write_json(_file(one), {"data set": name.repository, **asdict(listing)})
    return listing


def _asked(name: HubName) -> _Listing:
    """What the hub says; errors are those of huggingface_hub."""
    from huggingface_hub import HfApi

    listing = _Listing("", [])
    for revision in [None, CONVERTED] if name.revision is None else [name.revision]:
        try:
            info = HfApi().dataset_info(name.repository, revision=revision, timeout=PATIENCE)
        except Exception as error:
            if revision == CONVERTED and is_final(error):
                return listing  # the hub has not converted it
            raise
        files = sorted(one.rfilename for one in info.siblings or () if one.rfilename.endswith(PARQUET))
        card = info.card_data
        listing = _Listing(str(info.sha), files, card.get("configs") if card is not None else None)
        if files:
            break
    return listing


def _file(name: HubName) -> Path:
    key = hashlib.sha256(f"{name.repository}@{name.revision or ''}".encode()).hexdigest()[:32]
    return cache_folder("hub") / f"{key}.json"


def _kept(name: HubName) -> _Listing | None:
    """The listing of an earlier day; None where there is none, or it is damaged."""
    try:
        content = json.loads(_file(name).read_text(encoding="utf-8"))
        commit, files = str(content["commit"]), [str(one) for one in content["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _Listing(commit, files, content.get("configs")) if _COMMIT.fullmatch(commit) and files else None
