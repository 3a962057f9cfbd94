"""The configs of a data set of the Hugging Face hub, and the files of each: as its card says, or by its folders"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from fsspec.utils import glob_translate

from vit.data.core.dataset_names import HubName
from vit.errors import DataError, UsageError, nearest, some_of
from vit.extras.parquet.names import is_split_name

DEFAULT = "default"
_CONVERTED = re.compile(r"[^/]+/[^/]+/[0-9]{4,}\.parquet")  # CONFIG/SPLIT/0000.parquet, as the hub converts


@dataclass(frozen=True)
class Config:
    """The files of one config."""

    name: str  # name of the config
    files: list[str]  # paths of its parquet files
    # {file: name of its split}, where the card says it; None: the names of the files say it
    titles: dict[str, str] | None = None
    is_default: bool = False  # whether the card calls it the default


def choose_config(name: HubName, files: Sequence[str], said: Any) -> Config:
    """The config that a name asks for, or the only one, or the default.

    Args:
        name: the data set, with or without a config.
        files: paths of its parquet files.
        said: `configs` of its card, as the API gives it.

    Raises:
        UsageError: there is no such config; or there are several, and none is asked for.
    """
    configs = {one.name: one for one in _of_card(files, said) or _of_folders(files)}
    if name.config is not None:
        if name.config not in configs:
            raise UsageError(f"{name.repository} has no config {name.config!r}", nearest(name.config, configs))
        return configs[name.config]
    preferred = [one for one in configs.values() if one.is_default or one.name == DEFAULT]
    if len(configs) == 1 or len(preferred) == 1:
        return preferred[0] if len(preferred) == 1 else next(iter(configs.values()))
    raise UsageError(
        f"hf:{name.repository} has {len(configs)} configs, and none is chosen",
        f"choose one of {some_of((f'hf:{name.repository}/{one}' for one in configs), 12)}",
    )


def _of_card(files: Sequence[str], said: Any) -> list[Config]:
    """The configs that the card names with their files; [] where it names none, or none with parquet files."""
    found = []
    for one in said if isinstance(said, list) else ():
        if not isinstance(one, Mapping) or not isinstance(one.get("config_name"), str):
            continue
        prefix = str(one["data_dir"]).strip("/") + "/" if isinstance(one.get("data_dir"), str) else ""
        below = [name for name in files if name.startswith(prefix)]
        titles: dict[str, str] = {}
        unmatched: list[str] = []
        patterns = _patterns(one.get("data_files"))
        for title, pattern in patterns:
            try:
                glob = glob_translate(pattern.removeprefix("./"))
            except ValueError:  # ** beside other letters
                unmatched.append(pattern)
                continue
            chosen = [name for name in below if re.match(glob, name.removeprefix(prefix))]
            if not chosen:
                unmatched.append(pattern)
            twice = next((name for name in chosen if titles.get(name, title) != title), None)
            if twice is not None:
                raise DataError(
                    f"the card of the data set puts {twice} into {titles[twice]} and {title}",
                    "download its files, and give a folder with files of one split each",
                )
            titles |= dict.fromkeys(chosen, title or "")
        own = sorted(titles) if patterns else below
        if own and unmatched:
            raise DataError(
                f"the card of the data set names {unmatched[0]}, which fits none of its parquet files",
                "download its files, and give their folder",
            )
        if own:
            stated = titles if patterns and all(titles.values()) else None
            found.append(Config(one["config_name"], own, stated, one.get("default") is True))
    return found


def _patterns(said: Any) -> list[tuple[str | None, str]]:
    """(split, or None; pattern of paths) as `data_files` of a card names them."""
    if isinstance(said, str):
        return [(None, said)]
    if isinstance(said, Mapping):
        return [(str(split), str(path)) for split, paths in said.items() for path in _texts(paths)]
    found: list[tuple[str | None, str]] = []
    for one in said if isinstance(said, list) else ():
        if isinstance(one, Mapping):
            found += [(str(one["split"]) if "split" in one else None, path) for path in _texts(one.get("path"))]
        else:
            found += [(None, path) for path in _texts(one)]
    return found


def _texts(said: Any) -> list[str]:
    return [one for one in (said if isinstance(said, list) else [said]) if isinstance(one, str)]


def _of_folders(files: Sequence[str]) -> list[Config]:
    """The configs that the folders of a data set show. Folders data/ and those of splits do not count."""
    found: dict[str, list[str]] = {}
    for name in files:
        parts = list(PurePosixPath(name).parts[:-1])
        if _CONVERTED.fullmatch(name):
            parts = parts[:1]
        else:
            parts = parts[1:] if parts[:1] == ["data"] else parts
            parts = parts[:-1] if parts and is_split_name(parts[-1]) else parts
        found.setdefault("/".join(parts) or DEFAULT, []).append(name)
    return [Config(name, own) for name, own in found.items()]
