"""What a study refuses before it trains: options that it decides itself, equal trainings, and other images"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from vit.commands.recipe_options import SHORT
from vit.commands.study_options import StudyOptions
from vit.errors import UsageError
from vit.training.recipes.probe_options import as_trained

if TYPE_CHECKING:
    from vit.data.samples import Source
    from vit.study.grid import Budget, Cell, Inputs

_OF_CELLS = {"seed": "--seeds", "data.subset_seed": "--seeds", "data.train_images": "--sizes"}
ONE_DEVICE = ("trainer.devices", "trainer.num_nodes")  # options that a cell and a fold do not follow
_OF_LENGTH = ("optim.steps", "optim.epochs")


def check_given(options: StudyOptions, budget: "Budget") -> None:
    """Raise UsageError for an option of cells that the study itself decides, and would overwrite."""
    for name in _given(options):
        if name in _OF_CELLS:
            raise UsageError(f"a study decides {name} of every cell", f"leave it out, and give {_OF_CELLS[name]}")
        if name in ONE_DEVICE:
            raise UsageError(f"{name} in a study, whose cells train on one device each", "leave it out")
        if name in _OF_LENGTH and (budget.steps or budget.epochs):
            raise UsageError(
                f"--budget {budget} decides the length of every training, so {name} would do nothing",
                f"leave {name} out, or give --budget recipe for trainings as long as their own options say",
            )


def _given(options: StudyOptions) -> Iterator[str]:
    """Dotted names of all options that the user gave for the cells, also beside the name of a network."""
    assert not isinstance(options.tune, str)
    yield from (*options.set, *options.vary, *options.tune, *(f"data.{name}" for name in options.data))
    if isinstance(options.networks, Mapping):
        for words in options.networks.values():
            flags = (word.partition("=")[0] for word in str(words).split() if word.startswith("--"))
            yield from (SHORT.get(flag, flag).removeprefix("--") for flag in flags)


def check_different(cells: Iterable["Cell"], inputs: "Inputs") -> None:
    """Raise UsageError where two series, or two values to tune, are one training: their comparison says nothing.

    Args:
        inputs: hashes of the images and weights of all cells.
    """
    from vit.study.grid import key_of

    found: dict[str, Cell] = {}
    for cell in cells:
        same = found.setdefault(key_of(as_trained(cell.recipe), inputs), cell)  # with its number of images and its seed
        if same is not cell:
            cut = same.recipe.optim.batch_size == cell.num_images
            raise UsageError(
                f"{same.words()} and {cell.words()} are the same training",
                "give larger --sizes: a batch has no more images than there are" if cut else "leave one of them out",
            )


def check_same_images(series: str, source: "Source", first: str, expected: "Source") -> None:
    """Raise UsageError where two series validate or test on different images or groups, which cannot be paired.

    Args:
        series: name of a series.
        source: images of this series.
        first: name of the first series.
        expected: images of the first series.
    """
    for split in sorted((expected.splits.keys() | source.splits.keys()) - {"train"}):
        own, other = (found.splits.get(split) for found in (source, expected))
        if own is None or other is None or own.fingerprint() != other.fingerprint():
            raise UsageError(
                f"{first} and {series} have different {split} images, and a study compares series on the same ones",
                "give options that split the images (data.split_seed, data.test, data.validation) once for all: --set",
            )
        if own.groups != other.groups:
            raise UsageError(
                f"{first} and {series} have different groups of the {split} images, and intervals count one kind",
                "give data.groups once for all: --set",
            )
