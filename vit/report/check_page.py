"""The page of `vit data check`: counts, sizes, duplicates side by side, and every other problem with its picture"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from vit.data.checks.check import CheckResult, Finding
from vit.data.checks.scan import ImageList
from vit.data.core.dataset_names import is_far
from vit.data.core.samples import Labels, Source
from vit.data.loading.threads import decode_threads
from vit.errors import ResourceError
from vit.report.page.page import link_to, scripts, write_page
from vit.report.page.style import drawn, look, plain
from vit.report.page.thumbnails import encoded, shrunk

MOST_NAMED = 40  # classes with a bar and a name each


def class_counts(
    counts: Mapping[str, Labels],
    class_names: Sequence[str],
    words: str = "images of a class",
    num_images: Mapping[str, int] | None = None,
) -> Figure:
    """A panel for each split: bars of the classes, largest of the first split first; a curve for very many classes.

    Args:
        counts: {split: (C,) number of images of each class}.
        num_images: {split: number of its images}, where an image may be of several classes or none.
    """
    first = next(iter(counts.values()))
    order = np.argsort(-first, kind="stable")
    few = len(class_names) <= MOST_NAMED
    height = 1.2 + 0.2 * len(class_names) if few else 3.4
    figure = Figure(figsize=(9, max(2.0, height)), layout="constrained")
    panels = figure.subplots(1, len(counts), sharey=few, squeeze=False)[0]
    for number, (axes, (split, own)) in enumerate(zip(panels, counts.items(), strict=True)):
        color, _ = look(0)
        if few:
            axes.barh(range(len(order)), own[order], color=color)
            for place, count in enumerate(own[order].tolist()):
                axes.text(count, place, f" {count:,}", va="center", fontsize=7)
            axes.set_yticks(range(len(order)), [plain(class_names[one]) for one in order])
            axes.set(ylim=(len(order) - 0.4, -0.6), xlim=(0, 1.25 * max(1, int(own.max()))))
            axes.set(xlabel=words)
        else:
            axes.fill_between(range(len(order)), own[order], step="mid", color=color, alpha=0.6, linewidth=0)
            axes.set(xlabel="classes, in the order of the first panel", ylim=(0, None))
            if number == 0:
                axes.set(ylabel=words)
        total = int(own.sum()) if num_images is None else num_images[split]
        axes.set_title(f"{split}: {total:,}", loc="left", fontsize=9)
    return figure


THUMBNAIL = 144  # pixels of the longer side
MOST_PICTURES = 600  # of the whole page
MOST_GROUPS = 40  # groups of equal images of one kind
PER_GROUP = 6  # images of a group
PER_KIND = 12  # images of any other kind
MOST_ROWS = 1000  # of the table of all findings
PAIRS = {  # kinds of findings about two images, in the order of the page
    "same_image_across_splits": "The same image in two splits",
    "near_duplicate_across_splits": "Nearly the same image in two splits",
    "label_conflict": "The same image with two labels",
    "near_label_conflict": "Nearly the same image with two labels",
    "duplicate": "The same image twice",
    "near_duplicate": "Nearly the same image twice",
}

Place = tuple[str, str]  # split and path
Section = dict[str, object]  # of the page


@dataclass(frozen=True)
class CheckCard:
    """An image of a finding; `picture` is None where it cannot be read or the page is full."""

    split: str
    label: str
    path: str
    detail: str
    link: str | None
    picture: Markup | None


def write_check_page(path: Path, source: Source, checked: CheckResult, list_file: str) -> None:
    """Write the page. ResourceError where the page cannot be written."""
    findings = checked.findings
    groups = {kind: _groups([one for one in findings if one.kind == kind]) for kind in PAIRS}
    others = {
        kind: [one for one in findings if one.kind == kind]
        for kind in dict.fromkeys(one.kind for one in findings if one.path and one.kind not in (*PAIRS, "unreadable"))
    }
    cards = _Cards(path, source)
    for pairs in groups.values():
        cards.want([place for group in pairs[:MOST_GROUPS] for place in group.places[:PER_GROUP]])
    for own in others.values():
        cards.want([(one.split, one.path) for one in own[:PER_KIND]])
    cards.read()
    kinds = Counter((one.severity, one.kind) for one in findings)
    suggestions = {one.kind: one.suggestion for one in reversed(findings)}
    nonempty = {split: counts for split, counts in checked.counts.items() if counts.sum()}
    content = {
        "data": source.name,
        "kind_of_label": source.task.kind,
        "num_classes": len(source.class_names),
        "num_images": sum(checked.num_images.values()),
        "errors": checked.errors,
        "warnings": len(findings) - checked.errors,
        "splits": [
            (split, checked.num_images[split], checked.sizes[split], _ratio(counts))
            for split, counts in checked.counts.items()
        ],
        "classes": drawn(class_counts(nonempty or checked.counts, source.class_names, "images", checked.num_images)),
        "kinds": [(severity, kind, count, suggestions[kind]) for (severity, kind), count in kinds.items()],
        "linked": {one.kind for one in findings if one.kind in (*PAIRS, *others, "unreadable")},
        "pairs": [_pair_section(kind, found, cards, findings) for kind, found in groups.items() if found],
        "unreadable": [one for one in findings if one.kind == "unreadable"][:MOST_ROWS],
        "others": [_kind_section(kind, own, cards) for kind, own in others.items()],
        "findings": findings[:MOST_ROWS],
        "num_findings": len(findings),
        "list_file": list_file,
        **scripts("table.js"),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, "check.html", content)
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {error.strerror}", "choose another --page") from error


@dataclass(frozen=True)
class _Group:
    """Images that pairs join, in the order of the list."""

    places: list[Place]
    labels: dict[Place, str]
    detail: str


def _groups(findings: Sequence[Finding]) -> list[_Group]:
    """Pairs that share an image together, in the order of their first pair."""
    from scipy.cluster.hierarchy import DisjointSet

    joined = DisjointSet()
    labels: dict[Place, str] = {}
    details: dict[Place, str] = {}
    for one in findings:
        other, place = (one.other_split, one.other_path), (one.split, one.path)
        labels |= {other: one.other_label, place: one.label}
        details[place] = one.detail
        for each in (other, place):
            joined.add(each)
        joined.merge(other, place)
    members: dict[Place, list[Place]] = {}
    for place in labels:
        members.setdefault(joined[place], []).append(place)
    return [
        _Group(places, labels, next((details[place] for place in places if place in details), ""))
        for places in members.values()
    ]


class _Cards:
    """Pictures of the images of findings, read on all cores, up to the bound of the page."""

    def __init__(self, page: Path, source: Source) -> None:
        self._page, self._images = page, ImageList(source)
        self._files = {split: part.arrays is None and part.reader is None for split, part in source.splits.items()}
        self._wanted: dict[Place, None] = {}
        self._pictures: dict[Place, Markup | None] = {}

    def want(self, places: Sequence[Place]) -> None:
        """Images whose pictures are asked for later; those beyond the bound have none."""
        for place in places:
            if len(self._wanted) < MOST_PICTURES:
                self._wanted[place] = None

    def read(self) -> None:
        """Read the wanted pictures."""
        numbers = self._images.places(self._wanted.keys())
        with decode_threads() as parallel:
            self._pictures = dict(zip(numbers, parallel(self._thumbnail, numbers.values()), strict=True))

    def card(self, place: Place, label: str, detail: str = "") -> CheckCard:
        """The card of an image."""
        split, path = place
        has_file = self._files[split] or is_far(path)
        link = link_to(path, self._page) if has_file and os.fspath(path) else None
        return CheckCard(split, label, path, detail, link, self._pictures.get(place))

    def _thumbnail(self, image: int) -> Markup | None:
        pixels = self._images.picture(image)
        return None if pixels is None else encoded(shrunk(pixels, THUMBNAIL))


def _pair_section(kind: str, groups: Sequence[_Group], cards: _Cards, findings: Sequence[Finding]) -> Section:
    """Groups of images that are equal, or nearly so: (number of images, some of them, what is known of them)."""
    shown = [
        (
            len(group.places),
            [cards.card(place, group.labels[place]) for place in group.places[:PER_GROUP]],
            group.detail,
        )
        for group in groups[:MOST_GROUPS]
    ]
    first = next(one for one in findings if one.kind == kind)
    return {"first": first, "title": PAIRS[kind], "count": len(groups), "groups": shown}


def _kind_section(kind: str, findings: Sequence[Finding], cards: _Cards) -> Section:
    """Images with another problem."""
    shown = [cards.card((one.split, one.path), one.label, one.detail) for one in findings[:PER_KIND]]
    title = kind.replace("_", " ").capitalize()
    return {"first": findings[0], "title": title, "count": len(findings), "cards": shown}


def _ratio(counts: Labels) -> str:
    """How many times the largest class is as large as the smallest that has images."""
    present = counts[counts > 0]
    return f"{present.max() / present.min():.1f}" if len(present) else ""
