"""Images on other machines are fetched some batches before they are decoded

Loader workers learn of a batch shortly before they decode it, and a sampler knows the whole epoch. So a thread of the
process that owns the sampler fetches ahead, into the cache that all processes of the machine share.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from queue import SimpleQueue

from vit.data.sampler import Key
from vit.data.samples import Samples

BATCHES_AHEAD = 16


def read_ahead(batches: Iterable[list[Key]], samples: Samples | None) -> Iterator[list[Key]]:
    """The same batches in the same order, each fetched `BATCHES_AHEAD` batches before it is asked for.

    An image that cannot be fetched is not an error here. Whoever decodes it meets the error again, and reports it.
    """
    if samples is None or samples.reader is None or not samples.reader.shares_prepared:
        yield from batches
        return
    wanted: SimpleQueue[list[Key] | None] = SimpleQueue()
    ended = threading.Event()
    # a daemon: a server that does not answer must not keep a process from ending
    threading.Thread(target=_fetch, args=(wanted, ended, samples), name="read ahead", daemon=True).start()
    waiting: deque[list[Key]] = deque()
    try:
        for keys in batches:
            wanted.put(keys)
            waiting.append(keys)
            if len(waiting) > BATCHES_AHEAD:
                yield waiting.popleft()
        yield from waiting
    finally:
        ended.set()
        wanted.put(None)


def _fetch(wanted: "SimpleQueue[list[Key] | None]", ended: threading.Event, samples: Samples) -> None:
    """Fetch batches until there are no more."""
    while (keys := wanted.get()) is not None and not ended.is_set():
        try:
            samples.prepare([key.index for key in keys])
        except Exception:  # noqa: BLE001  met again by the worker that reads the image, which has the words for it
            return
