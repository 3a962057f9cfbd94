"""Images that are nearly the same, such as a burst of a camera or frames of a video: no split divides them

A network that has trained on one image of a burst knows the others. Test images of the burst then give an accuracy that
new images do not reach, and count in intervals as if each were new.

Images with equal contents are found by their bytes, and nearly equal ones as `vit data check` finds them, with a
stricter limit for chance. Images below MIN_SIDE have too little detail, and are only compared by their bytes.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vit.atomic_files import write_json
from vit.data.core.groups import UNDO
from vit.data.core.image_bytes import ImageError
from vit.data.core.samples import Samples, Source

if TYPE_CHECKING:
    from vit.data.checks.contents import Progress

MIN_SIDE = 32  # pixels of the shorter side
WHOLE_CLASS = 10  # images: a cluster with as many and with half of a class is one look of the class, not a burst
_CHANCE = 1.0  # expected number of pairs of the whole data set that are as close by chance
_CACHED_FROM = 2000  # images: less take no time
_found: dict[str, list[list[int]]] = {}  # clusters by `_key`: a plan is made several times


def with_bursts(source: Source) -> Source:
    """The source, whose images with equal contents, or nearly equal ones, are one group. Other images stand alone.

    Groups that the images have are kept whole, and are joined where they share a file.
    """
    clusters = clusters_of(source)
    if clusters is None:
        return source  # a fold refuses it
    samples, notes = list(source.splits.values()), list(source.notes)
    names, num_alike = [name for one in samples for name in one.groups or ()], sum(map(len, clusters))
    if names:
        clusters = [cluster for cluster in clusters if len({names[place] for place in cluster}) > 1]
    else:
        clusters = _without_classes(clusters, [row.tobytes() for one in samples for row in one.labels])
    count = sum(map(len, clusters))
    if not names and num_alike > count:
        notes.append(
            f"WARNING: {num_alike - count:,} images look nearly the same and are half of their class or more, so that "
            "they are not kept together; if they are of one video, give data.groups, or accuracies will be too high"
        )
    if not clusters:
        return replace(source, notes=notes)
    if names:
        notes.append(f"groups that share {count:,} images with equal contents are kept together; {UNDO}")
    else:
        several = "burst" if len(clusters) == 1 else "bursts"
        folders = {split: f"{split}/" * (len(samples) > 1) for split in source.splits}
        names = [folders[split] + path for split, one in source.splits.items() for path in one.paths]
        notes.append(f"{count:,} images in {len(clusters):,} {several} of near-duplicates are kept together; {UNDO}")
    joined = iter(_joined(names, clusters))
    splits = {split: replace(one, groups=tuple(islice(joined, len(one)))) for split, one in source.splits.items()}
    return replace(source, splits=splits, notes=notes)


def clusters_of(
    source: Source, progress: "Progress | None" = None, known: list[list[int]] | None = None
) -> list[list[int]] | None:
    """Places, in one list of all images, of those that belong together; None where only some splits have groups.

    What another process has found, `known`, is from now on what a search here finds.
    """
    from vit.data.checks.contents import hash_folder  # imports torch

    samples = list(source.splits.values())
    has_groups = {one.groups is not None for one in samples if len(one)}
    if len(has_groups) != 1:
        return None
    is_near, number = not has_groups.pop(), sum(map(len, samples))
    key = _key(samples, is_near)
    if known is not None and max(map(max, known), default=-1) < number:
        _found[key] = known
    if key not in _found:
        folder = hash_folder() if number >= _CACHED_FROM else None
        file = None if folder is None else folder / f"{key}.json"
        cached = None if file is None else _kept(file, number)
        _found[key] = cached if cached is not None else _search(source, is_near, progress)
        if file is not None and cached is None:
            with suppress(OSError):  # a full or read-only disk: the next training searches again
                file.parent.mkdir(parents=True, exist_ok=True)
                write_json(file, {"clusters": _found[key]})
    return _found[key]


def _without_classes(clusters: list[list[int]], labels: Sequence[object]) -> list[list[int]]:
    """The clusters without those that hold a whole class or half of it.

    White bottles before one background are as close as frames of a video. Thumbnails do not tell them apart.
    """
    sizes, bursts = Counter(labels), []
    for cluster in clusters:
        counts = Counter(labels[place] for place in cluster).items()
        if all(count < max(WHOLE_CLASS, sizes[label] / 2) for label, count in counts):
            bursts.append(cluster)
    return bursts


def _joined(names: Sequence[str], clusters: Sequence[Sequence[int]]) -> list[str]:
    """(n,) the name of each image's group, where images of a cluster share the first of their names."""
    from scipy.cluster.hierarchy import DisjointSet

    joined = DisjointSet({names[place] for cluster in clusters for place in cluster})
    for cluster in clusters:
        for place in cluster[1:]:
            joined.merge(names[cluster[0]], names[place])
    first = {name: min(subset) for subset in joined.subsets() for name in subset}
    return [first.get(name, name) for name in names]


def _kept(file: Path, number: int) -> list[list[int]] | None:
    """The clusters of an earlier search; None: there is none, or the file is damaged."""
    try:
        clusters: list[list[int]] = json.loads(file.read_text(encoding="utf-8"))["clusters"]
        places = [place for cluster in clusters for place in cluster]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    is_sound = all(clusters) and all(type(place) is int and 0 <= place < number for place in places)
    return clusters if is_sound and len(places) == len(set(places)) else None


def _key(samples: Sequence[Samples], is_near: bool) -> str:
    """A text that changes with the images: their paths, sizes and times, their versions, or their pixels."""
    digest = hashlib.blake2b(f"2 {is_near} {_CHANCE} {[len(one) for one in samples]}".encode(), digest_size=16)
    for one in samples:
        versions = [] if one.reader is None else one.reader.versions(one.paths)
        for place, path in enumerate(one.paths):
            digest.update(path.encode("utf-8", "surrogateescape") + b"\0")
            if one.arrays is not None:
                digest.update(np.ascontiguousarray(one.arrays[place]).data)
            elif one.reader is None:
                with suppress(OSError):  # `_search` leaves it alone
                    status = os.stat(one.file(place))
                    digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
            else:
                digest.update(versions[place].encode())
    return digest.hexdigest()


def _search(source: Source, is_near: bool, progress: "Progress | None") -> list[list[int]]:
    """The clusters: connected components of pairs of images that are equal, or nearly the same."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    from vit.data.checks.contents import read_contents

    pairs: list[npt.NDArray[np.int64]] = [np.empty((0, 2), dtype=np.int64)]
    if is_near:
        pairs.append(_near_pairs(list(source.splits.values()), progress))
    hashes = read_contents(source, None if is_near else progress).hashes
    contents = [content for split in source.splits for content in hashes[split]]
    first: dict[str, int] = {}
    for place, content in enumerate(contents):
        if content and first.setdefault(content, place) != place:
            pairs.append(np.array([[first[content], place]]))
    links, shape = np.concatenate(pairs), (len(contents), len(contents))
    _, component = connected_components(coo_array((np.ones(len(links)), tuple(links.T)), shape), directed=False)
    members = np.flatnonzero(np.bincount(component, minlength=1)[component] > 1)
    members = members[np.argsort(component[members], kind="stable")]
    ends = np.flatnonzero(np.diff(component[members])) + 1
    return sorted(part.tolist() for part in np.split(members, ends) if len(part))


def _near_pairs(samples: Sequence[Samples], progress: "Progress | None") -> npt.NDArray[np.int64]:
    """(m, 2) pairs of images that are nearly the same. Their content hashes are kept."""
    from vit.data.checks.contents import KnownHashes, read_in_parts
    from vit.data.checks.duplicates import alike_pairs
    from vit.data.checks.scan import THUMBNAIL_SIZE, Squares, hash_squares, small_square

    none = np.empty(0, dtype=np.uint64), np.empty((0, THUMBNAIL_SIZE), dtype=np.uint8)

    def hashed(known: KnownHashes, part: range) -> tuple[list[int], npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
        """The places of images that have enough detail, their perceptual hashes and their thumbnails."""
        images = known.samples
        squares: dict[int, Squares] = {}
        images.prepare(part)
        for place in part:
            with suppress(ImageError):  # it stands alone
                data = b"" if images.arrays is not None else known.encoded(place)
                square = small_square(images, place, data, MIN_SIDE)
                if square is not None:
                    squares[place] = square
        return list(squares), *(hash_squares(np.stack(list(squares.values()))) if squares else none)

    starts = np.cumsum([0, *map(len, samples)])
    places, hashes, thumbnails = [np.empty(0, dtype=np.int64)], [none[0]], [none[1]]
    for number, _, (indices, some, pictures) in read_in_parts(samples, hashed, progress):
        places.append(starts[number] + np.array(indices, dtype=np.int64))
        hashes.append(some)
        thumbnails.append(pictures)
    pairs = alike_pairs(np.concatenate(hashes), np.concatenate(thumbnails), _CHANCE)
    return np.concatenate(places)[pairs]
