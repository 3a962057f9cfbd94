"""False alarms of `vit evaluate`'s weak groups, and how often it finds one, on made-up errors.

    python benchmarks/weak_groups.py [--repeats 4000]

Images have five traits, whose lowest and highest fifths are groups, and eight clusters of random features: 18 groups.
Half of the traits depend on one another. Errors fall by chance, or twice as often in the darkest fifth.
"""

import argparse

import numpy as np
from sklearn.cluster import KMeans

from vit.inference.metrics.weak_groups import CLUSTERS, Group, weak_groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4000)
    repeats = parser.parse_args().repeats
    print("| images | error (%) | in the darkest fifth (%) | data sets | with a finding (%) | Monte-Carlo error |")
    print("|---|---|---|---|---|---|")
    for count, error, ratio in ((100, 0.3, 1), (300, 0.15, 1), (1000, 0.05, 1), (300, 0.15, 2), (1000, 0.15, 2)):
        generator = np.random.default_rng(count)
        groups = made_groups(generator, count)
        rates = np.where(groups[0][1], ratio * error, error)
        share = np.mean([bool(weak_groups(generator.random(count) < rates, groups).found) for _ in range(repeats)])
        spread = (share * (1 - share) / repeats) ** 0.5
        cells = (
            count,
            f"{100 * error:.0f}",
            f"{100 * ratio * error:.0f}",
            repeats,
            f"{100 * share:.2f}",
            f"{100 * spread:.2f}",
        )
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def made_groups(generator: np.random.Generator, count: int) -> list[Group]:
    """The groups of made-up images, the first of which is the lowest fifth of the first trait."""
    traits = generator.normal(size=(5, count))
    traits[3:] += traits[:2]
    features = np.concatenate((traits.T, generator.normal(size=(count, 27))), axis=1)
    own = KMeans(CLUSTERS, n_init=1, random_state=0).fit_predict(features)
    low = [(f"low {row}", trait <= np.quantile(trait, 0.2)) for row, trait in enumerate(traits)]
    high = [(f"high {row}", trait >= np.quantile(trait, 0.8)) for row, trait in enumerate(traits)]
    return [*low, *high, *((f"cluster {number}", own == number) for number in range(CLUSTERS))]


if __name__ == "__main__":
    main()
