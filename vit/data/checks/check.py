"""Findings about a data set: broken files, odd pictures, pairs of equal pictures, uneven classes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.csv_files import describe_escapes
from vit.data.checks.contents import Progress
from vit.data.checks.duplicates import Match, exact_matches, near_matches
from vit.data.checks.scan import ImageList, ScannedImages, scan_images
from vit.data.core.groups import leaks
from vit.data.core.samples import Labels, Source
from vit.data.pixels.preprocess import COLORS
from vit.tasks.task import Task

Severity = Literal["error", "warning"]

TINY_SIDE = 16  # pixels of the shorter side
ODD_ASPECT = 10  # longer side divided by shorter side
LONG_ASPECT = 2  # the middle square is half of such an image
LONG_SHARE = 0.05  # of all images: fewer long ones do not justify preparing all images otherwise
LARGE_PIXELS = 25_000_000
ONE_COLOR_SPREAD = 2  # gray levels: JPEG changes one color by so much
RARE = 5  # images of a class in a split
IMBALANCE = 10  # images of the largest class, divided by those of the smallest

_HIDES = "train with --resize_mode pad, which shows whole images: the usual crop of the middle square hides"

KINDS = (  # in the order of a report
    "unreadable", "same_image_across_splits", "group_across_splits", "label_conflict", "near_duplicate_across_splits",
    "near_label_conflict", "duplicate", "near_duplicate", "wrong_extension", "tiny", "odd_shape", "long_images",
    "one_color", "several_frames", "very_large", "channels", "more_than_8_bits", "empty_class", "rare_class",
    "imbalance", "note",
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A row of data_check.csv: a problem of one image, of two, of a class or of all data. Unused fields are empty."""

    severity: Severity  # "error" where a result becomes wrong, "warning" where it may suffer
    kind: str  # one of KINDS
    split: str = ""
    label: str = ""  # class name, or labels
    path: str = ""
    other_split: str = ""  # these three are of the second image of a pair
    other_label: str = ""
    other_path: str = ""
    detail: str = ""  # facts about the problem
    suggestion: str = ""  # how to fix the problem


@dataclass(frozen=True)
class Sizes:
    """Sides of the readable images of a split, in pixels."""

    readable: int  # number of readable images; where it is 0, all other fields are 0
    median_height: int
    median_width: int
    smallest: int  # shortest side of any image
    largest: int  # longest side of any image

    @classmethod
    def of(cls, sides: npt.NDArray[np.int32]) -> "Sizes":
        """Those of images of some heights and widths (n, 2)."""
        if len(sides) == 0:
            return cls(0, 0, 0, 0, 0)
        height, width = np.median(sides, axis=0)
        return cls(len(sides), int(height), int(width), int(sides.min()), int(sides.max()))


@dataclass(frozen=True)
class CheckResult:
    """The findings and the statistics of a data set."""

    findings: list[Finding]  # all problems, errors first, then in the order of KINDS
    counts: dict[str, Labels]  # {split: number of listed images of each class, or with each label}
    num_images: dict[str, int]  # {split: number of listed images}
    sizes: dict[str, Sizes]  # {split: sides of its images}

    @property
    def errors(self) -> int:
        """Number of findings that are errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def ratios(self) -> dict[str, str]:
        """{split: how many times its largest class is as large as the smallest that has images}."""
        present = {split: counts[counts > 0] for split, counts in self.counts.items()}
        return {split: f"{some.max() / some.min():.1f}" if len(some) else "" for split, some in present.items()}


def check(source: Source, progress: Progress) -> CheckResult:
    """Decode every image of every split, and find what harms a classifier or its test."""
    images = ImageList(source)
    scanned = scan_images(images, progress)
    counts = {split: source.splits[split].class_counts(len(source.class_names)) for split in images.splits}
    findings = [
        *_image_findings(images, scanned),
        *_kind_findings(images, scanned),
        *_pair_findings(images, scanned, source.task),
        *_group_findings(source),
        *_class_findings(source.class_names, counts, source.task),
        *_notes(source),
    ]
    findings.sort(key=lambda finding: (finding.severity, KINDS.index(finding.kind)))
    sizes = {
        split: Sizes.of(scanned.facts["sides"][(images.split_numbers == number) & scanned.readable])
        for number, split in enumerate(images.splits)
    }
    num_images = {split: len(source.splits[split]) for split in images.splits}
    return CheckResult(findings, counts, num_images, sizes)


def _image_findings(images: ImageList, scanned: ScannedImages) -> Iterator[Finding]:
    """What is wrong with single images."""

    def finding(image: int, kind: str, detail: str, suggestion: str, severity: Severity = "warning") -> Finding:
        return Finding(severity, kind, *images.describe(image), detail=detail, suggestion=suggestion)

    facts, readable = scanned.facts, scanned.readable
    longer, shorter = facts["sides"].max(1), facts["sides"].min(1)
    tiny = (shorter < TINY_SIDE) & readable
    if 2 * tiny.sum() >= readable.sum():  # most images, as of scans of digits
        tiny[:] = False
    for image, reason in scanned.reasons.items():
        yield finding(image, "unreadable", reason, "get the image again, or move the file elsewhere", "error")
    for image, file_format in scanned.formats.items():
        yield finding(image, "wrong_extension", f"holds {file_format}", "rename it: other programs may not open it")
    for kind, has_problem, suggestion in (
        ("tiny", tiny, "leave it out, or get a larger one"),
        ("odd_shape", longer > ODD_ASPECT * shorter, f"{_HIDES} more than 90 % of it"),
        ("one_color", facts["spread"] <= ONE_COLOR_SPREAD, "look at it: one color shows nothing"),
        ("several_frames", facts["has_frames"], "save other frames as images of their own: only the first is read"),
        ("very_large", facts["sides"].prod(1) > LARGE_PIXELS, "make it smaller: every epoch decodes it again"),
    ):
        for image in np.flatnonzero(has_problem & readable).tolist():
            height, width = facts["sides"][image].tolist()
            yield finding(image, kind, f"{width}x{height} pixels", suggestion)


def _kind_findings(images: ImageList, scanned: ScannedImages) -> Iterator[Finding]:
    """What all or many images are like: other channels, more than 8 bits, or long shapes."""
    facts, readable = scanned.facts, scanned.readable
    counts = np.bincount(facts["channels"][readable], minlength=1)
    usual = int(counts.argmax())
    for image in np.flatnonzero(readable & (facts["channels"] != usual)).tolist():
        detail = f"{facts['channels'][image]} channels; most images have {usual}"
        suggestion = "convert it, or leave it out"
        yield Finding("warning", "channels", *images.describe(image), detail=detail, suggestion=suggestion)
    if usual not in (0, COLORS):
        suggestion = f"train with --model.preprocess.channels {usual}"
        detail = f"{counts[usual]:,} images have {usual} channels"
        yield Finding("warning", "channels", detail=detail, suggestion=suggestion)
    deep = np.flatnonzero(facts["is_deep"])
    if len(deep):
        detail, suggestion = f"all {len(deep):,} images", "nothing: a training measures the range of their values"
        if len(deep) < readable.sum():
            detail = f"{len(deep):,} of {readable.sum():,} images, such as {images.samples.name(int(deep[0]))}"
            suggestion = "bring all images to one depth: a window changes the deep ones alone"
        yield Finding("warning", "more_than_8_bits", detail=detail, suggestion=suggestion)
    longer, shorter = facts["sides"].max(1), facts["sides"].min(1)
    long = np.flatnonzero(readable & (longer > LONG_ASPECT * shorter))
    if len(long) > LONG_SHARE * len(readable):  # by default a network sees the middle square of each
        hidden = 1 - shorter[long] / longer[long]
        worst = int(long[hidden.argmax()])
        height, width = facts["sides"][worst].tolist()
        example = f"{images.samples.name(worst)} ({width}x{height} pixels)"
        detail = f"{len(long):,} of {len(readable):,} images are longer than {LONG_ASPECT}:1, such as {example}"
        suggestion = f"{_HIDES} {np.median(hidden):.0%} of the area in the median, and up to {hidden.max():.0%}"
        yield Finding("warning", "long_images", detail=detail, suggestion=suggestion.replace("%", " %"))


def _pair_findings(images: ImageList, scanned: ScannedImages, task: Task) -> Iterator[Finding]:
    groups, splits, labels = scanned.groups(), images.split_numbers, images.labels
    hashes = scanned.facts["perceptual_hash"].copy()  # in one piece
    yield from (_pair_finding(images, match, True, task) for match in exact_matches(groups, splits, labels))
    near = near_matches(groups, splits, labels, hashes, scanned.facts["thumbnail"])
    yield from (_pair_finding(images, match, False, task) for match in near)


def _pair_finding(images: ImageList, match: Match, exact: bool, task: Task) -> Finding:
    one, other = images.describe(match.image), images.describe(match.other)
    is_error = False
    if match.relation == "across":
        kind = "same_image_across_splits" if exact else "near_duplicate_across_splits"
        is_error = exact and other[0] == "train"
        why = "the validation images choose the checkpoint, which the test measures"
        why = "a test image must not be a training image" if other[0] == "train" else why
        suggestion = f"leave one of the two out: {why}"
    elif match.relation == "conflict":
        kind, is_error = "label_conflict" if exact else "near_label_conflict", exact
        right = task.kind if task.is_exclusive else task.kinds
        suggestion = f"look at both, keep the right {right}, leave the other image out"
    else:
        kind = "duplicate" if exact else "near_duplicate"
        suggestion = "leave one of the two out"
        if len(images.splits) == 1:
            suggestion += ": a random split may put one into train and the other into test"
    near = f"nearly the same (correlation of 16x16 thumbnails {1 - match.difference:.4f})"
    severity: Severity = "error" if is_error else "warning"
    return Finding(severity, kind, *one, *other, "the same pixels" if exact else near, suggestion)


def _group_findings(source: Source) -> Iterator[Finding]:
    for split, other, names in leaks(source):
        severity: Severity = "error" if split == "train" else "warning"
        fix = "move all images of a group into one split, or leave the splits to vit"
        for name in names:
            detail = f"group {name!r} has images in both"
            yield Finding(severity, "group_across_splits", split, other_split=other, detail=detail, suggestion=fix)


def _class_findings(class_names: tuple[str, ...], counts: dict[str, Labels], task: Task) -> Iterator[Finding]:
    for split, per_class in counts.items():
        for name, count in zip(class_names, per_class.tolist(), strict=True):
            if count == 0:
                yield Finding("warning", "empty_class", split, name, detail="no image", suggestion="add images")
            elif count < RARE:
                detail = f"{count} image{'s' * (count > 1)}"
                yield Finding("warning", "rare_class", split, name, detail=detail, suggestion="add images")
    train = counts["train"]
    most, least = int(train.argmax()), int(np.where(train > 0, train, train.max()).argmin())
    ratio = train[most] / train[least]
    if ratio >= IMBALANCE:
        sizes = f"{train[most]:,} images of {class_names[most]}, {train[least]:,} of {class_names[least]}"
        suggestion = f"add images {task.of} the rare {task.kinds}, and judge by {task.balanced_by}"
        yield Finding("warning", "imbalance", "train", detail=f"{sizes}: {ratio:.1f} to 1", suggestion=suggestion)


def _notes(source: Source) -> Iterator[Finding]:
    missing_classes = tuple(f"{split} has no image " for split in source.splits)  # `_class_findings` has them
    escapes = describe_escapes(source.class_names)  # of our tables, and no fault of the images
    for note in source.notes:
        if note != escapes and not note.startswith(missing_classes):
            yield Finding("warning", "note", detail=note, suggestion="make sure that nothing is missing")
