"""The page of `vit data check`: counts, sizes, duplicates side by side, and every other problem with its picture"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from vit.data.checks.check import CheckResult, Finding
from vit.data.checks.scan import ImageList
from vit.data.core.dataset_names import is_far
from vit.data.core.samples import Labels, Source
from vit.data.loading.threads import decode_threads
from vit.report.page.page import link_to, scripts, write_new_page
from vit.report.page.style import drawn, look, plain
from vit.report.picture_page import encoded, shrunk

MOST_NAMED = 40  # classes with a bar and a name each
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
Group = tuple[list[tuple[Place, str]], str]  # images with their labels that pairs join, and what is known of them


def class_counts(counts: Mapping[str, Labels], class_names: Sequence[str], num_images: Mapping[str, int]) -> Figure:
    """A panel for each split: bars of the classes, largest of the first split first; a curve for very many classes.

    Args:
        counts: {split: (C,) number of images of each class}; an image may be of several classes or none.
        num_images: {split: number of its images}.
    """
    first = next(iter(counts.values()))
    order = np.argsort(-first, kind="stable")
    few = len(class_names) <= MOST_NAMED
    height = 1.2 + 0.2 * len(class_names) if few else 3.4
    figure = Figure(figsize=(9, max(2.0, height)), layout="constrained")
    panels = figure.subplots(1, len(counts), sharey=few, squeeze=False)[0]
    for number, (axes, (split, of_split)) in enumerate(zip(panels, counts.items(), strict=True)):
        color, _ = look(0)
        if few:
            axes.barh(range(len(order)), of_split[order], color=color)
            for place, count in enumerate(of_split[order].tolist()):
                axes.text(count, place, f" {count:,}", va="center", fontsize=7)
            axes.set_yticks(range(len(order)), [plain(class_names[one]) for one in order])
            axes.set(ylim=(len(order) - 0.4, -0.6), xlim=(0, 1.25 * max(1, int(of_split.max()))))
            axes.set(xlabel="images")
        else:
            axes.fill_between(range(len(order)), of_split[order], step="mid", color=color, alpha=0.6, linewidth=0)
            axes.set(xlabel="classes, in the order of the first panel", ylim=(0, None))
            if number == 0:
                axes.set(ylabel="images")
        axes.set_title(f"{split}: {num_images[split]:,}", loc="left", fontsize=9)
    return figure


def write_check_page(path: Path, source: Source, checked: CheckResult, list_file: str) -> None:
    """Write the page. ResourceError where the page cannot be written."""
    findings = checked.findings
    groups = {kind: _groups([one for one in findings if one.kind == kind]) for kind in PAIRS}
    others = {
        kind: [one for one in findings if one.kind == kind]
        for kind in dict.fromkeys(one.kind for one in findings if one.path and one.kind not in (*PAIRS, "unreadable"))
    }
    wanted = [place for own in groups.values() for group, _ in own[:MOST_GROUPS] for place, _ in group[:PER_GROUP]]
    wanted += [(one.split, one.path) for own in others.values() for one in own[:PER_KIND]]
    pictures = _pictures(source, set(list(dict.fromkeys(wanted))[:MOST_PICTURES]))
    has_files = {split: part.arrays is None and part.reader is None for split, part in source.splits.items()}

    def card(place: Place, label: str, detail: str = "") -> dict[str, object]:
        """An image of a finding; its picture is None where it cannot be read or the page is full."""
        split, file = place
        link = link_to(file, path) if file and (has_files[split] or is_far(file)) else None
        about = {"split": split, "label": label, "path": file, "detail": detail}
        return {**about, "link": link, "picture": pictures.get(place)}

    nonempty = {split: counts for split, counts in checked.counts.items() if counts.sum()}
    content = {
        "source": source,
        "checked": checked,
        "kind_of_label": source.task.kind,
        "classes": drawn(class_counts(nonempty or checked.counts, source.class_names, checked.num_images)),
        "kinds": Counter((one.severity, one.kind) for one in findings),
        "firsts": {one.kind: one for one in reversed(findings)},  # of each kind
        "titles": PAIRS,
        "pairs": {
            kind: [(len(some), [card(*one) for one in some[:PER_GROUP]], detail) for some, detail in own[:MOST_GROUPS]]
            for kind, own in groups.items()
            if own
        },
        "counts": {kind: len(own) for kind, own in groups.items()} | {kind: len(own) for kind, own in others.items()},
        "others": {
            kind: [card((one.split, one.path), one.label, one.detail) for one in own[:PER_KIND]]
            for kind, own in others.items()
        },
        "most_rows": MOST_ROWS,
        "list_file": list_file,
        **scripts("table.js"),
    }
    write_new_page(path, "check.html", content)


def _groups(findings: Sequence[Finding]) -> list[Group]:
    """Pairs that share an image together, in the order of their first pair."""
    from scipy.cluster.hierarchy import DisjointSet

    labels: dict[Place, str] = {}
    for one in findings:
        labels |= {(one.other_split, one.other_path): one.other_label, (one.split, one.path): one.label}
    details = {(one.split, one.path): one.detail for one in findings}
    joined = DisjointSet(labels)
    for one in findings:
        joined.merge((one.other_split, one.other_path), (one.split, one.path))
    members: dict[Place, list[Place]] = {}
    for place in labels:
        members.setdefault(joined[place], []).append(place)
    return [
        ([(place, labels[place]) for place in places], next((details[one] for one in places if one in details), ""))
        for places in members.values()
    ]


def _pictures(source: Source, wanted: AbstractSet[Place]) -> dict[Place, Markup | None]:
    """Small pictures of images, read on all cores."""
    images = ImageList(source)
    numbers = images.places(wanted)

    def thumbnail(image: int) -> Markup | None:
        pixels = images.picture(image)
        return None if pixels is None else encoded(shrunk(pixels, THUMBNAIL))

    with decode_threads() as parallel:
        return dict(zip(numbers, parallel(thumbnail, numbers.values()), strict=True))
