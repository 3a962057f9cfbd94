"""Images with equal contents, such as one file in two folders"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vit.data.samples import Samples, Source

_COPIES = "are copies of images in other splits"


def copied_words(hashes: Mapping[str, Sequence[str]]) -> str:
    """How many validation and test images are copies of images that decide something, in words; "" where none is.

    A test image counts if it is in any other split, and a validation image if it is in the training split.

    Args:
        hashes: {split: content hash of each image}, "" where one could not be read.
    """
    others = {"test": ("train", "validation", "calibration"), "validation": ("train",)}
    parts = []
    for split, names in others.items():
        known = {one for name in names for one in hashes.get(name, ())} - {""}
        own = hashes.get(split, ())
        count = sum(one in known for one in own)
        parts += [f"{count:,} of {len(own):,} {split} images"] * bool(count)
    if not parts:
        return ""
    return (
        f"{' and '.join(parts)} {_COPIES}, so that results on them are too good; remove the copies that 'vit data "
        "check' lists"
    )


def with_most_copies(sentences: Iterable[str]) -> list[str]:
    """Different sentences about the images of several trainings; of those of `copied_words`, one with the most copies.

    Trainings of a study have parts of the same training images, and so different numbers of copies.
    """
    found = list(dict.fromkeys(sentences))
    copied = sorted((one for one in found if _COPIES in one), key=_first_number)
    return [one for one in found if one not in copied[:-1]]


def _first_number(text: str) -> int:
    return int(text.partition(" ")[0].replace(",", ""))


def possible_copies(samples: Samples) -> tuple[list[int], list[str]]:
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
