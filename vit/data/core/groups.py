"""Groups of images that belong together, such as all pictures of one patient, and copies: no split divides them

A network recognizes a patient, a camera or a day. Test images of a group with training images therefore give an
accuracy that new groups do not reach.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from vit.console import count_of
from vit.data.core.samples import Source
from vit.errors import DataError, UsageError, explained, some_of
from vit.tasks.label_text import alike_key

ALIKE = "differ only in case, spaces, Unicode form or number format"
UNDO = "--data.bursts split undoes it"  # ends the notes of near-duplicates that are kept together
_SHOWN = 3  # groups in a note
_DERIVED = re.compile(  # the end of the name of a mask, or of a changed copy
    r"[ _.-]+(masks?|seg|segmentation|gt|groundtruth|trimap|overlay|aug|augmented|copy|[hv]?flip|flipped|rot|rotated"
    r"|crop|cropped|noise|blur|bright)[ _-]?[0-9]*$",
    re.IGNORECASE,
)
_COPIES = "are copies of images in other splits"


def with_groups(source: Source, pattern: str | None, option: str = "data.groups") -> Source:
    """The source with the groups that a regular expression finds in the paths, by its first group; None: as they are.

    UsageError where the pattern is not a regular expression with a group, DataError where a path lacks it.
    """
    if pattern is None:
        return source
    compiled, splits = group_pattern(pattern, option), {}
    for split, samples in source.splits.items():
        names = [match[1] if (match := compiled.search(path)) else "" for path in samples.paths]
        missing = [path for path, name in zip(samples.paths, names, strict=True) if not name]
        if missing:
            paths = f"{len(missing):,} of {len(samples):,} paths, such as {missing[0]}"
            fix = "change the expression: each path below DATA needs a group"
            raise DataError(f"{option} {pattern!r} finds no group in {paths}", fix)
        splits[split] = replace(samples, groups=tuple(names))
    return replace(source, splits=splits)


def group_pattern(pattern: str, option: str = "data.groups") -> re.Pattern[str]:
    """The regular expression of a text; UsageError, which names the option, if it is not one, or has no group."""
    fix = "give a regular expression, such as '(patient[0-9]+)'"
    with explained(UsageError, f"{option} {pattern!r} is not a regular expression", fix, re.error):
        compiled = re.compile(pattern)
    if compiled.groups == 0:
        fix = f"put the part that names the group in parentheses: '({pattern})'"
        raise UsageError(f"{option} {pattern!r} has no group in parentheses", fix)
    return compiled


def group_notes(source: Source) -> list[str]:
    """Warnings where images that belong together may be in two splits: alike groups, masks and changed copies."""
    notes = []
    if pairs := similar_names(sorted({name for one in source.splits.values() for name in one.groups or ()})):
        (one, twin), *others = pairs
        more = f", and {len(others):,} more," * bool(others)
        notes = [f"WARNING: groups {one!r} and {twin!r}{more} {ALIKE}; if they are one, write them alike"]
    groups = {
        path.rpartition(".")[0] or path: None if one.groups is None else one.groups[place]
        for one in source.splits.values()
        for place, path in enumerate(one.paths)
    }
    derived = [
        name
        for name, group in groups.items()
        if (original := original_of(name)) in groups and (group is None or groups[original] != group)
    ]
    if derived:
        several = f"{len(derived):,} image{'s are' if len(derived) > 1 else ' is'}"
        endings = "|".join(sorted({match[1].casefold() for name in derived if (match := _DERIVED.search(name))}))
        option = rf"--data.groups '(?i)(.+?)([ _.-]+({endings})[ _-]?[0-9]*)?[.][^.]*$'"
        notes.append(
            f"WARNING: {several} named as masks or changed copies of others, such as {derived[0]}: leave masks out; "
            f"copies in other splits make results too good, and {option} keeps them together"
        )
    return notes


def similar_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that people would take for one: the first of its kind, and another."""
    folded = dict[object, str]()
    pairs = []
    for name in names:
        twin = folded.setdefault(alike_key(name), name)
        pairs += [(twin, name)] * (twin != name)
    return pairs


def original_of(name: str) -> str:
    """The image or class whose mask or changed copy another one is by its name: "a" of "a_mask"; "" for others."""
    match = _DERIVED.search(name)
    return name[: match.start()] if match else ""


def leaks(source: Source) -> list[tuple[str, str, list[str]]]:
    """(split, other split, sorted names of the groups that have images in both) for splits that share groups."""
    groups = {split: set(samples.groups) for split, samples in source.splits.items() if samples.groups is not None}
    pairs = [(one, other) for place, one in enumerate(groups) for other in list(groups)[place + 1 :]]
    shared = [(one, other, sorted(groups[one] & groups[other])) for one, other in pairs]
    return [leak for leak in shared if leak[2]]


def leak_note(one: str, other: str, names: Sequence[str]) -> str:
    """A sentence about two splits that share groups with these names."""
    shared = f"{count_of(len(names), 'group')} ({some_of(names, _SHOWN)})"
    return f"WARNING: {one} and {other} share {shared}: the accuracy will be too high for images of new groups"


def copies_note(hashes: Mapping[str, Sequence[str]]) -> str:
    """How many validation and test images are copies of images that decide something, in words; "" where none is.

    A test image counts if it is in any other split, and a validation image if it is in the training split. The content
    hash of an image that could not be read is "".
    """
    others = {"test": ("train", "validation", "calibration"), "validation": ("train",)}
    parts = []
    for split, names in others.items():
        known = {one for name in names for one in hashes.get(name, ())} - {""}
        own = hashes.get(split, ())
        if count := sum(one in known for one in own):
            parts.append(f"{count:,} of {len(own):,} {split} images")
    fix = "so that results on them are too good; leave out the copies that 'vit data check' lists"
    return f"{' and '.join(parts)} {_COPIES}, {fix}" if parts else ""


def with_most_copies(sentences: Iterable[str]) -> list[str]:
    """Different sentences about the images of several trainings; of those of `copies_note`, one with the most copies.

    Trainings of a study have parts of the same training images, and so different numbers of copies.
    """
    distinct = list(dict.fromkeys(sentences))
    copied = [one for one in distinct if _COPIES in one]
    most = max(copied[::-1], key=lambda one: int(one.partition(" ")[0].replace(",", "")), default="")
    return [one for one in distinct if one == most or one not in copied]
