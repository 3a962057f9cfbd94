"""Images that the runs of `vit compare` give different labels, as cards of its page"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from vit.report.run.run_pictures import Cards
from vit.study.run_comparison import RunComparison

PER_SECTION = 12  # pictures
MOST_PICTURES = 240  # of all sections together


@dataclass(frozen=True)
class Guess:
    """What one run says of an image."""

    run: str
    predicted: str
    probability: float
    is_right: bool


@dataclass(frozen=True)
class ComparedCard:
    """An image with the labels that the runs give it."""

    path: str
    label: str
    guesses: list[Guess]
    picture: Markup | None


@dataclass(frozen=True)
class ImageSection:
    """Images that runs give different labels."""

    anchor: str  # name of its place on the page
    title: str  # what the images have in common
    count: int  # number of all such images
    cards: list[ComparedCard]


def letters(count: int) -> list[str]:
    """Short names of runs: A, B, ..., Z, then numbers."""
    return [chr(ord("A") + place) if place < 26 else f"{place + 1}" for place in range(count)]


def image_sections(found: RunComparison, pictures: Cards) -> list[ImageSection]:
    """Images by who is right; for recipes with several seeds one section."""
    if found.groups:
        groups = [("images", "Different labels, largest difference in loss first", found.disagreements)]
    else:
        first, groups = found.runs[0], []
        for number, pair in enumerate(found.pairs):
            other, letter = pair.other, letters(number + 2)[-1]
            for side, title, wanted in (
                ("first", f"Only A is right, not {letter}", (True, False)),
                ("other", f"Only {letter} is right, not A", (False, True)),
                ("wrong", f"A and {letter} are wrong in different ways", (False, False)),
            ):
                indices = [
                    index
                    for index in found.disagreements
                    if tuple(row.label == row.predicted for row in (first.rows[index], other.rows[index])) == wanted
                    and first.rows[index].predicted != other.rows[index].predicted
                ]
                if indices:
                    groups.append((f"{side}-{number}", title, indices))
    each = min(4 * PER_SECTION if found.groups else PER_SECTION, max(2, MOST_PICTURES // max(1, len(groups))))
    groups_shown = groups[: MOST_PICTURES // each]
    pictures.prepare([index for _, _, indices in groups_shown for index in indices[:each]])
    return [
        ImageSection(anchor, title, len(indices), _cards(found, pictures, indices[:each]))
        for anchor, title, indices in groups_shown
    ]


def _cards(found: RunComparison, pictures: Cards, indices: Sequence[int]) -> list[ComparedCard]:
    cards = []
    for index, card in zip(indices, pictures.cards(indices), strict=True):
        rows = list(zip(letters(len(found.runs)), (run.rows[index] for run in found.runs), strict=True))
        guesses = [Guess(name, row.predicted, row.probability, row.label == row.predicted) for name, row in rows]
        cards.append(ComparedCard(rows[0][1].path, rows[0][1].label, guesses, card.picture))
    return cards
