"""scikit-learn's support vector machine on the digits of a study: same training, validation and test images.

The kernel is the radial basis function. C and gamma are chosen on the validation images, by accuracy, among 5 x 5
values. The machine learns from the training images alone, as the networks do. Nothing is random.

    python evidence/make/digits_svc.py ROW
"""

import sys
import time

import numpy as np
import numpy.typing as npt
from definitions import EVIDENCE
from machine import processor
from sklearn.svm import SVC

from vit.atomic_files import write_json
from vit.checkpoints.result import pack
from vit.data.core.samples import Samples
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_all_splits

COSTS = (0.1, 1.0, 10.0, 100.0, 1000.0)
GAMMAS = (0.001, 0.01, 0.03, 0.1, 1.0)  # of brightness between 0 and 1


def pixels_of(samples: Samples) -> npt.NDArray[np.float64]:
    """(n, 64) brightness between 0 and 1."""
    assert samples.arrays is not None
    images = np.stack([np.asarray(image, dtype=np.float64) for image in samples.arrays])
    gray = images if images.ndim == 3 else images[..., 0]
    return gray.reshape(len(images), -1) / 255


def main() -> None:
    """Measure a row and write what was measured into its folder."""
    (row,) = sys.argv[1:]
    splits = with_all_splits(open_source("digits"), 0.1, 0.2, seed=0).splits
    pixels = {name: pixels_of(samples) for name, samples in splits.items()}
    began = time.perf_counter()
    tried = {
        (cost, gamma): SVC(C=cost, gamma=gamma)
        .fit(pixels["train"], splits["train"].labels)
        .score(pixels["validation"], splits["validation"].labels)
        for cost in COSTS
        for gamma in GAMMAS
    }
    cost, gamma = max(tried, key=lambda pair: (tried[pair], -pair[0], -pair[1]))  # of equals the smoothest
    began_best = time.perf_counter()
    best = SVC(C=cost, gamma=gamma).fit(pixels["train"], splits["train"].labels)
    correct = best.predict(pixels["test"]) == splits["test"].labels
    seconds = time.perf_counter() - began_best
    path = EVIDENCE / row / "measured" / "svc.json"
    path.parent.mkdir(exist_ok=True)
    write_json(
        path,
        {
            "num_images": len(correct),
            "correct": {"": {"SVC": {"0": pack(correct)}}},
            "command": f"python evidence/make/digits_svc.py {row}",
            "machine": processor(),
            "C": cost,
            "gamma": gamma,
            "seconds": seconds,
            "seconds_of_choice": began_best - began,
            "validation_accuracy": tried[cost, gamma],
        },
    )
    print(f"SVC, C {cost:g}, gamma {gamma:g}: {100 * correct.mean():.2f} % of {len(correct)} test images")


if __name__ == "__main__":
    main()
