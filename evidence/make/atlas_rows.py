"""The kept rows of docs/atlas.md: evidence/atlas/*.csv."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from definitions import EVIDENCE

from vit.atomic_files import atomic_write
from vit.csv_files import new_table, records

FOLDER = EVIDENCE / "atlas"
SIZES = (25, 50, 100, 200, 300, 400)  # training images of frozen networks, as far as a set has them
MOST_USED = {"train": 480, "validation": 100, "test": 300}  # images of a set that frozen networks see
SIDE, SMALL_SIDE = 224, 96  # pixels: of the weights, and of the trainings
CHOSEN = ("textures", "monkeys", "tiles", "signs")  # the smallest sets with 200 test images or more
STAGES = (((50,), 2), ((50, 200), 2), ((50, 100, 200), 2), ((50, 100, 200), 3))  # sizes and seeds, each holds the last
WHOLE = 2 * len(STAGES[-1][0]) * STAGES[-1][1]  # trainings of a set

OneRow = TypeVar("OneRow", bound="Key")


@dataclass(frozen=True)
class Key:
    """What a row is about: a set, its networks, and the side of their images.

    Networks are `frozen`, `tuned`, or a `second` pair: frozen with EfficientNet-Lite2 in the place of Lite0.
    """

    set: str
    stage: str
    side: int

    @property
    def key(self) -> "Key":
        """What the row is about, alone."""
        return Key(self.set, self.stage, self.side)


@dataclass(frozen=True)
class SetRow(Key):
    """The images of a set, those that were used, and the time. `folds` is 0 where all seeds have one test."""

    classes: int
    images: int
    train: int
    validation: int
    test: int
    folds: int
    seconds: int
    machine: str


@dataclass(frozen=True)
class ErrorRow(Key):
    """The share of test images that one network misclassifies."""

    network: str
    images: int
    seed: int
    error: float


@dataclass(frozen=True)
class DifferenceRow(Key):
    """Error of the CNN minus error of the ViT, with its 95 % interval; paired by seeds and test images."""

    images: int
    seeds: int
    gap: float
    standard_error: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class ForecastRow(Key):
    """What a curve up to `known_to` images forecasts, with its 95 % interval, beside the error that was measured."""

    network: str
    known_to: int
    images: int
    forecast: float
    low: float
    high: float
    measured: float


FILES: dict[str, type[Key]] = {
    "errors.csv": ErrorRow, "differences.csv": DifferenceRow, "forecasts.csv": ForecastRow,
    "sets.csv": SetRow,  # the last one, because its row says that a job is done
}  # fmt: skip


def read_rows(kind: type[OneRow], folder: Path = FOLDER) -> list[OneRow]:
    """The kept rows of a kind."""
    (name,) = (name for name, own in FILES.items() if own is kind)
    if not (folder / name).is_file():
        return []
    types: dict[str, Callable[[str], Any]] = kind.__annotations__ | Key.__annotations__
    return [kind(**{key: types[key](value) for key, value in row.items()}) for row in records(folder / name)]


def keep(key: Key, found: Sequence[Key], folder: Path = FOLDER) -> None:
    """Write the rows of a key, in the place of older ones."""
    for name, kind in FILES.items():
        old = [row for row in read_rows(kind, folder) if row.key != key]
        rows = sorted([*old, *(row for row in found if type(row) is kind)], key=astuple)
        with (
            atomic_write(folder / name) as partial,
            new_table(partial, [field.name for field in fields(kind)]) as table,
        ):
            for row in rows:
                table.row(value if not isinstance(value, float) else float(f"{value:.6g}") for value in astuple(row))
