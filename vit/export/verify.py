"""Whether what was written answers as the checkpoint does, from prepared images and from the bytes of files."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from vit.data.decode import ImageError, decode_image, read_bytes
from vit.data.preprocess import Preprocess
from vit.data.threads import decode_threads
from vit.export.format import Classify, Peer
from vit.inference.predictor import read_input

TOLERANCE = 1e-4  # of a probability
TIE = 1e-6  # classes whose probabilities are closer have no order that a sum in another order would keep
GREY = 0.5  # levels of 255, on average over an image: another resizer is off by 0.2, a crop one pixel beside by 1.3
BATCH = 32


@dataclass(frozen=True)
class PeerDifference:
    """What a library makes of the same files by its own preprocessing.

    Attributes:
        library: its name.
        images: how many files both have decoded to the same picture.
        others: files that Pillow decodes otherwise (transparency, 16 bits); they are not compared.
        gray: largest mean difference of an image's pixels, in gray levels of 255.
        worst: the file it is of.
        largest: difference of a probability; another resizer changes a little.
        labels: images with different labels.
    """

    library: str
    images: int = 0
    others: int = 0
    gray: float = 0.0
    worst: str = ""
    largest: float = 0.0
    labels: int = 0

    @property
    def is_small(self) -> bool:
        """Whether both see the same part of the pictures; NaN is not small."""
        return self.gray <= GREY


@dataclass(frozen=True)
class Difference:
    """What two sides said of the same images.

    Attributes:
        images: how many.
        largest: difference of a probability.
        labels: images with different labels.
        peer: what the format's library makes of files; None: it prepares no pictures.
    """

    images: int
    largest: float
    labels: int
    peer: PeerDifference | None = None

    @property
    def is_small(self) -> bool:
        """Whether they agree; a number that is none never does."""
        return self.images > 0 and self.largest <= TOLERANCE and self.labels == 0


def compare_peer(
    ours: Classify, preprocess: Preprocess, peer: Peer, files: Iterable[tuple[str, bytes]]
) -> PeerDifference:
    """Our way and a library's own, from (name, bytes) to probabilities; unreadable files are left out."""
    images = others = labels = 0
    gray, largest, worst = torch.zeros(()), torch.zeros(()), ""
    levels = torch.tensor(preprocess.std)[:, None, None] * 255
    for name, content in files:
        try:
            decoded = decode_image(content, name)
        except ImageError:
            continue
        picture = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
        theirs_decoded = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
        if theirs_decoded.shape != decoded.shape or (theirs_decoded.float() - decoded).abs().mean() > GREY:
            others += 1
            continue
        images += 1
        prepared, theirs = preprocess(decoded)[None], peer.transform(picture)[None]
        off = ((preprocess.normalize(prepared)[0] - theirs[0]).abs() * levels).mean()
        if not (off <= gray or gray.isnan()):
            gray, worst = off, name
        with torch.inference_mode():
            one, other = ours(prepared), peer.probabilities(theirs)
        largest = torch.maximum(largest, (one - other).abs().max())
        labels += int(one.argmax() != other.argmax())
    return PeerDifference(peer.name, images, others, float(gray), worst, float(largest), labels)


def contents(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files that can be read."""
    for path in files:
        try:
            yield path, read_bytes(path)
        except ImageError:
            continue


def random_files(image_size: int) -> Iterator[tuple[str, bytes]]:
    """PNG files of noise in odd shapes: wide, high, small, and as large as the network's input."""
    generator = np.random.default_rng(0)
    side = image_size
    for width, height in ((side, side), (2 * side + 1, 3 * side), (side * 5 // 3 + 1, side + 7), (side // 2 + 1, side)):
        with io.BytesIO() as file:
            Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(file, "PNG")
            yield f"a random picture of {width} x {height} pixels", file.getvalue()


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
    """A batch of 7 and a batch of 1: noise, and for flat colors the numbers that noise never reaches."""
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
