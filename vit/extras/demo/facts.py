"""What the page of `vit demo` says of its model, and its example images: validation images where they still are"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import yaml
from PIL import Image

from vit.checkpoints.format import Description
from vit.checkpoints.load import read_described
from vit.checkpoints.run import RunDirectory, checkpoint_of, unfinished_text
from vit.commands.cli.recipe_options import read_recipe
from vit.commands.exporting.model_card import origin_of
from vit.console import harmless, interval, percent
from vit.data.core.dataset_names import KNOWN
from vit.data.core.image_bytes import ImageError, content_hash, read_bytes
from vit.data.core.samples import Samples, label_names
from vit.data.splits.split import SplitRow, read_splits
from vit.errors import VitError
from vit.inference.engines.exported_engines import ExportedEngine
from vit.inference.predictor import Predictor
from vit.training.running.run_images import images_of_run

NUM_EXAMPLES = 8
_DAMAGED = (VitError, OSError, ValueError, KeyError, TypeError, yaml.YAMLError)  # files: the page goes on without them
_ACCURACIES = {"acc1": "accuracy", "exact_match": "exact match"}
_VALIDATED = {"acc1": "accuracy", "map": "mAP"}  # the exact match of a validation is not at the thresholds of the model


class Example(NamedTuple):
    """An example image."""

    path: str  # its file
    label: str  # its label in the data set, or its labels as one text


class Heading(NamedTuple):
    """What the page says of its model."""

    title: str  # network and data
    lines: tuple[str, ...]  # size, accuracy and file

    @property
    def html(self) -> str:
        """The heading as HTML, in which names are text alone."""
        lines = "".join(f"<p>{escape(harmless(line))}</p>" for line in self.lines)
        return f"<h1>{escape(harmless(self.title))}</h1>{lines}"


def heading_of(model: Path, predictor: Predictor) -> Heading:
    """Name, network, data and accuracy of a run, checkpoint or exported file, as far as its files say."""
    engine = predictor.engine
    description = engine.description if isinstance(engine, ExportedEngine) else read_described(checkpoint_of(model))[0]
    network, size = description.spec.name, description.preprocess.image_size
    facts = f"{len(predictor.class_names):,} {predictor.task.kinds}, images of {size} x {size} pixels"
    if predictor.lacks:
        facts += f"; {unfinished_text(predictor.lacks)}"
    try:
        origin = origin_of(model)
    except _DAMAGED:
        return Heading(network, (facts, f"Model: {model.name}"))
    title = network if origin.data is None else f"{network}, trained on {origin.data}"
    if "train" in origin.num_images:
        facts += f", {origin.num_images['train']:,} training images"
    accuracy = _accuracy(description, origin.metrics, origin.num_images)
    return Heading(title, tuple(filter(None, (facts, accuracy, f"Model: {model.resolve().name}"))))


def _accuracy(
    description: Description, metrics: Mapping[str, Mapping[str, float]], num_images: Mapping[str, int]
) -> str:
    """The test accuracy with its interval; without a test the validation accuracy, or mAP; "" without both."""
    for name, words in _ACCURACIES.items():
        if name in metrics:
            images = f", {num_images['test']:,} images" if "test" in num_images else ""
            return f"Test {words} {interval(**metrics[name])}{images}, 95 % interval"
    for name, words in _VALIDATED.items():
        if f"val/{name}" in description.metrics:
            return f"Validation {words} {percent(description.metrics[f'val/{name}'])}, which is no test"
    return ""


def examples_of(model: Path, folder: Path) -> list[Example]:
    """At most eight validation images of the run of a model, of different labels where there are some.

    Files are named where they are. Images of a data set that is one large file are written to a temporary folder.
    There are none without a run folder, or where its images are no longer there, or have changed.
    """
    run = RunDirectory.around(model)
    if run is None or not run.splits_path.is_file():
        return []
    try:
        recipe = read_recipe(run.config_path)
        if recipe.data.source in KNOWN:
            source = images_of_run(run, recipe)
            return list(_written(source.splits["validation"], source.class_names, folder))
        rows = [row for row in read_splits(run.splits_path).get("validation", ()) if Path(row.path).is_absolute()]
        unchanged = (rows[place] for place in _mixed([row.label for row in rows]) if _is_unchanged(rows[place]))
        return [Example(row.path, row.label) for row in islice(unchanged, NUM_EXAMPLES)]
    except _DAMAGED:
        return []


def _is_unchanged(row: SplitRow) -> bool:
    """Whether the file of an image is there, with the content of the training, as far as that is known."""
    try:
        return content_hash(read_bytes(row.path)) == row.content_hash or not row.content_hash
    except ImageError:
        return False


def _written(samples: Samples, class_names: Sequence[str], folder: Path) -> Iterator[Example]:
    labels = label_names(samples, class_names)
    for place in _mixed(labels)[:NUM_EXAMPLES] if samples.arrays is not None else ():
        assert samples.arrays is not None
        path = folder / f"validation_{place}.png"
        Image.fromarray(samples.arrays[place]).save(path)
        yield Example(str(path), labels[place])


def _mixed(labels: Sequence[str]) -> list[int]:
    """Places of labels, such that the first ones are of different labels: the first of each, the second of each, ..."""
    seen: dict[str, int] = {}
    turns = []
    for place, label in enumerate(labels):
        turns.append((seen.setdefault(label, 0), place))
        seen[label] += 1
    return [place for _, place in sorted(turns)]
