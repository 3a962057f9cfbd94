"""Random numbers as a pure function of (seed, epoch, image), without any generator state.

The numbers are counter-based: integers are hashed with the finalizer of SplitMix64 (Steele, Lea, Flood 2014), which
passes BigCrush on consecutive counters. The order of images, their augmentation and the mixing of batches use these
numbers. So they do not depend on the number of workers or processes, and a resumed run draws the same numbers.
"""

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def hashed(*integers: int | npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each combination of the integers. Arrays are broadcast."""
    with np.errstate(over="ignore"):
        word = np.zeros((), dtype=np.uint64)
        for integer in integers:
            word = _mix((word + _GOLDEN) ^ _mix(np.asarray(integer, dtype=np.int64).astype(np.uint64) + _GOLDEN))
        return np.asarray(word, dtype=np.uint64)


def uniform(count: int, *integers: int | npt.ArrayLike) -> npt.NDArray[np.float64]:
    """`count` numbers in [0, 1) for each combination of the integers: shape (..., count)."""
    words = hashed(*(np.expand_dims(np.asarray(integer), -1) for integer in integers), np.arange(count))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def seed_of(*integers: int) -> int:
    """A 63-bit seed for the generator of a library."""
    return int(hashed(*integers) >> np.uint64(1))
