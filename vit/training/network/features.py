"""Features of a frozen backbone: each image is computed once, and the cells of a study share the result

The features of an image depend on the backbone and on the content of the image. They do not depend on its split, on the
head, or on the other images. A study of linear probes therefore computes each image once for each backbone.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from vit.atomic_files import atomic_write
from vit.checkpoints.locking import alone
from vit.data.core.batch import Batch
from vit.data.core.samples import Samples
from vit.inference.engine import Engine
from vit.layout import FeaturesLayout
from vit.training.planning.plan import Plan
from vit.weights.open import weights_hash

Compute = Callable[[Samples], tuple[Tensor, Tensor]]
_HEX = 32  # characters of a content hash


@dataclass(frozen=True)
class StoredFeatures:
    """Features of images, found by the content of the image."""

    place: dict[str, int]  # {content hash: row of `values`}
    values: Tensor  # (n, D) float32
    seconds: float  # time of reading and computing all of them

    @property
    def seconds_per_image(self) -> float:
        """Time of reading and computing an image. NaN without images."""
        return self.seconds / len(self.values) if len(self.values) else float("nan")

    @classmethod
    def read(cls, path: Path) -> "StoredFeatures":
        """The features in a file; none where there is no such file, or where it is damaged: they are computed again."""
        try:
            held = load_file(path)
            hashes, values, seconds = held["hashes"].numpy(), held["features"], float(held["seconds"])
            if values.ndim != 2 or hashes.shape != (len(values), _HEX // 2) or not torch.isfinite(values).all():
                raise ValueError("shapes differ")
        except (OSError, KeyError, ValueError, SafetensorError):
            return cls({}, torch.zeros(0, 0), 0.0)
        return cls({row.tobytes().hex(): place for place, row in enumerate(hashes)}, values, seconds)

    def write(self, path: Path) -> None:
        """Write a file that `read` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        hashes = np.array([list(bytes.fromhex(name)) for name in self.place], dtype=np.uint8)
        held = {"hashes": torch.from_numpy(hashes), "features": self.values, "seconds": torch.tensor(self.seconds)}
        with atomic_write(path) as partial:
            save_file(held, partial)


class SharedFeatures:
    """A folder with the features of one or several backbones, which several processes fill.

    Args:
        folder: folder of the files, one for each backbone.
        hashes: {path: content hash} of all images; "" for an image that could not be read.
    """

    def __init__(self, folder: Path, hashes: Mapping[str, str]) -> None:
        self.folder = folder
        self.hashes = hashes
        self._weights_hash = cache(weights_hash)  # reads the whole file

    def files(self, plan: Plan) -> FeaturesLayout:
        """The files of a plan's backbone on this machine, named by hashes of everything that decides the features."""
        machine = _hash([plan.precision, plan.device.type, torch.__version__])
        return FeaturesLayout(self.folder, self._backbone_hash(plan), machine)

    def all_files(self, plan: Plan) -> list[FeaturesLayout]:
        """The files of a plan's backbone, of every kind of machine that has computed some of its features."""
        return FeaturesLayout.of_backbone(self.folder, self._backbone_hash(plan))

    def _backbone_hash(self, plan: Plan) -> str:
        start = plan.recipe.model.init_from
        weights = None if start is None else self._weights_hash(start)
        return _hash([weights, plan.spec.to_plain(), plan.preprocess.to_dict()])

    def of(self, plan: Plan, samples: Samples, compute: Compute) -> tuple[Tensor, npt.NDArray[np.int64]]:
        """Features of images (m, D), and the indices (m,) of these images. Unreadable images have no features.

        Args:
            compute: makes features (k, D) of images, and the indices (k,) of those that it could read.
        """
        files, names = self.files(plan), [self.hashes[name] for name in samples.paths]
        self.folder.mkdir(parents=True, exist_ok=True)
        with alone(files.lock_path):
            stored = StoredFeatures.read(files.values_path)
            missing = {name: index for index, name in enumerate(names) if name and name not in stored.place}
            if missing:
                stored = _extended(stored, samples, list(missing.values()), names, compute)
                stored.write(files.values_path)
        kept = np.array([index for index, name in enumerate(names) if name in stored.place], dtype=np.int64)
        return stored.values[[stored.place[names[index]] for index in kept]], kept


def _hash(facts: list[object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _extended(
    stored: StoredFeatures, samples: Samples, indices: list[int], names: list[str], compute: Compute
) -> StoredFeatures:
    """The stored features with those of more images."""
    began = time.perf_counter()
    values, read = compute(samples.select(indices))
    values = torch.cat((stored.values, values.cpu())) if len(stored.values) else values.cpu()
    first = len(stored.place)
    place = stored.place | {names[indices[index]]: first + row for row, index in enumerate(read.tolist())}
    return StoredFeatures(place, values.float().contiguous(), stored.seconds + time.perf_counter() - began)


def computed(engine: Engine, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Features (k, D) that an engine without a head computes, and the indices (k,) of the images that could be read."""
    features, valid = [], []
    for batch in batches:
        features.append(engine.logits(batch.image)[batch.valid].clone())  # a clone, because autograd will need it
        valid.append(batch.valid.cpu())
    return torch.cat(features), torch.cat(valid).nonzero().flatten()
