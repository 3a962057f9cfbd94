"""What is wrong with a data set: files, pictures, pairs of pictures, classes. Nothing is printed here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.data.duplicates import Match, exact_matches, near_matches
from vit.data.inspection import Listing, Seen, inspect
from vit.data.samples import Labels, Source

Severity = Literal["error", "warning"]

TINY_SIDE = 16  # pixels, of the shorter side
ODD_ASPECT = 10  # longer side to shorter
LARGE_PIXELS = 25_000_000
ONE_COLOUR_SPREAD = 2  # gray levels: what JPEG makes of one color
RARE = 5  # images of a class in a split
IMBALANCE = 10  # images of the largest class to those of the smallest

KINDS = (  # in the order of a report
    "unreadable",
    "same_image_across_splits",
    "label_conflict",
    "near_duplicate_across_splits",
    "near_label_conflict",
    "duplicate",
    "near_duplicate",
    "wrong_extension",
    "tiny",
    "odd_shape",
    "one_color",
    "very_large",
    "empty_class",
    "rare_class",
    "imbalance",
    "note",
)


@dataclass(frozen=True)
class Finding:
    """Something to fix: an image, a pair of them, a class, or a note on the whole; what does not apply is empty.

    Attributes:
        severity: "error" for what makes a result wrong, "warning" for what may harm it.
        kind: one of KINDS.
    """

    severity: Severity
    kind: str
    split: str = ""
    label: str = ""
    path: str = ""
    other_split: str = ""
    other_label: str = ""
    other_path: str = ""
    detail: str = ""
    suggestion: str = ""


@dataclass(frozen=True)
class Sizes:
    """Sides, in pixels, of the readable images of a split; zeros where there is none."""

    readable: int
    median_height: int
    median_width: int
    smallest: int
    largest: int


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        findings: errors first, then by kind and place.
        counts: listed images of each class, per split.
        sizes: per split.
    """

    findings: list[Finding]
    counts: dict[str, Labels]
    sizes: dict[str, Sizes]

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


def check(source: Source, progress: Callable[[int, int], None]) -> Checked:
    """Open every image of every split once, on all cores, and look for what harms a classifier or its test.

    Args:
        source: as `open_source` gives it, with allow_empty.
        progress: told images done and images in all.
    """
    listing = Listing(source)
    seen = inspect(listing, progress)
    counts = {
        split: np.bincount(source.splits[split].labels, minlength=len(source.class_names)) for split in listing.splits
    }
    findings = [
        *_image_findings(listing, seen),
        *_pair_findings(listing, seen),
        *_class_findings(source.class_names, counts),
        *_notes(source),
    ]
    findings.sort(key=lambda finding: (finding.severity, KINDS.index(finding.kind)))
    sizes = {
        split: _sizes(seen.sides[(listing.split_numbers == number) & seen.readable])
        for number, split in enumerate(listing.splits)
    }
    return Checked(findings, counts, sizes)


def _image_findings(listing: Listing, seen: Seen) -> Iterator[Finding]:
    def found(number: int, kind: str, detail: str, suggestion: str, severity: Severity = "warning") -> Finding:
        split, label, path = listing.where(number)
        return Finding(severity, kind, split, label, path, detail=detail, suggestion=suggestion)

    for number, reason in seen.reasons.items():
        yield found(number, "unreadable", reason, "remove it, or get it anew", "error")
    for number, file_format in seen.formats.items():
        yield found(number, "wrong_extension", f"holds {file_format}", "rename it: other programs may not open it")
    for kind, chosen, suggestion in (
        ("tiny", _tiny(seen), "remove it, or get a larger one"),
        ("odd_shape", seen.sides.max(1) > ODD_ASPECT * seen.sides.min(1), "cut it: only its middle square is seen"),
        ("one_color", seen.spreads <= ONE_COLOUR_SPREAD, "remove it: there is nothing to see"),
        ("very_large", seen.sides.prod(1) > LARGE_PIXELS, "make it smaller: it is decoded anew in every epoch"),
    ):
        for number in np.flatnonzero(chosen & seen.readable).tolist():
            height, width = seen.sides[number].tolist()
            yield found(number, kind, f"{width}x{height} pixels", suggestion)


def _tiny(seen: Seen) -> npt.NDArray[np.bool_]:
    """Images with a side below TINY_SIDE; none where most have one, as scans of digits do."""
    tiny: npt.NDArray[np.bool_] = (seen.sides.min(1) < TINY_SIDE) & seen.readable
    return tiny if 2 * tiny.sum() < seen.readable.sum() else np.zeros_like(tiny)


def _pair_findings(listing: Listing, seen: Seen) -> Iterator[Finding]:
    groups, splits, labels = seen.groups(), listing.split_numbers, listing.labels
    for match in exact_matches(groups, splits, labels):
        yield _pair_finding(listing, match, exact=True)
    for match in near_matches(groups, splits, labels, seen.hashes, seen.small):
        yield _pair_finding(listing, match, exact=False)


def _pair_finding(listing: Listing, match: Match, exact: bool) -> Finding:
    place, other = listing.where(match.image), listing.where(match.other)
    severity: Severity = "warning"
    if match.relation == "across":
        kind = "same_image_across_splits" if exact else "near_duplicate_across_splits"
        severity = "error" if exact and other[0] == "train" else "warning"
        suggestion = "remove one of the two: what was trained on must not be tested on"
    elif match.relation == "conflict":
        kind = "label_conflict" if exact else "near_label_conflict"
        severity = "error" if exact else "warning"
        suggestion = "look at both, keep the right class, remove the other image"
    else:
        kind = "duplicate" if exact else "near_duplicate"
        suggestion = "remove one of the two"
        if len(listing.splits) == 1:
            suggestion += ": a random split may put one into train and the other into test"
    near = f"nearly the same: 16x16 pictures of correlation {1 - match.difference:.4f}"
    detail = "the same pixels" if exact else near
    return Finding(severity, kind, *place, *other, detail, suggestion)


def _class_findings(class_names: tuple[str, ...], counts: dict[str, Labels]) -> Iterator[Finding]:
    for split, images in counts.items():
        for name, count in zip(class_names, images.tolist(), strict=True):
            if count == 0:
                yield Finding("warning", "empty_class", split, name, detail="no image", suggestion="add images")
            elif count < RARE:
                detail = f"{count} image{'s' * (count > 1)}"
                yield Finding("warning", "rare_class", split, name, detail=detail, suggestion="add images")
    train = counts["train"]
    most, least = int(train.argmax()), int(np.where(train > 0, train, train.max()).argmin())
    ratio = train[most] / train[least]
    if ratio >= IMBALANCE:
        detail = (
            f"{train[most]:,} images of {class_names[most]}, {train[least]:,} of {class_names[least]}: {ratio:.1f} to 1"
        )
        suggestion = "add images of the small classes, and judge by balanced accuracy"
        yield Finding("warning", "imbalance", "train", detail=detail, suggestion=suggestion)


def _notes(source: Source) -> Iterator[Finding]:
    for note in source.notes:
        if not note.startswith(tuple(f"{split} has no image of " for split in source.splits)):  # said class by class
            yield Finding("warning", "note", detail=note, suggestion="see that nothing is missing")


def _sizes(sides: npt.NDArray[np.int32]) -> Sizes:
    if len(sides) == 0:
        return Sizes(0, 0, 0, 0, 0)
    height, width = np.median(sides, axis=0)
    return Sizes(len(sides), int(height), int(width), int(sides.min()), int(sides.max()))
