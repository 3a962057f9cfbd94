"""Pictures of a run's page: thumbnails of its images, where the images still exist"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from markupsafe import Markup
from torch import Tensor

from vit.checkpoints.load import load
from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import current_hash
from vit.data.core.samples import Samples, Source, label_names
from vit.data.loading.dataset import image_of
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import ImageError
from vit.data.pixels.preprocess import COLORS, Decoding
from vit.data.splits.split import SplitRow
from vit.errors import VitError
from vit.explain.methods import choose_methods
from vit.inference.scores.scored_images import ScoredRow
from vit.plain_files import parse_yaml, read_text
from vit.report.page.overlay import enlarged, overlay
from vit.report.page.thumbnails import encoded, shrunk
from vit.report.tables.label_mistakes import NotedLabel


def overlays(run: RunDirectory, images: Sequence[Tensor], predicted: Sequence[str]) -> list[tuple[Markup, Markup]]:
    """(input of the network, the same under a map of its prediction) of each image, as sources of <img>.

    Empty without a checkpoint, without images, or without a layer for a map. Also empty where the gradient of another
    library's network fails, or needs too much memory: a report must not fail for such a reason.

    Args:
        run: run whose best checkpoint is explained.
        images: pixels (3, H, W) uint8.
        predicted: class names to explain, one for each image.
    """
    if not images:
        return []
    try:
        network, description = load(run.best_path)
        (method,) = choose_methods("best", network).values()
        seen = torch.stack([description.preprocess(image) for image in images])
        numbers = torch.tensor([description.class_names.index(name) for name in predicted])
        maps = method(network, description.preprocess.normalize(seen), numbers)
    except (VitError, RuntimeError):
        return []
    return [
        (encoded(enlarged(image)), encoded(overlay(image, importance)))
        for image, importance in zip(seen, maps, strict=True)
    ]


THUMBNAIL = 128  # pixels of the longer side

Pixels = Callable[[int], Tensor | None]
Row = ScoredRow | NotedLabel


@dataclass(frozen=True)
class Card:
    """An image on the page."""

    row: Row
    picture: Markup | None  # source of its <img>, or None where the image is gone or has changed


@dataclass(frozen=True)
class ExplainedCard:
    """An image as the network saw it, and a map of the pixels that mattered for its prediction."""

    row: Row
    picture: Markup
    map: Markup


class Cards:
    """Cards of measured images.

    Args:
        rows: what is known of each image.
        pixels: pixels of an image by its index in `rows`, or None where the images are not those that were measured.
    """

    def __init__(self, rows: Sequence[Row], pixels: Pixels | None) -> None:
        self.rows, self.pixels = rows, pixels
        self._thumbnail = cache(self._shrunk)

    def cards(self, indices: Sequence[int]) -> list[Card]:
        """Cards of some images."""
        return [Card(self.rows[index], self._thumbnail(index)) for index in indices]

    def prepare(self, indices: Sequence[int]) -> None:
        """Read many images on all cores, so that their cards need no time."""
        if self.pixels is None:
            return
        with decode_threads() as parallel:
            for _ in parallel(self._thumbnail, indices):
                pass

    def _shrunk(self, index: int) -> Markup | None:
        image = self.pixels(index) if self.pixels else None
        return None if image is None else encoded(shrunk(image, THUMBNAIL))


class Pictures(Cards):
    """The images of a run's rows.

    Args:
        run: run whose best checkpoint explains images.
    """

    def __init__(self, run: RunDirectory, rows: Sequence[Row], pixels: Pixels | None) -> None:
        super().__init__(rows, pixels)
        self.run = run

    def explained(self, indices: Sequence[int], class_names: Sequence[str]) -> list[ExplainedCard]:
        """Cards with maps. Empty where the images are gone or the network cannot be explained.

        Args:
            class_names: class or label to explain, one for each image.
        """
        if self.pixels is None:
            return []
        found = [(self.rows[index], self.pixels(index), name) for index, name in zip(indices, class_names, strict=True)]
        readable = [(row, image, name) for row, image, name in found if image is not None]
        maps = overlays(self.run, [image for _, image, _ in readable], [name for _, _, name in readable])
        return [ExplainedCard(row, *both) for (row, *_), both in zip(readable, maps, strict=False)]


class RunImages:
    """The pixels of images that a run was measured on, by their index among the measured ones.

    Args:
        samples: the images of the split, in its own order.
        places: place in the split of each measured image.
        hashes: {absolute path, or name: content hash} of images as they were measured; absent where it is not known.
        decoding: as for `image_of`.

    Attributes:
        changed: indices of the images that were asked for, and whose content is another one now.
    """

    def __init__(
        self,
        samples: Samples,
        places: Sequence[int],
        hashes: Mapping[str, str],
        decoding: Decoding,
    ) -> None:
        self._samples, self._places, self._hashes = samples, places, hashes
        self._root = "" if samples.root is None else samples.root.resolve()
        self._decoding = decoding
        self.changed: set[int] = set()

    def __call__(self, index: int) -> Tensor | None:
        """The pixels of an image; None where the file is gone, or has another content than the measured one."""
        place = self._places[index]
        known = self._hashes.get(os.path.join(self._root, self._samples.paths[place]))
        try:
            if known and current_hash(self._samples, place) != known:
                self.changed.add(index)
                return None
            return image_of(self._samples, place, self._decoding)
        except ImageError:
            return None


def pixels_of(
    run: RunDirectory,
    source: Source | None,
    split: str,
    images: Sequence[tuple[str, str]],
    listed: Mapping[str, Sequence[SplitRow]],
) -> RunImages | None:
    """The images by their index, or None where the images are not those that the run was measured on.

    Args:
        run: the run, whose network sees gray values of more than 8 bits through a window.
        images: path of each image, and its class or labels as text.
        listed: the rows of the run's `splits.csv`.
    """
    if source is None or split not in source.splits:
        return None
    samples = source.splits[split]
    names = label_names(samples, source.class_names)
    places = {
        (os.path.join(samples.root or "", path), name): place
        for place, (path, name) in enumerate(zip(samples.paths, names, strict=True))
    }
    try:
        found = [places[os.path.join(samples.root or "", path), name] for path, name in images]
    except KeyError:
        return None
    hashes = {row.path: row.content_hash for row in listed.get(split, ())}
    return RunImages(samples, found, hashes, _decoding(run))


def num_changed(pixels: RunImages | None) -> int:
    """The number of images that were asked for and have changed; 0 for a page without pictures."""
    return 0 if pixels is None else len(pixels.changed)


def describe_changed(num_changed: int) -> str:
    """How many images of a page have no picture because their files were replaced, without a full stop; "" for 0."""
    if num_changed <= 1:
        return "1 image has no picture, because its file has changed since the training" if num_changed else ""
    return f"{num_changed:,} images have no picture, because their files have changed since the training"


def _decoding(run: RunDirectory) -> Decoding:
    """How a run decodes its images."""
    config = parse_yaml(read_text(run.config_path))
    preprocess = (config.get("model") or {}).get("preprocess") or {}
    window = preprocess.get("window")
    channels, converts = int(preprocess.get("channels") or COLORS), preprocess.get("color_profiles") == "convert"
    return Decoding(
        None if window is None else tuple(map(float, window)), channels, "convert" if converts else "ignore"
    )
