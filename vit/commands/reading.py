"""Reads all images of a data set before the first step, for `vit train` and `vit study`"""

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from vit.console import ProgressReport, Reporter
from vit.errors import VitError
from vit.launch import is_first

if TYPE_CHECKING:
    from vit.data.bursts import Progress
    from vit.data.contents import Contents
    from vit.data.samples import Source
    from vit.training.distributed.meeting import Meeting
    from vit.training.recipes.image_options import DataConfig

_READ_AHEAD = "read ahead"  # key of what each process says when its share is read
_NOTHING = "null"  # each process searches
_LARGEST = 4 * 2**20  # characters of clusters that are sent to the other processes


def find_bursts(
    listed: "Source | None", data: "DataConfig", reporter: Reporter, meeting: "Meeting | None" = None
) -> None:
    """Search files for near-duplicates with progress; the plan that is made next knows them then.

    The first of several processes searches, after each that is there has read a share. The others take what it found.

    Args:
        listed: images of DATA; None: they have a name, and are in memory.
        meeting: where the processes meet; None: there is one process.
    """
    source = None if listed is None or data.bursts == "split" else listed

    def search() -> str:
        if source is None:
            return _NOTHING
        if meeting is not None and meeting.num_present > 1:
            _read_ahead(source, reporter, meeting)
            meeting.collected(_READ_AHEAD, "")
        with ProgressReport(reporter, "image compared") as progress:
            text = json.dumps(_clusters(source, data, progress.update))
        return text if len(text) < _LARGEST else _NOTHING

    if meeting is None:
        search()
        return
    if not is_first() and meeting.num_present > 1:
        with suppress(VitError):
            _read_ahead(source, reporter, meeting)
        meeting.collected(_READ_AHEAD, "")  # also without images: the first process waits for it
    found = json.loads(meeting.decided("bursts", search))
    if source is not None and found is not None and not is_first():
        _clusters(source, data, known=found)


def _clusters(
    source: "Source", data: "DataConfig", progress: "Progress | None" = None, known: list[list[int]] | None = None
) -> list[list[int]] | None:
    from vit.data.bursts import clusters_of
    from vit.data.groups import with_groups

    return clusters_of(with_groups(source, data.groups), progress, known)


def _read_ahead(source: "Source | None", reporter: Reporter, meeting: "Meeting") -> None:
    """Read a share of the files, whose hashes are kept where the processes of one user see them."""
    if source is None or any(one.arrays is not None or one.reader is not None for one in source.splits.values()):
        return
    from vit.data.contents import read_share

    with ProgressReport(reporter, "image read") as progress:
        read_share(source, progress.update, rank=meeting.rank, num_shares=meeting.num_present)


def read_images(source: "Source", reporter: Reporter) -> "Contents":
    """The content of the images, read with progress; DataError if validation or test files are not images."""
    from vit.data.contents import read_contents
    from vit.training.run_images import check_readable

    with ProgressReport(reporter, "image read") as progress:
        contents = read_contents(source, progress.update)
    check_readable(source, contents)
    return contents


def read_together(source: "Source", reporter: Reporter, meeting: "Meeting") -> "Contents | None":
    """`read_images` on the first process, where each process that is there has read a share; None on the others.

    A process that sees other images, or cannot read its share, leaves it to the first one.
    """
    if not is_first() and meeting.num_present == 1:
        return None

    from vit.data.contents import joined_contents, read_share
    from vit.data.split import SPLITS
    from vit.training.run_images import check_readable

    names = [source.splits[split].fingerprint() for split in SPLITS if split in source.splits]
    found: list[Contents] = []
    which = f"by each of {meeting.num_present} processes" if meeting.num_present > 1 else ""

    def share_of(rank: int) -> str:
        with ProgressReport(reporter, "image read") as progress:
            share = read_share(
                source,
                lambda done, total: progress.update(done, total, which),
                rank=rank,
                num_shares=meeting.num_present,
            )
        return json.dumps([names, share])

    def read() -> str:
        texts = meeting.collected("contents", share_of(0))
        others = [json.loads(text) for text in texts]
        shares = [
            share if theirs == names else json.loads(share_of(rank))[1] for rank, (theirs, share) in enumerate(others)
        ]
        found.append(joined_contents(source, shares))
        check_readable(source, found[0])
        return ""

    if not is_first():
        try:
            own = share_of(meeting.rank)
        except VitError:
            own = json.dumps([[], []])
        meeting.collected("contents", own)
    meeting.decided("contents read", read)
    return found[0] if found else None
