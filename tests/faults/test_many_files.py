"""A hundred thousand files: time to list them, memory to train on and to predict them, a kill in between."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from tests.processes import ROOT
from tests.tables import rows

MANY, FEW, CLASSES = 100_000, 1_000, 10

PREDICT = """
import json, resource, sys, time
from vit.__main__ import main
started = time.monotonic()
code = main(["predict", *sys.argv[1:]])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"code": code, "megabytes": peak, "seconds": time.monotonic() - started}))
"""
TRAIN = """
import json, os, sys, time
from vit.data.pixels.augment import Augment
from vit.data.loading.module import ImageDataModule, LoaderOptions
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.sources import open_source

def megabytes():
    me = os.getpid()
    family = [me, *open(f"/proc/{me}/task/{me}/children").read().split()]
    lines = [line for one in family for line in open(f"/proc/{one}/smaps_rollup") if line.startswith("Pss:")]
    return sum(int(line.split()[1]) for line in lines) / 1024

before, started = megabytes(), time.process_time()
source = open_source(sys.argv[1])
listed = time.process_time() - started
options = LoaderOptions(500, num_workers=1, cache="none")
data = ImageDataModule(source, Preprocess(8), Augment(crop=0.5), options, seed=0)
loader, after = data.train_dataloader(), []
for epoch in range(3):
    count, most = 0, 0.0
    for number, batch in enumerate(loader):
        count += len(batch)
        data.finished_batch()
        if number % 20 == 19:  # the worker is there while batches come
            most = max(most, megabytes() - before)
    after.append(most)
print(json.dumps({"seconds": listed, "images": count, "megabytes": after}))
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """100,000 names of 200 pictures, in ten folders; and 1,000 of them."""
    root = tmp_path_factory.mktemp("many")
    generator = np.random.default_rng(0)
    (root / "few").mkdir()
    for number in range(CLASSES):
        folder = root / "all" / f"{number}"
        folder.mkdir(parents=True)
        for place in range(20):
            Image.fromarray(generator.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"{place:05d}.png")
        for place in range(20, MANY // CLASSES):
            os.link(folder / f"{place % 20:05d}.png", folder / f"{place:05d}.png")
        for place in range(FEW // CLASSES):
            os.link(folder / f"{place:05d}.png", root / "few" / f"{number}-{place}.png")
    return root


def python(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def said(process):
    out, _ = process.communicate(timeout=1800)
    return json.loads(out.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.faults("D17", "R11")
def test_memory_of_prediction_does_not_grow_and_a_kill_loses_no_row(many, digits_run, tmp_path):
    few = said(python(PREDICT, digits_run.path, many / "few", "--output", tmp_path / "few.csv"))
    killed = python(PREDICT, digits_run.path, many / "all", "--recursive", "--output", tmp_path / "all.csv")
    partial = tmp_path / "all.csv.partial"
    deadline = time.monotonic() + 600
    while not (partial.exists() and partial.stat().st_size > 1_000_000) and time.monotonic() < deadline:
        time.sleep(0.2)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert partial.exists() and not (tmp_path / "all.csv").exists()
    again = said(python(PREDICT, digits_run.path, many / "all", "--recursive", "--output", tmp_path / "all.csv"))
    print(f"1,000 files: {few}; 100,000 after a kill: {again}")
    assert (few["code"], again["code"]) == (0, 0)
    paths = [row["path"] for row in rows(tmp_path / "all.csv") if row["status"] == "ok"]
    assert len(paths) == len(set(paths)) == MANY
    assert again["megabytes"] < 1.1 * few["megabytes"]


@pytest.mark.slow
@pytest.mark.faults("D17")
def test_listing_and_loading_many_files_takes_little(many):
    found = said(python(TRAIN, many / "all"))
    print(found)
    assert found["images"] == MANY and found["seconds"] < 5
    _, second, last = found["megabytes"]  # in the first epoch pages are touched for the first time
    assert last < 250 and last - second < 20  # a worker's own modules are most of it
