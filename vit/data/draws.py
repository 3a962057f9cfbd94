"""Random numbers as a pure function of (seed, epoch, image): no generator state, so nothing to save or to replay.

Counter-based: the words are hashed with the finalizer of SplitMix64 (Steele, Lea, Flood 2014), which passes BigCrush on
consecutive counters. The order of images, the augmentation of each one and the mixing of a batch are drawn from here,
whatever the number of workers or processes, and whenever a run was stopped and resumed.
"""

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def hashed(*keys: int | npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """One 64-bit word per broadcast combination of the integer keys."""
    with np.errstate(over="ignore"):
        word = np.zeros((), dtype=np.uint64)
        for key in keys:
            word = _mix((word + _GOLDEN) ^ _mix(np.asarray(key, dtype=np.int64).astype(np.uint64) + _GOLDEN))
        return np.asarray(word, dtype=np.uint64)


def uniform(count: int, *keys: int | npt.ArrayLike) -> npt.NDArray[np.float64]:
    """`count` numbers in [0, 1) for each combination of keys: shape (..., count)."""
    words = hashed(*(np.expand_dims(np.asarray(key), -1) for key in keys), np.arange(count))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def seed_of(*keys: int) -> int:
    """A 63-bit seed for a library's own generator."""
    return int(hashed(*keys) >> np.uint64(1))
