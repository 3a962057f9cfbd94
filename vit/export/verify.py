"""Whether what was written answers as the checkpoint does."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vit.data.decode import ImageError
from vit.data.preprocess import Preprocess
from vit.data.threads import decode_threads
from vit.export.format import Classify
from vit.prediction.predictor import read_input

TOLERANCE = 1e-4  # of a probability
TIE = 1e-6  # classes whose probabilities are closer have no order that a sum in another order would keep
BATCH = 32


@dataclass(frozen=True)
class Difference:
    """What two sides said of the same images.

    Attributes:
        images: how many.
        largest: difference of a probability.
        labels: images with different labels.
    """

    images: int
    largest: float
    labels: int

    @property
    def is_small(self) -> bool:
        """Whether they agree; a number that is none never does."""
        return self.images > 0 and self.largest <= TOLERANCE and self.labels == 0


def compare(ours: Classify, theirs: Classify, batches: Iterable[Tensor]) -> Difference:
    """Both sides on batches (B, 3, S, S) uint8.

    A label is the class of the largest probability; it differs where ours gives the class that they chose less than its
    largest probability, by more than a tie.
    """
    images, largest, labels = 0, torch.zeros(()), 0
    for batch in batches:
        with torch.inference_mode():
            one, other = ours(batch), theirs(batch)
        images += len(batch)
        largest = torch.maximum(largest, (one - other).abs().max())  # keeps NaN
        chosen = one.gather(1, other.argmax(dim=1, keepdim=True))
        labels += int((one.amax(dim=1, keepdim=True) - chosen > TIE).sum())
    return Difference(images, float(largest), labels)


def random_images(image_size: int) -> list[Tensor]:
    """A batch of 7 and a batch of 1: noise, and for flat colours the numbers that noise never reaches."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (5, 3, image_size, image_size), dtype=torch.uint8, generator=generator)
    flat = torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(-1, 3, image_size, image_size)
    batch = torch.cat((noise, flat))
    return [batch, batch[:1]]


def real_images(files: Sequence[str], preprocess: Preprocess) -> Iterator[Tensor]:
    """Batches of the files that can be read, decoded and prepared as `vit predict` does."""
    with decode_threads() as parallel:
        for first in range(0, len(files), BATCH):
            read = parallel(lambda path: read_input(path, preprocess), files[first : first + BATCH])
            images = [image for image in read if not isinstance(image, ImageError)]
            if images:
                yield torch.stack(images)
