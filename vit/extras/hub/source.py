"""A data set of the Hugging Face hub, as its parquet files in the hub's cache; none of its code is run"""

from dataclasses import replace
from pathlib import Path

from vit.data.dataset_names import PARQUET, HubName, TableColumns, check_hub_name
from vit.data.hub_errors import advice, why_not
from vit.data.samples import Source
from vit.errors import ResourceError
from vit.extras.hub.configs import choose_config
from vit.extras.hub.listing import listing_of
from vit.extras.parquet.files import LocalFile, TableFile
from vit.extras.parquet.names import files_of_splits
from vit.extras.parquet.source import ParquetFiles, list_tables, read_tables


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
    listing = listing_of(name)
    config = choose_config(name, listing.files, listing.configs)
    pinned = HubName(name.repository, config.name if name.config or len(config.files) < len(listing.files) else None)
    pinned = replace(pinned, revision=listing.commit)
    named = files_of_splits(config.files, str(pinned), config.titles, needs_train)
    splits: dict[str, list[tuple[str, TableFile]]] = {
        split: [(one.removesuffix(PARQUET), LocalFile(_fetched(pinned, one))) for one in files]
        for split, files in named.files.items()
    }
    notes = list(named.notes)
    if listing.is_old:
        notes.append(f"the hub was not asked for news: {pinned} is from the cache")
    short = name.repository.rpartition("/")[2]
    return ParquetFiles(short, str(pinned), splits, notes, has_named_splits=named.decide, origin=str(pinned))


def _fetched(name: HubName, file: str) -> Path:
    """A file of a data set, fetched into the cache of huggingface_hub if it is not there.

    Raises:
        ResourceError: the hub does not give it.
    """
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(name.repository, file, repo_type="dataset", revision=name.revision))
    except Exception as error:
        fix = "check the network connection, and give the command again: it continues"
        problem = f"{file} of {name} cannot be fetched: {why_not(error, 'data set')}"
        raise ResourceError(problem, advice(error, "data set", fix)) from error
