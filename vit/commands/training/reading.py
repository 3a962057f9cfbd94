"""Reads all images of a data set before the first step, for `vit train` and `vit study`

The first of several processes reads and searches. The others wait for as long as it shows signs of life.
"""

import json
from typing import TYPE_CHECKING

from vit.console import ProgressReport, Reporter
from vit.launch import is_first

if TYPE_CHECKING:
    from vit.data.checks.bursts import Progress
    from vit.data.checks.contents import Contents
    from vit.data.core.samples import Source
    from vit.training.distributed.processes import Rendezvous
    from vit.training.recipes.image_options import DataConfig

_NOTHING = "null"  # each process searches
_LARGEST = 4 * 2**20  # characters of clusters that are sent to the other processes


def find_bursts(
    listed: "Source | None", data: "DataConfig", reporter: Reporter, rendezvous: "Rendezvous | None" = None
) -> None:
    """Search files for near-duplicates with progress; the plan that is made next knows them then.

    The first of several processes searches, and the others take what it found.

    Args:
        listed: images of DATA; None: they have a name, and are in memory.
        rendezvous: where the processes meet; None: there is one process.
    """
    source = None if listed is None or data.bursts == "split" else listed

    def search() -> str:
        if source is None:
            return _NOTHING
        with ProgressReport(reporter, "image compared") as progress:
            text = json.dumps(_clusters(source, data, progress.update))
        return text if len(text) < _LARGEST else _NOTHING

    if rendezvous is None:
        search()
        return
    known = json.loads(rendezvous.decided("bursts", search))
    if source is not None and known is not None and not is_first():
        _clusters(source, data, known=known)


def _clusters(
    source: "Source", data: "DataConfig", progress: "Progress | None" = None, known: list[list[int]] | None = None
) -> list[list[int]] | None:
    from vit.data.checks.bursts import clusters_of
    from vit.data.core.groups import with_groups

    return clusters_of(with_groups(source, data.groups), progress, known)


def read_images(source: "Source", reporter: Reporter) -> "Contents":
    """The content of the images, read with progress; DataError if validation or test files are not images."""
    from vit.data.checks.contents import read_contents
    from vit.training.running.run_images import check_readable

    with ProgressReport(reporter, "image read") as progress:
        contents = read_contents(source, progress.update)
    check_readable(source, contents)
    return contents


def read_on_first(source: "Source", reporter: Reporter, rendezvous: "Rendezvous") -> "Contents | None":
    """`read_images` on the first process; None on the others, which wait for it."""
    contents: list[Contents] = []

    def read() -> str:
        contents.append(read_images(source, reporter))
        return ""

    rendezvous.decided("contents read", read)
    return contents[0] if contents else None
