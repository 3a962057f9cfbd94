"""What images are, in a few letters: replaced content is never taken for the old one, whatever its name."""

import hashlib

import numpy as np

from vit.data.decode import ImageError, read_bytes
from vit.data.samples import Samples
from vit.data.threads import decode_threads


def content_hash(samples: Samples) -> str:
    """A hash of names, labels and content: the bytes of every file, or the pixels where the source holds them.

    A file that cannot be read has no content; training leaves it out, too.
    """
    digest = hashlib.sha256(samples.fingerprint().encode())
    if samples.arrays is not None:
        for pixels in samples.arrays:
            digest.update(f"{pixels.dtype}{pixels.shape}".encode())
            digest.update(np.ascontiguousarray(pixels).data)
        return digest.hexdigest()[:16]

    def of_file(index: int) -> bytes:
        try:
            return hashlib.sha256(read_bytes(samples.file(index))).digest()
        except ImageError:
            return b"unreadable"

    with decode_threads() as parallel:
        for one in parallel(of_file, range(len(samples))):
            digest.update(one)
    return digest.hexdigest()[:16]
