"""What a pretrained backbone shows of its images: the nearest neighbors of a few of them"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vit.data.core.samples import Samples, label_names
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.loader import EVALUATION_BATCH_SIZE, evaluation_loader
from vit.data.loading.sampler import Key
from vit.data.pixels.preprocess import Preprocess
from vit.extras.pretrain.images import LABELED, QUERIES, numbered, spread
from vit.extras.pretrain.neighbor_accuracy import NEIGHBORS
from vit.extras.pretrain.plan import PretrainPlan
from vit.inference.answers.nearest import nearest
from vit.models.network import Network

ROWS = 8  # images whose neighbors are shown
MOST_SEARCHED = 2_000  # images among which they are searched


@dataclass(frozen=True)
class ShownImage:
    """A picture with its caption.

    Attributes:
        pixels: (3, S, S) uint8, as the network sees the image without augmentation.
        caption: class of the image, if it has one; of a neighbor also its cosine similarity.
    """

    pixels: Tensor
    caption: str


def neighbor_rows(network: Network, plan: PretrainPlan) -> list[list[ShownImage]]:
    """Some images, each followed by its nearest neighbors among training images.

    With labels, the images are validation images. Without labels they are training images, which are not neighbors of
    themselves. There are no rows with fewer training images than neighbors.
    """
    splits, class_names = numbered(plan.source), plan.source.class_names
    searched = spread(splits.get(LABELED, plan.source.splits["train"]), MOST_SEARCHED)
    queries = spread(splits.get(QUERIES, searched), ROWS)
    if len(searched) <= NEIGHBORS:
        return []
    there, asked = _Shown(searched, plan.preprocess), _Shown(queries, plan.preprocess)
    features, query_features = there.features(network), asked.features(network)
    count = NEIGHBORS if QUERIES in splits else NEIGHBORS + 1  # the image itself is the nearest one
    rows, similarities = nearest(features, query_features, count)
    shown_rows = []
    for query in range(len(queries)):
        others = [
            there.image(int(row), class_names, f"{similarity:.2f} ")
            for row, similarity in zip(rows[query], similarities[query], strict=True)
            if QUERIES in splits or searched.paths[int(row)] != queries.paths[query]
        ]
        shown_rows.append([asked.image(query, class_names), *others[:NEIGHBORS]])
    return shown_rows


class _Shown:
    """Images prepared as for evaluation."""

    def __init__(self, samples: Samples, preprocess: Preprocess) -> None:
        self.samples, self.preprocess = samples, preprocess
        self.dataset = ImageDataset(samples, preprocess, None, seed=0, in_memory=False)

    @torch.inference_mode()
    def features(self, network: Network) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Features (n, D) of all images; an image that cannot be read is black."""
        device = next(network.parameters()).device
        loader = evaluation_loader(self.dataset, EVALUATION_BATCH_SIZE, num_workers=0)
        batches = [network(self.preprocess.normalize(batch.image.to(device))).flatten(1).float() for batch in loader]
        return torch.cat(batches).cpu().numpy()

    def image(self, index: int, class_names: Sequence[str], words: str = "") -> ShownImage:
        """One image with its class."""
        pixels = self.dataset.__getitems__([Key(-1, index)]).image[0]
        one = self.samples.select([index])
        names = label_names(one, class_names) if one.task.is_exclusive else []
        return ShownImage(pixels, words + "".join(names))
