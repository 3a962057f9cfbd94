"""Comparison of an exported network with its checkpoint, on images and on files"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from vit.checkpoints.label_rules import LabelRules
from vit.data.core.image_bytes import read_bytes
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import ImageError, decode_image
from vit.data.pixels.preprocess import Preprocess
from vit.export.format import Classify, Peer
from vit.inference.prediction import read_input

TOLERANCE = 1e-4  # of a probability
TIE = 1e-6  # of a probability; closer classes may change their order with the order of a sum
GRAY = 0.5  # mean gray levels of 255; another resizer differs by 0.2, a crop shifted by one pixel by 1.3
BATCH = 32


@dataclass(frozen=True)
class PeerDifference:
    """Difference of a library with its own preprocessing, on the same files."""

    library: str  # name of the library
    num_images: int = 0  # number of files that both decode to the same picture
    # number of files that Pillow decodes differently (transparency, profiles). They are not compared.
    num_others: int = 0
    gray: float = 0.0  # largest mean difference of an image's pixels, in gray levels of 255
    worst: str = ""  # file with this difference
    largest: float = 0.0  # largest difference of a probability. Another resizer changes it a little.
    num_labels: int = 0  # number of images with different labels
    # number of images whose middle square the library takes one pixel higher or farther left. Both are in the middle.
    # Pixels and labels are compared on the library's square.
    num_shifted: int = 0

    @property
    def is_small(self) -> bool:
        """Whether both sides see the same part of the pictures. NaN is not small."""
        return self.gray <= GRAY


@dataclass(frozen=True)
class ExportDifference:
    """Difference of two networks on the same images."""

    num_images: int  # number of images
    largest: float  # largest difference of a probability
    num_labels: int  # number of images with different labels
    # difference with the preprocessing of the format's library, or None where the library does not prepare pictures
    peer: PeerDifference | None = None

    @property
    def is_small(self) -> bool:
        """Whether both agree. NaN is not small."""
        return self.num_images > 0 and self.largest <= TOLERANCE and self.num_labels == 0


def compare_peer(
    ours: Classify, preprocess: Preprocess, peer: Peer, files: Iterable[tuple[str, bytes]], rules: LabelRules | None
) -> PeerDifference:
    """Compare this package with another library, from (name, bytes) to probabilities, without unreadable files."""
    num_images = num_others = num_labels = num_shifted = 0
    gray, largest, worst = torch.zeros(()), torch.zeros(()), ""
    levels = torch.tensor(preprocess.std)[:, None, None] * 255
    for name, content in files:
        try:
            decoded = decode_image(content, name, preprocess.decoding)
        except ImageError:
            continue
        picture = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
        theirs_decoded = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
        if theirs_decoded.shape != decoded.shape or (theirs_decoded.float() - decoded).abs().mean() > GRAY:
            num_others += 1
            continue
        num_images += 1
        prepared, is_shifted = preprocess(decoded)[None], False
        if peer.rounds_down:
            image, side = preprocess.resized(decoded), preprocess.image_size
            margins = [length - side for length in image.shape[1:]]
            top, left = (margin // 2 for margin in margins)
            is_shifted = any(round(margin / 2) != margin // 2 for margin in margins)
            prepared = image[None, :, top : top + side, left : left + side].contiguous()
        num_shifted += is_shifted
        theirs = peer.transform(picture)[None]
        off = ((preprocess.normalize(prepared)[0] - theirs[0]).abs() * levels).mean()
        if not (off <= gray or gray.isnan()):
            gray, worst = off, name
        with torch.inference_mode():
            our_answer, their_answer = ours(prepared), peer.probabilities(theirs)
        largest = torch.maximum(largest, (our_answer - their_answer).abs().max())
        num_labels += num_different(our_answer, their_answer, rules)
    return PeerDifference(
        peer.name, num_images, num_others, float(gray), worst, float(largest), num_labels, num_shifted
    )


def contents(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files that can be read."""
    for path in files:
        try:
            yield path, read_bytes(path)
        except ImageError:
            continue


def random_files(image_size: int) -> Iterator[tuple[str, bytes]]:
    """PNG files of noise: wide, high, small, and of the network's input size."""
    generator = np.random.default_rng(0)
    side = image_size
    for width, height in ((side, side), (2 * side + 1, 3 * side), (side * 5 // 3 + 1, side + 7), (side // 2 + 1, side)):
        with io.BytesIO() as file:
            Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(file, "PNG")
            yield f"a random picture of {width} x {height} pixels", file.getvalue()


def compare(
    ours: Classify, theirs: Classify, batches: Iterable[Tensor], rules: LabelRules | None = None
) -> ExportDifference:
    """Compare two networks on batches (B, 3, S, S) uint8."""
    num_images, largest, num_labels = 0, torch.zeros(()), 0
    for batch in batches:
        with torch.inference_mode():
            our_answer, their_answer = ours(batch), theirs(batch)
        num_images += len(batch)
        largest = torch.maximum(largest, (our_answer - their_answer).abs().max())  # keeps NaN
        num_labels += num_different(our_answer, their_answer, rules)
    return ExportDifference(num_images, float(largest), num_labels)


def num_different(one: Tensor, other: Tensor, rules: LabelRules | None) -> int:
    """Number of images with other labels in probabilities (B, C) of two networks, apart from ties.

    One class for an image is that of the largest probability. It differs where `one` gives the class of `other` a
    probability below its own largest one. Several labels are those above their thresholds.
    """
    if rules is None:
        at_their_class = one.gather(1, other.argmax(dim=1, keepdim=True))
        return int((one.amax(dim=1, keepdim=True) - at_their_class > TIE).sum())
    thresholds = torch.from_numpy(rules.thresholds)
    differs = (one >= thresholds) != (other >= thresholds)
    return int((differs & ((one - thresholds).abs() > TIE)).any(dim=1).sum())


def random_images(image_size: int, channels: int = 3) -> list[Tensor]:
    """A batch of 7 and a batch of 1, with noise, and with black and white images, whose activations are larger."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (5, channels, image_size, image_size), dtype=torch.uint8, generator=generator)
    flat = torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(-1, channels, image_size, image_size)
    batch = torch.cat((noise, flat))
    return [batch, batch[:1]]


def real_images(files: Sequence[str], preprocess: Preprocess) -> Iterator[Tensor]:
    """Batches of the readable files, decoded and prepared as in `vit predict`."""
    with decode_threads() as parallel:
        for first in range(0, len(files), BATCH):
            read = parallel(lambda path: read_input(path, preprocess), files[first : first + BATCH])
            images = [image for image in read if not isinstance(image, ImageError)]
            if images:
                yield torch.stack(images)
