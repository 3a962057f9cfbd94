"""Groups of images that a network has wrong more often than the other images, tested with a correction

The groups are made without a look at the errors: the lowest and the highest fifth of brightness, sharpness, size and
shape, values of a table's other columns, and clusters of features. Each is tested by Fisher's exact test against all
other images, one-sided, and the p values get the correction of Holm (1979), which holds for groups that overlap.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from scipy.stats import hypergeom
from torch import Tensor

from vit.console import percent
from vit.data.core.batch import Batch
from vit.data.core.image_bytes import ImageError
from vit.data.core.image_header import no_warnings, opened
from vit.data.core.samples import Labels, Samples
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import orientation_of
from vit.inference.scores.intervals import holm
from vit.inference.scores.scored_images import Bools, Floats, ScoredImages

ALPHA = 0.05
FEWEST, MOST = 100, 20_000  # images: with fewer no group shows, and the headers of more take long
FEWEST_OF_GROUP = 20
MOST_VALUES = 20  # of a column whose cells are not numbers
CLUSTERS = 8
_LAPLACE = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])[None, None]

Group = tuple[str, Bools]  # its name, and which images belong to it (n,)


@dataclass(frozen=True)
class WeakGroup:
    """A group with more errors than the other images, beyond chance."""

    name: str
    num_images: int
    error: float  # fraction of its images that are wrong
    other_error: float  # fraction of the other images that are wrong
    p_adjusted: float  # p value after the correction for all tested groups
    wrong: tuple[int, ...]  # places of its wrong images among the scored ones

    def describe(self) -> str:
        """The group in one line."""
        return (
            f"{self.name}: {percent(self.error, 1)} of {self.num_images:,} images are wrong, of the others "
            f"{percent(self.other_error, 1)} (corrected p {self.p_adjusted:.2g})"
        )


@dataclass(frozen=True)
class WeakGroups:
    """The groups that differ beyond chance, the largest difference first, and the number of all tested groups."""

    found: tuple[WeakGroup, ...]
    num_tested: int

    def describe(self) -> str:
        """One sentence about all groups."""
        tested = f"({self.num_tested:,} groups tested)"
        if not self.found:
            return f"no group has more errors than the other images beyond chance {tested}"
        are = "group has" if len(self.found) == 1 else "groups have"
        return f"{len(self.found):,} {are} more errors than the other images, beyond chance {tested}"

    def to_dict(self) -> dict[str, object]:
        """Plain values for metrics.json."""
        rows = [{name: value for name, value in vars(group).items() if name != "wrong"} for group in self.found]
        return {"num_tested": self.num_tested, "groups": rows}


def weak_groups(wrong: Bools, groups: Sequence[Group]) -> WeakGroups:
    """The groups with more errors than all other images; groups of fewer than 20 images, or others, are not tested."""
    total, num_wrong = len(wrong), int(wrong.sum())
    tested = [group for group in groups if FEWEST_OF_GROUP <= group[1].sum() <= total - FEWEST_OF_GROUP]
    p_values = [hypergeom.sf((wrong & members).sum() - 1, total, num_wrong, members.sum()) for _, members in tested]
    weak = []
    for (name, members), p in zip(tested, holm(p_values, [1.0] * len(tested)), strict=True):
        if p < ALPHA:
            error, other_error = float(wrong[members].mean()), float(wrong[~members].mean())
            places = tuple(np.flatnonzero(wrong & members).tolist())
            weak.append(WeakGroup(name, int(members.sum()), error, other_error, p, places))
    return WeakGroups(tuple(sorted(weak, key=lambda group: group.other_error - group.error)), len(tested))


class ImageTraits:
    """Brightness, sharpness and features of images, gathered while they are scored."""

    def __init__(self) -> None:
        self._brightness, self._sharpness, self._features = list[Tensor](), list[Tensor](), list[Tensor]()

    @property
    def num_images(self) -> int:
        """The number of images that this process has scored."""
        return sum(map(len, self._brightness))

    def watch(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches, measured on their way."""
        for batch in batches:
            gray = batch.image[batch.valid].float().mean(dim=1, keepdim=True) / 255  # (b, 1, S, S)
            self._brightness.append(gray.mean(dim=(1, 2, 3)))
            self._sharpness.append(F.conv2d(gray, _LAPLACE).std(dim=(1, 2, 3), correction=0))
            yield batch

    def watch_features(self, novelty_of: Callable[[Tensor], Floats]) -> Callable[[Tensor], Floats]:
        """The same function of features (B, D), which are kept."""

        def watched(features: Tensor) -> Floats:
            if sum(map(len, self._features)) < MOST:
                self._features.append(features.float())
            return novelty_of(features)

        return watched

    def find(
        self, scored: ScoredImages, samples: Samples, columns: Mapping[str, Mapping[str, str]], names: Sequence[str]
    ) -> WeakGroups:
        """The weak groups of scored images. Of images that belong together, the first one counts.

        `samples` has also the images that could not be read. `columns` is {column: {path: cell}} of a table's others.
        """
        groups = [
            *_fifths("dark", "bright", "brightness", torch.cat(self._brightness).numpy()),
            *_fifths("blurred", "sharp", "sharpness", torch.cat(self._sharpness).numpy()),
        ]
        if (sizes := _sizes(samples, scored.paths)) is not None:
            groups += _fifths("small", "large", "pixels of the file", sizes.prod(axis=1))
            groups += _fifths("tall", "wide", "width to height", sizes[:, 0] / sizes[:, 1])
        for column, cells in columns.items():
            groups += _of_column(column, [cells.get(path, "") for path in scored.paths])
        if sum(map(len, self._features)) == len(scored.paths):
            groups += _clusters(torch.cat(self._features), scored.labels, names)
        if scored.groups is None:
            return weak_groups(~scored.correct, groups)
        first = np.unique(scored.groups, return_index=True)[1]
        alone = weak_groups(~scored.correct[first], [(name, members[first]) for name, members in groups])
        weak = tuple(replace(group, wrong=tuple(first[[*group.wrong]].tolist())) for group in alone.found)
        return replace(alone, found=weak)


def _fifths(low: str, high: str, trait: str, values: npt.NDArray[np.floating[Any]]) -> list[Group]:
    """The images with the lowest and with the highest fifth of a trait; none where many values are equal."""
    least, most = np.nanquantile(values, (0.2, 0.8))
    lowest, highest = np.asarray(values <= least), np.asarray(values >= most)
    names = f"{low} images ({trait} up to {least:.3g})", f"{high} images ({trait} from {most:.3g})"
    return [(name, members) for name, members in zip(names, (lowest, highest), strict=True) if members.mean() <= 0.4]


def _of_column(column: str, cells: Sequence[str]) -> list[Group]:
    """The images with each value of a column, or with the lowest and the highest fifth of its numbers."""
    values = np.array(cells)
    distinct = [value for value in np.unique(values).tolist() if value]
    if len(distinct) <= MOST_VALUES:
        return [(f"{column}: {value}", values == value) for value in distinct] if len(distinct) > 1 else []
    try:
        return _fifths("low", "high", column, np.where(values == "", "nan", values).astype(np.float64))
    except ValueError:
        return []  # names or texts


def _clusters(features: Tensor, labels: Labels, class_names: Sequence[str]) -> list[Group]:
    """Clusters of features (n, D) of length 1, by k-means with a fixed seed, named after their most frequent class."""
    from sklearn.cluster import KMeans

    cluster_of = KMeans(CLUSTERS, n_init=1, random_state=0).fit_predict(F.normalize(features, dim=1).numpy())
    clusters = []
    for number in range(CLUSTERS):
        counts = np.bincount(labels[cluster_of == number], minlength=len(class_names))
        majority = f"{percent(counts.max() / max(1, counts.sum()), 0)} {class_names[int(counts.argmax())]}"
        clusters.append((f"look-alikes {number + 1} of {CLUSTERS} ({majority})", cluster_of == number))
    return clusters


def _sizes(samples: Samples, paths: Sequence[str]) -> npt.NDArray[np.float64] | None:
    """(n, 2) width and height of the scored files, by their headers; None where these do not tell all."""
    if samples.root is None or len(paths) > MOST:
        return None
    place_of = {path: place for place, path in enumerate(samples.paths)}

    def size(path: str) -> tuple[int, int]:
        with no_warnings:
            image = opened(samples.encoded(place_of[path]), path)
        is_turned = image.format in ("JPEG", "MPO") and orientation_of(image) in (5, 6, 7, 8)  # others would be decoded
        return image.size[::-1] if is_turned else image.size

    try:
        with decode_threads() as parallel:
            return np.array(list(parallel(size, paths)), dtype=np.float64)
    except (ImageError, KeyError):
        return None  # DICOM, or a file that has gone
