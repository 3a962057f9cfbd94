"""A frozen network that computes embeddings: what its last layer reads, for each file"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from vit.checkpoints.model_path import LIBRARIES
from vit.data.core.image_bytes import ImageError, ImageReader
from vit.data.core.image_header import Frames
from vit.errors import UsageError
from vit.inference.devices import choose_device
from vit.inference.embeddings import Embedding, EmbeddingModel, Vectors
from vit.inference.engine import Engine
from vit.inference.prediction import read_hashed, rows_of
from vit.models.network import Network
from vit.models.spec import NetworkSpec
from vit.weights.adapt import head_names
from vit.weights.open import open_pretrained

_Read = tuple[str, str, Tensor | ImageError]  # path, content hash, and the input of the network


class Embedder:
    """The network of a run, a checkpoint or published weights, for the vectors (D,) that its last layer reads.

    CheckpointError where the weights cannot be used, UsageError where the last layer of the network is not known.
    `first_frames` as of `Predictor`.
    """

    def __init__(self, source: str, device: str = "auto") -> None:
        pretrained = open_pretrained(source)
        filled = pretrained.build(pretrained.num_classes or 1)
        self.warning, self.first_frames = pretrained.warning, Frames()
        self.engine = Engine(filled.network, filled.preprocess, choose_device(device), "32-true")
        if not self.engine.keep_features():
            fix = "choose another network, or write get_classifier() for yours"
            raise UsageError(f"the last layer of {filled.spec.name} is not known", fix)
        side, channels = filled.preprocess.image_size, filled.preprocess.channels
        _, features = self.engine.logits_and_features(torch.zeros(1, channels, side, side, dtype=torch.uint8))
        self.width = features.shape[1]
        named = source if source.partition(":")[0] in LIBRARIES else str(Path(source).expanduser().resolve())
        digest = _hash(filled.network, filled.spec)
        self.model = EmbeddingModel(named, digest, filled.spec.name, filled.preprocess.to_dict())

    def embed(
        self, paths: Sequence[str], reader: ImageReader | None = None, batch_size: int = 64
    ) -> Iterator[Embedding]:

        def read(path: str) -> _Read:
            return read_hashed(path, self.engine.preprocess, reader, self.first_frames)

        return rows_of(self.engine, paths, batch_size, read, self._compute)

    def _compute(self, part: list[_Read]) -> list[Embedding]:
        images = [image for *_, image in part if isinstance(image, Tensor)]
        vectors: Iterator[Vectors] = iter(())
        if images:
            vectors = iter(self.engine.logits_and_features(torch.stack(images))[1].cpu().numpy())
        return [
            Embedding(path, image.kind, None, content_hash, image.reason)
            if isinstance(image, ImageError)
            else Embedding(path, "ok", next(vectors), content_hash)
            for path, content_hash, image in part
        ]


def _hash(network: Network, spec: NetworkSpec) -> str:
    """A hash of everything in a network that decides its features, wherever its file is."""
    heads = head_names(network)
    digest = hashlib.sha256(json.dumps(replace(spec, num_classes=0).to_plain(), sort_keys=True).encode())
    for name, value in sorted(network.state_dict().items()):
        if name not in heads:
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
