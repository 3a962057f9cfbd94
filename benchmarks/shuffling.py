"""How well the order of shards shuffles, beside a permutation of all images. Needs numpy alone; a minute.

    python benchmarks/shuffling.py

Each number is the mean of five seeds, with the standard deviation over seeds.

same class       neighbors in the sequence with one class; a permutation has 1 / number of classes
uneven batches   variance of the images of a class in a batch, divided by that of batches drawn at random
moved            distance between the positions of an image in two epochs, as a fraction of the epoch; at random 1/3
met again        pairs of a batch that share a batch in the next epoch too, divided by that of a permutation
"""

from statistics import mean, stdev

import numpy as np
import numpy.typing as npt

from vit.data.loading.sampler import EpochOrder, ShardOrder

NUM_IMAGES, NUM_CLASSES, BATCH_SIZE, SEEDS = 100_000, 100, 256, range(5)
Labels = npt.NDArray[np.int64]
Row = tuple[float, float, float, float]


def measured(order: EpochOrder | ShardOrder, labels: Labels) -> Row:
    """The four numbers of two epochs."""
    first, second = order.drawn(0)[0], order.drawn(1)[0]
    classes = labels[first]
    same = float((classes[1:] == classes[:-1]).mean())
    num_batches = len(first) // BATCH_SIZE
    batches = classes[: num_batches * BATCH_SIZE].reshape(num_batches, BATCH_SIZE)
    counts = np.stack([np.bincount(batch, minlength=NUM_CLASSES) for batch in batches])
    share = np.bincount(labels, minlength=NUM_CLASSES) / len(labels)
    expected = BATCH_SIZE * share * (1 - share) * (len(labels) - BATCH_SIZE) / (len(labels) - 1)
    uneven = float((counts.var(axis=0) / expected).mean())
    places = [np.argsort(one) for one in (first, second)]
    moved = float(np.abs(places[0] - places[1]).mean() / len(labels))
    together = places[1][first[: num_batches * BATCH_SIZE]].reshape(num_batches, BATCH_SIZE) // BATCH_SIZE
    pairs = sum((np.bincount(batch) * (np.bincount(batch) - 1)).sum() for batch in together)
    by_chance = num_batches * BATCH_SIZE * (BATCH_SIZE - 1) * (BATCH_SIZE - 1) / (len(labels) - 1)
    return same, uneven, moved, float(pairs / by_chance)


def main() -> None:
    """Print a table in Markdown."""
    by_class = np.repeat(np.arange(NUM_CLASSES), NUM_IMAGES // NUM_CLASSES)
    print(f"{NUM_IMAGES:,} images, {NUM_CLASSES} classes, batches of {BATCH_SIZE}, {len(SEEDS)} seeds\n")
    print("| order | images in the shards | shards | same class (%) | uneven batches | moved | met again |")
    print("|---|---|---|---|---|---|---|")

    def show(name: str, packed: str, num_shards: str, rows: list[Row]) -> None:
        cells = []
        for values, factor, digits in zip(zip(*rows, strict=True), (100, 1, 1, 1), (2, 2, 4, 2), strict=True):
            cells.append(f"{factor * mean(values):.{digits}f} ± {factor * stdev(values):.{digits}f}")
        print("| " + " | ".join((name, packed, num_shards, *cells)) + " |", flush=True)

    show("permutation", "any", "", [measured(EpochOrder(by_class, seed), by_class) for seed in SEEDS])
    for packed in ("shuffled", "by class"):
        for num_shards in (100, 1000):
            for window in (1, 2, 4, 8):
                rows = []
                for seed in SEEDS:
                    shards = np.arange(NUM_IMAGES) * num_shards // NUM_IMAGES
                    if packed == "shuffled":
                        shards = np.random.default_rng(seed).permutation(shards)
                    rows.append(measured(ShardOrder(shards, seed, BATCH_SIZE, window), by_class))
                show(f"W = {window}", packed, f"{num_shards:,}", rows)


if __name__ == "__main__":
    main()
