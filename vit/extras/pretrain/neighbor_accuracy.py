"""The progress of a pretraining: how often the nearest labeled images have an image's label

The loss of an objective does not say how useful the features are. The accuracy of nearest neighbors does, as in Caron
et al. 2021 (DINO, arXiv 2104.14294, section 4.1). It needs labels of some images and trains nothing.
"""

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from vit.inference.answers.nearest import NeighborClassifier

NEIGHBORS = 5
BANK, QUERIES = 0, 1  # numbers of the validation loaders: labeled training images, validation images


class NeighborAccuracy(Metric):
    """Accuracy of nearest neighbors: labels of validation images from those of the nearest training images."""

    bank: list[Tensor]
    bank_labels: list[Tensor]
    queries: list[Tensor]
    query_labels: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        for name in ("bank", "bank_labels", "queries", "query_labels"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, features: Tensor, labels: Tensor, loader: int) -> None:
        """Add features (B, D) and labels (B,) of one of the two loaders."""
        where, names = (self.bank, self.bank_labels) if loader == BANK else (self.queries, self.query_labels)
        where.append(features.float())
        names.append(labels)

    def compute(self) -> Tensor:
        """The accuracy. NaN where a feature is not finite, or no image could be read."""
        if not (len(self.bank) and len(self.queries)):
            return torch.tensor(torch.nan, device=self.device)
        bank, queries = dim_zero_cat(self.bank), dim_zero_cat(self.queries)
        if not (bank.isfinite().all() and queries.isfinite().all()):
            return torch.tensor(torch.nan, device=bank.device)
        labels, truth = dim_zero_cat(self.bank_labels).cpu().numpy(), dim_zero_cat(self.query_labels).cpu().numpy()
        found = NeighborClassifier(bank.cpu().numpy(), labels, NEIGHBORS).accuracy(queries.cpu().numpy(), truth)
        return torch.tensor(found, device=bank.device)
