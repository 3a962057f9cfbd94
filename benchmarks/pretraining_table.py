"""The tables of `pretraining.py`, of the cells that are finished

Errors, differences and their tests are those of `vit study`: intervals cover other seeds and other test images, and all
tests of a table are corrected together (Hochberg).
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pretraining_parts import Bools

from vit.study.findings import Difference, Interval
from vit.study.paired import Pair, difference, hochberg
from vit.study.variance_components import mean_error

METHODS = {"scratch": "scratch", "short": "scratch, the last phase alone", "diet": "DIET", "mae": "MAE"}
Results = list[dict[str, Any]]


def show(folder: Path) -> None:
    """Print the tables, and how many cells they have."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted((folder / "cells").glob("*.json"))}
    cifar10 = [one for name, one in found.items() if name.startswith("cifar10")]
    clothing = [one for name, one in found.items() if name.startswith("clothing")]
    print(f"{len(cifar10)} cells of CIFAR-10\n")
    if cifar10:
        _cifar10(cifar10)
    print(f"\n{len(clothing)} networks of clothing photographs\n")
    if len(clothing) > 1:
        _clothing(clothing)


def _cifar10(results: Results) -> None:
    of: dict[tuple[str, int, int], dict[int, Any]] = defaultdict(dict)
    for one in results:
        of[one["method"], one["num_labeled"], one["num_unlabeled"]][one["seed"]] = one
    keys = sorted(of, key=lambda key: (key[1], key[2], [*METHODS].index(key[0])))
    pairs = {
        key: _pair(of[key], of["scratch", key[1], 0])
        for key in keys
        if key[0] != "scratch" and ("scratch", key[1], 0) in of
    }
    between = {
        key: _pair(of[key], of["diet", *key[1:]]) for key in keys if key[0] == "mae" and ("diet", *key[1:]) in of
    }
    tests = {"scratch": pairs, "DIET": between}
    gaps = _corrected([(name, key, pair) for name, group in tests.items() for key, pair in group.items() if pair])
    print(
        "| labels | learned from | start | seeds | test error (%) | more than scratch (points) | corrected p "
        "| nearest neighbors (%) | TFLOPs | CPU seconds |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for key in keys:
        cells = list(of[key].values())
        before = [one["pretraining"] for one in cells if one["pretraining"]]
        gap = gaps.get(("scratch", key))
        parts = (
            f"{key[1]:,}", f"{key[2]:,}" if key[2] else "", METHODS[key[0]],
            str(len(cells)), _percents(mean_error(np.stack([_wrong(one["wrong"]) for one in cells]))),
            _points(gap), f"{gap.p_adjusted:.3f}" if gap else "",
            f"{100 * np.mean([one['neighbors'] for one in before]):.1f}" if before else "",
            f"{np.mean([one['flops'] + one['pretraining'].get('flops', 0) for one in cells]) / 1e12:.1f}",
            f"{np.mean([one['seconds'] + one['pretraining'].get('seconds', 0) for one in cells]):.0f}",
        )  # fmt: skip
        print(f"| {' | '.join(parts)} |")
    for (name, key), gap in gaps.items():
        if name == "DIET":
            print(
                f"\nMAE against DIET, {key[1]:,} labels of {key[2]:,}: {_points(gap)}, corrected p {gap.p_adjusted:.3f}"
            )
    random = [one["pretraining"]["neighbors_of_random_weights"] for one in results if one["pretraining"]]
    if random:
        print(f"\nNearest neighbors in the features of random weights: {100 * np.mean(random):.1f} %")


def _clothing(results: Results) -> None:
    """Probes on the weights as they are, and after DIET: the first has one network, whose answers each seed shares."""
    before = next((one for one in results if one["method"] == "DeiT-Tiny"), None)
    after = [one for one in results if one["method"] == "DIET"]
    if before is None:
        return
    counts = sorted({int(name.split()[0]) for name in before["probes"]})
    pairs = []
    for count in counts:
        first, second = (
            np.stack([_wrong(one["probes"][f"{count} {seed}"]) for seed, one in enumerate(group)])
            for group in (after, [before] * len(after))
        )
        pairs.append(("", count, Pair(count, list(range(len(after))), first, second)))
    gaps = _corrected(pairs)
    print(
        "| labeled photographs | seeds | probe's error, DeiT-Tiny (%) | after DIET (%) | difference (points) "
        "| corrected p | neighbors, DeiT-Tiny (%) | after DIET (%) |\n|---|---|---|---|---|---|---|---|"
    )
    for _, count, pair in pairs:
        gap = gaps.get(("", count))
        known = [
            100 * np.mean([one["neighbors"][f"{count} {seed}"] for seed, one in enumerate(group)])
            for group in ([before] * len(after), after)
        ]
        parts = (
            f"{count:,}", str(len(after)), _percents(mean_error(pair.second)), _percents(mean_error(pair.first)),
            _points(gap), f"{gap.p_adjusted:.3f}" if gap else "", *(f"{value:.1f}" for value in known),
        )  # fmt: skip
        print(f"| {' | '.join(parts)} |")


def _pair(first: dict[int, Any], second: dict[int, Any]) -> Pair | None:
    """The answers of two groups of cells on their common seeds; None without any."""
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return None
    rows = [np.stack([_wrong(group[seed]["wrong"]) for seed in seeds]) for group in (first, second)]
    return Pair(first[seeds[0]]["num_labeled"], seeds, rows[0], rows[1])


def _corrected(pairs: Sequence[tuple[str, Any, Pair]]) -> dict[tuple[str, Any], Difference]:
    """The differences by name and key where there are two seeds, their p values corrected together."""
    found = {(name, key): difference(pair) for name, key, pair in pairs if len(pair.seeds) > 1}
    adjusted = hochberg([one.p for one in found.values()])
    return {key: replace(one, p_adjusted=p) for (key, one), p in zip(found.items(), adjusted, strict=True)}


def _wrong(packed: str) -> Bools:
    """The answers that `packed` of `pretraining.py` wrote."""
    count, _, digits = packed.partition(":")
    return np.unpackbits(np.frombuffer(bytes.fromhex(digits), dtype=np.uint8))[: int(count)].astype(bool)


def _percents(share: Interval) -> str:
    return f"{100 * share.value:.2f}{_ends(share)}"


def _points(gap: Difference | None) -> str:
    return "" if gap is None else f"{100 * gap.gap.value:+z.2f}{_ends(gap.gap)}"


def _ends(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" ({100 * interval.low:.2f} to {100 * interval.high:.2f})"
