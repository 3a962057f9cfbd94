"""Measures the sets of docs/atlas.md: frozen networks on all sets, fine-tuned ones on some: `make results ROW=atlas`.

    python evidence/make/atlas.py atlas

ATLAS_FOLDERS names the folder of sets that atlas_sets.py has laid out. Rows go to evidence/atlas/*.csv, set by set.
What has its rows is not measured again. Trainings lie in runs/evidence/atlas/, where an interrupted study goes on.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from atlas_rows import (
    CHOSEN,
    MOST_USED,
    SIDE,
    SIZES,
    SMALL_SIDE,
    STAGES,
    DifferenceRow,
    ErrorRow,
    ForecastRow,
    Key,
    SetRow,
    keep,
    read_rows,
)
from atlas_sets import read_sets
from definitions import EVIDENCE, MADE, ROOT
from kept import MACHINES
from machine import machine
from published_weights import CNN, SECOND_CNN, VIT, make

from vit.commands.studies.study_options import read_words
from vit.commands.studies.study_plan import make_study_plan
from vit.commands.studies.study_series import FEW_TEST_IMAGES, fold_sources
from vit.console import Reporter
from vit.data.core.samples import Source
from vit.data.splits.subset import subset
from vit.inference.scores.image_groups import effective_number, gathered
from vit.study.answer.summary import summarize
from vit.study.answer.wording import LINEAR_PROBE
from vit.study.findings import CellResult, Protocol
from vit.study.folder import collect
from vit.study.frozen.frozen import FROZEN_SEEDS, frozen_results
from vit.study.statistics.paired import Pair, difference, pairs
from vit.study.statistics.variance_components import Answers, Spread

HERE = machine()
RUNS = ROOT / MADE / "atlas"
BUDGET = "steps:100"
PRECISION = "bf16-mixed"  # of frozen networks
FIRST = 9  # sets whose frozen networks come before any training
NETWORKS = {"vit_tiny_patch16_224": "ViT", CNN: "CNN", SECOND_CNN: "CNN", "ViT": "ViT", "CNN": "CNN"}
KEPT = Key("clothing", "tuned", SIDE)  # the kept study evidence/clothing has other splits of the same photographs


def rows_of(
    key: Key,
    results: Sequence[CellResult],
    protocol: Protocol,
    num_images: int,
    seconds: float,
    where: str = HERE,
) -> list[Key]:
    """The rows of the finished cells of one set, which a machine has computed."""
    own: dict[str, Any] = asdict(key)
    images, folds = protocol["images"], int(str(protocol.get("folds", 0)))
    assert isinstance(images, dict)
    counts: dict[str, Any] = {split: images[split] for split in ("train", "validation", "test")}
    facts: dict[str, Any] = {"classes": int(str(protocol["classes"])), "images": num_images, "folds": folds}
    rows: list[Key] = [SetRow(**own, **facts, **counts, seconds=round(seconds), machine=where)]
    rows += [
        ErrorRow(**own, network=NETWORKS[one.series], images=one.num_images, seed=one.seed, error=1 - one.accuracy)
        for one in results
    ]
    vit, cnn = (_answers([one for one in results if NETWORKS[one.series] == name]) for name in ("ViT", "CNN"))
    for pair in pairs(cnn, vit, effective_number(results[0].groups), bool(folds)):
        if len(pair.seeds) > 1:
            found, error = difference(pair), standard_error(pair)
            low, high = (float(str(end)) for end in (found.gap.low, found.gap.high))
            seeds = len(pair.seeds)
            rows.append(DifferenceRow(**own, images=pair.num_images, seeds=seeds, gap=found.gap.value,
                                      standard_error=error, low=low, high=high, p=found.p))  # fmt: skip
    for one in summarize(results, protocol, [], None).backtest:
        rows.append(ForecastRow(**own, network=NETWORKS[one.series], known_to=one.known_to, images=one.num_images,
                                forecast=one.error, low=one.low, high=one.high, measured=one.measured))  # fmt: skip
    return rows


def _answers(results: Sequence[CellResult]) -> Answers:
    sizes = sorted({one.num_images for one in results})
    return {
        size: {one.seed: gathered(~one.correct, one.groups) for one in results if one.num_images == size}
        for size in sizes
    }


def standard_error(pair: Pair) -> float:
    """The standard error of a mean difference over seeds and test images, at least that of one test image.

    Where each seed tests a fold of its own, the seeds show the scatter of the images as well.
    """
    if pair.has_folds:
        variance = pair.gaps().mean(axis=1).var(ddof=1) / len(pair.seeds)
    else:
        spread = Spread.of(pair.gaps())
        variance = max(spread.by_seeds, spread.by_both) + spread.by_images
    return float(max(variance**0.5, 1 / pair.num_units))


def frozen(key: Key, photos: Path) -> list[Key]:
    """Fit heads to the features of both networks at every size, with ten seeds."""
    began = time.monotonic()
    words = [*_words(photos, key), "--sizes", "50", "--seeds", str(FROZEN_SEEDS)]
    words += ["--set", f"trainer.precision={PRECISION}"]
    plan = make_study_plan(read_words(words), Reporter())
    data = next(iter(plan.firsts.values())).data
    images = sum(map(len, plan.source.splits.values()))
    test = plan.source.splits["test"]
    folds = FROZEN_SEEDS if len(test) < FEW_TEST_IMAGES and test.groups is None else 0  # as in `num_folds`
    sources = list(map(at_most, fold_sources(data, None, folds))) if folds else [at_most(plan.source)] * FROZEN_SEEDS
    pool = min(len(one.splits["train"]) for one in sources)
    sizes = [size for size in SIZES if 2 * len(plan.source.class_names) <= size <= pool]
    results: list[CellResult] = []
    for name, recipe in plan.firsts.items():
        where = (RUNS / "features" / f"{key.set}_{key.side}", plan.contents.by_path(plan.source))
        results += frozen_results(name, recipe, sizes, sources, *where)
    protocol = {**plan.protocol, "budget": LINEAR_PROBE, **({"folds": folds} if folds else {})}
    protocol["images"] = {split: len(samples) for split, samples in sources[0].splits.items()}
    return rows_of(key, results, protocol, images, time.monotonic() - began)


def at_most(source: Source) -> Source:
    """The source with no more images in a split than `MOST_USED`, with the class fractions of all."""
    splits = {
        split: subset(samples, MOST_USED[split], 0, "natural") if len(samples) > MOST_USED[split] else samples
        for split, samples in source.splits.items()
    }
    return replace(source, splits=splits)


def tune(key: Key, photos: Path, sizes: Sequence[int], seeds: int) -> list[Key]:
    """Train what is missing of a study, and return the rows of all its finished cells."""
    words = [*_words(photos, key), "--sizes", ",".join(map(str, sizes)), "--seeds", str(seeds), "--yes", "true"]
    words += ["--budget", BUDGET, "--out", str(RUNS / "studies"), "--name", f"{key.set}_{key.side}", "--jobs", "1"]
    subprocess.run([sys.executable, "-m", "vit", "study", *words], check=True, cwd=ROOT)  # noqa: S603
    return trained(key, RUNS / "studies" / f"{key.set}_{key.side}")


def trained(key: Key, study: Path, where: str = HERE) -> list[Key]:
    """The rows of the finished cells of a study."""
    results, protocol, _ = collect(study)
    assert isinstance(protocol["images"], dict)
    images = sum(protocol["images"].values())
    return rows_of(key, results, protocol, images, sum(one.seconds for one in results), where)


def _words(photos: Path, key: Key) -> list[str]:
    names = (VIT, SECOND_CNN if key.stage == "second" else CNN)
    weights = [word for name in names for word in ("--init_from", str(RUNS / f"{name}.safetensors"))]
    side = ["--set", f"model.preprocess.image_size={key.side}", "--set", "data.num_workers=0"]
    return [str(photos / key.set), *weights, *side, "--wandb", "off"]


def jobs() -> list[tuple[Key, tuple[int, ...], int]]:
    """(what, sizes, seeds) in their order; no sizes where networks are frozen. An early end leaves all sets alike."""
    sides = (SMALL_SIDE, SIDE)
    first, *later = [[(Key(name, "tuned", side), *stage) for name in CHOSEN] for side in sides for stage in STAGES]
    small = [(Key(name, "frozen", SMALL_SIDE), (), 0) for name in CHOSEN]
    whole = [(Key(name, "frozen", SIDE), (), 0) for name in read_sets()]
    second = [(Key(name, "second", SIDE), (), 0) for name in read_sets()]
    return [*whole[:FIRST], *small, *first, *whole[FIRST:], *second, *itertools.chain(*later)]


def is_done(key: Key, sizes: Sequence[int], seeds: int) -> bool:
    """Whether the rows of a job are kept."""
    if key.stage != "tuned":
        return any(row.key == key for row in read_rows(SetRow))
    found = sum(row.key == key for row in read_rows(ErrorRow))
    return found >= 2 * len(sizes) * seeds


def main() -> None:
    """Measure what has no rows yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=["atlas"])
    parser.parse_args()
    machines = json.loads((EVIDENCE / KEPT.set / MACHINES).read_text(encoding="utf-8"))
    keep(KEPT, trained(KEPT, EVIDENCE / KEPT.set, "; ".join(machines)))
    left = [job for job in jobs() if not is_done(*job)]
    if not left:
        print("atlas: every set is measured")
        return
    if not os.environ.get("ATLAS_FOLDERS"):
        raise SystemExit("set ATLAS_FOLDERS to the folder that evidence/make/atlas_sets.py has laid out")
    photos = Path(os.environ["ATLAS_FOLDERS"])
    make(RUNS, (VIT, CNN, SECOND_CNN))
    for key, sizes, seeds in left:
        keep(key, tune(key, photos, sizes, seeds) if key.stage == "tuned" else frozen(key, photos))
        print(f"{key}: kept", flush=True)


if __name__ == "__main__":
    main()
