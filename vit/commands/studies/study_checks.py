"""What a study refuses: options that it decides itself, values that others replace, series that cannot be compared"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vit.commands.cli.recipe_options import AUTO, SHORT
from vit.commands.studies.study_options import StudyOptions, items
from vit.commands.studies.study_series import ONE_DEVICE, networks_of
from vit.commands.training.train_options import read_words
from vit.console import Reporter
from vit.errors import UsageError
from vit.training.recipes.values import as_trained, dotted
from vit.training.tracking.tracker import SHARED

if TYPE_CHECKING:
    from vit.data.core.samples import Source
    from vit.study.grid import Budget, Cell, Inputs
    from vit.study.spec import Grid

_OF_CELLS = {
    "seed": "--seeds", "data.subset_seed": "--seeds", "data.train_images": "--sizes", "tracker": "--tracker",
    "wandb": "--wandb", "out": "--out",
}  # fmt: skip


def check_overridden(options: StudyOptions) -> None:
    """Raise UsageError where one value of an option would take the place of another that the user gives as well."""
    from vit.study.spec import is_factor, option_words

    networks = networks_of(options)
    grids: dict[str, Grid] = {
        "": {f"data.{name}": [value] for name, value in options.data.items()},
        "--set ": {name: [value] for name, value in options.set.items()},
        "--vary ": {name: items(values) for name, values in options.vary.items()},
        "--tune ": {name: [one for one in items(tried) if not is_factor(one)] for name, tried in options.tune.items()},
    }
    of_all: list[tuple[str, str, object, object]] = []  # (words of the user, option, one of its values, all of them)
    for flag, (name, values) in ((flag, item) for flag, grid in grids.items() for item in grid.items()):
        shown = f"{flag}{name}={','.join(map(str, values))}"
        for word in (word for value in values for word in option_words({name: value})):
            parsed = dotted(read_words([word]).layers.options).items()
            of_all += [(shown, key, value, value if len(values) == 1 else values) for key, value in parsed]
    for label, words in networks.items():
        own = dotted(read_words(words).layers.options).items()
        given = {name: (value, f"--networks {label}: {name}={value}") for name, value in own if value != AUTO}
        for shown, name, value, every in of_all:
            before, where = given.setdefault(name, (every, shown))
            if before != value and where != shown:
                raise UsageError(f"{where} with {shown}", "leave one out")


def named_options(options: StudyOptions, series: str | None = None) -> list[str]:
    """The dotted names of the options of cells that a study is given: for all, to compare, to tune, of one network.

    With a series, those of other networks are not among them.
    """
    named = [*options.set, *options.vary, *options.tune, *(f"data.{name}" for name in options.data)]
    networks = networks_of(options).items()
    own = [words for label, words in networks if series is None or f"{series} ".startswith(f"{label} ")]
    flags = [word.partition("=")[0] for words in own for word in words]
    return [*named, *(SHORT.get(flag, flag)[2:] for flag in flags if flag.startswith("--"))]


def check_given(names: Sequence[str], budget: "Budget") -> None:
    """Raise UsageError for an option of cells, by dotted name, that the study itself decides, and would overwrite."""
    for name in names:
        if name in _OF_CELLS:
            raise UsageError(f"a study decides {name} of every cell", f"leave it out, and give {_OF_CELLS[name]}")
        if name in SHARED:
            raise UsageError(f"{name} in a study, whose cells send numbers alone", "leave it out")
        if name in ONE_DEVICE:
            raise UsageError(f"{name} in a study, whose cells train on one device each", "leave it out")
        if name in ("optim.steps", "optim.epochs") and (budget.steps or budget.epochs):
            problem = f"--budget {budget} decides the length of every training, so {name} would do nothing"
            fix = f"leave {name} out, or give --budget recipe for trainings as long as their own options say"
            raise UsageError(problem, fix)


def check_used(options: StudyOptions, unused: Sequence[tuple[str, Mapping[str, str]]], reporter: Reporter) -> None:
    """Say which options change nothing, in which series; UsageError where one that never does is compared or tuned.

    `unused` has the series of each cell, and the sentences of `unused_options` for it.
    """
    series_of: dict[tuple[str, str], list[str]] = {}
    for series, sentences in unused:
        for name, sentence in sentences.items():
            if name in (*options.vary, *options.tune) and all(name in others for _, others in unused):
                raise UsageError(sentence, "leave it out")
            series_of.setdefault((name, sentence), []).append(series)
    for (_, sentence), where in series_of.items():
        those = "" if len(where) == len(unused) else f": {', '.join(dict.fromkeys(where))}"
        reporter.notice(sentence + those)


def check_different(cells: Iterable["Cell"], inputs: "Inputs") -> None:
    """Raise UsageError where two series, or two values to tune, are one training: their comparison says nothing."""
    from vit.study.grid import key_of

    seen: dict[str, Cell] = {}
    for cell in cells:
        same = seen.setdefault(key_of(as_trained(cell.recipe), inputs), cell)  # with its number of images and its seed
        if same is not cell:
            is_cut = same.recipe.optim.batch_size == cell.num_images
            larger = "give larger --sizes: a batch has no more images than there are"
            problem = f"{same.describe()} and {cell.describe()} are the same training"
            raise UsageError(problem, larger if is_cut else "leave one of them out")


def check_same_images(series: str, source: "Source", first: str, expected: "Source") -> None:
    """Raise UsageError where two series validate or test on different images or groups, which cannot be paired."""
    for split in sorted((expected.splits.keys() | source.splits.keys()) - {"train"}):
        here, there = (each.splits.get(split) for each in (source, expected))
        if here is None or there is None or here.fingerprint() != there.fingerprint():
            fix = "give options that split images (data.split_seed, data.test, data.validation) once for all: --set"
            why = "and a study compares series on the same ones"
            raise UsageError(f"{first} and {series} have different {split} images, {why}", fix)
        if here.groups != there.groups:
            problem = f"{first} and {series} have different groups of the {split} images, and intervals count one kind"
            raise UsageError(problem, "give data.groups once for all: --set")
