"""Pictures of a run's page: thumbnails of its images, where the images still exist"""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from markupsafe import Markup
from torch import Tensor

from vit.checkpoints.load import load
from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import current_hash
from vit.data.core.samples import Samples, Source, label_names
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import ImageError
from vit.data.pixels.images import image_of
from vit.data.pixels.preprocess import COLORS, Decoding
from vit.data.splits.split import SplitRow
from vit.errors import VitError
from vit.explain.methods import choose_methods
from vit.inference.scores.scored_images import ScoredRow
from vit.plain_files import parse_yaml, read_text
from vit.report.page.image_figures import enlarged, overlay
from vit.report.page.thumbnails import encoded, shrunk
from vit.report.tables.label_mistakes import NotedLabel


def overlays(run: RunDirectory, images: Sequence[Tensor], predicted: Sequence[str]) -> list[tuple[Markup, Markup]]:
    """(input of the network, the same under a map of the class to explain) of each image (3, H, W) uint8, for <img>.

    Empty without a checkpoint, without images, or without a layer for a map. Also empty where the gradient of another
    library's network fails, or needs too much memory: a report must not fail for such a reason.
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
    """An image on the page, perhaps with a map of the pixels that mattered for its prediction."""

    row: Row
    picture: Markup | None  # source of its <img>, or None where the image is gone or has changed
    map: Markup | None = None


class Cards:
    """Cards of measured images; no `pixels` where the images are not those that were measured."""

    def __init__(self, rows: Sequence[Row], pixels: Pixels | None) -> None:
        self.rows, self.pixels = rows, pixels
        self._thumbnail = cache(self._shrunk)

    def cards(self, indices: Sequence[int]) -> list[Card]:
        return [Card(self.rows[index], self._thumbnail(index)) for index in indices]

    def prepare(self, indices: Sequence[int]) -> None:
        """Read many images on all cores, so that their cards need no time."""
        if self.pixels is not None:
            with decode_threads() as parallel:
                deque(parallel(self._thumbnail, indices), maxlen=0)

    def explained(self, indices: Sequence[int], run: RunDirectory, class_names: Sequence[str]) -> list[Card]:
        """Cards with maps of a class or label of each image. Empty where images are gone, or the network has no map."""
        pixels = [self.pixels(index) if self.pixels else None for index in indices]
        found = zip(indices, pixels, class_names, strict=True)
        readable = [(self.rows[index], image, name) for index, image, name in found if image is not None]
        maps = overlays(run, [image for _, image, _ in readable], [name for *_, name in readable])
        return [Card(row, *both) for (row, *_), both in zip(readable, maps, strict=False)]

    def _shrunk(self, index: int) -> Markup | None:
        image = self.pixels(index) if self.pixels else None
        return None if image is None else encoded(shrunk(image, THUMBNAIL))


@dataclass(frozen=True)
class RunImages:
    """The pixels of images that a run was measured on, or an evaluation, by their index among the measured ones."""

    samples: Samples  # the images of the split, in its own order
    places: Sequence[int]  # place in the split of each measured image
    hashes: Mapping[str, str]  # {absolute path, or name: content hash} as measured; absent where it is not known
    decoding: Decoding
    changed: set[int] = field(default_factory=set)  # indices that were asked for, and whose content is another one now

    def __call__(self, index: int) -> Tensor | None:
        """The pixels of an image; None where the file is gone, or is known to have another content than measured."""
        root = "" if self.samples.root is None else self.samples.root.resolve()
        try:
            place = self.places[index]
            known = self.hashes.get(os.path.join(root, self.samples.paths[place]))
            if known and current_hash(self.samples, place) != known:
                self.changed.add(index)
                return None
            return image_of(self.samples, place, self.decoding)
        except (ImageError, IndexError):  # the files changed after the measurement
            return None


def pixels_of(
    run: RunDirectory,
    source: Source | None,
    split: str,
    images: Sequence[tuple[str, str]],
    listed: Mapping[str, Sequence[SplitRow]],
) -> RunImages | None:
    """The images, given by path and labels as text; None where they are not those that the run was measured on."""
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
    config = parse_yaml(read_text(run.config_path))
    preprocess = (config.get("model") or {}).get("preprocess") or {}
    window = preprocess.get("window")
    channels, converts = int(preprocess.get("channels") or COLORS), preprocess.get("color_profiles") == "convert"
    decoding = Decoding(
        None if window is None else tuple(map(float, window)), channels, "convert" if converts else "ignore"
    )
    return RunImages(samples, found, {row.path: row.content_hash for row in listed.get(split, ())}, decoding)


def describe_changed(num_changed: int) -> str:
    """How many images of a page have no picture because their files were replaced, without a full stop; "" for 0."""
    if num_changed <= 1:
        return "1 image has no picture, because its file has changed since the training" if num_changed else ""
    return f"{num_changed:,} images have no picture, because their files have changed since the training"
