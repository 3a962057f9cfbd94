"""Images with equal contents, such as one file in two folders: folds keep them together"""

from collections.abc import Sequence
from pathlib import Path

from vit.data.samples import Samples, Source


def num_copies(hashes: Sequence[str]) -> int:
    """How many images are copies of another one, from their content hashes; "" where an image could not be read."""
    known = [one for one in hashes if one]
    return len(known) - len(set(known))


def groups_with_copies(samples: Samples) -> tuple[str, ...] | None:
    """(n,) the group of each image, where images with equal contents share one; as they are where there are no copies.

    Groups that share a content become one, with the name of the first of them. Where images have no groups, each image
    is one group with its copies.
    """
    places, hashes = _possible_copies(samples)
    if not num_copies(hashes):
        return samples.groups
    names = list(samples.paths if samples.groups is None else samples.groups)
    from scipy.cluster.hierarchy import DisjointSet

    joined, first = DisjointSet(names), dict[str, str]()
    for place, content in zip(places, hashes, strict=True):
        if content:
            joined.merge(first.setdefault(content, names[place]), names[place])
    merged = {name: min(subset) for subset in joined.subsets() for name in subset}
    return tuple(merged[name] for name in names)


def _possible_copies(samples: Samples) -> tuple[list[int], list[str]]:
    """(places of images that may have copies, their content hashes). Files of different sizes are not copies."""
    places = list(range(len(samples)))
    if samples.arrays is None and samples.reader is None:
        sizes = [_size(samples.file(place)) for place in places]
        seen: dict[int, int] = {}
        for size in sizes:
            seen[size] = seen.get(size, 0) + 1
        places = [place for place in places if sizes[place] >= 0 and seen[sizes[place]] > 1]
    if not places:
        return [], []
    from vit.data.contents import read_contents  # imports torch

    part = Source("copies", (), {"train": samples.select(places)})
    return places, read_contents(part).hashes["train"]


def _size(path: Path) -> int:
    """The size of a file in bytes; -1 where it cannot be read, which a training says later."""
    try:
        return path.stat().st_size
    except OSError:
        return -1
