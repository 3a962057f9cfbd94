"""The time that a study would take, which its dry run shows."""

import pytest
import torch

from vit.commands.studies.study_estimate import show_estimate, time_of_all
from vit.commands.studies.study_options import read_words
from vit.commands.studies.study_plan import make_study_plan
from vit.console import Reporter
from vit.data.loading import threads
from vit.study.running import runner

NANO = ("--networks", "vit_nano_patch2_8", "--set", "model.network.depth=1", "--set", "trainer.accelerator=cpu")


@pytest.mark.parametrize(
    ("times", "slots", "expected"),
    [([4], 1, 4), ([1, 1, 1], 2, 2), ([1, 2, 3, 4], 2, 6), ([5, 1, 1, 1], 2, 5), ([3, 3], 8, 3)],
)
def test_cells_start_in_their_order_where_a_slot_is_free(times, slots, expected):
    assert time_of_all(times, slots) == expected


@pytest.fixture
def estimated(monkeypatch, capsys, tmp_path):
    """`estimated(*words)`: what a dry run says of digits on two cores, where a step takes 1 s and scoring nothing."""
    monkeypatch.setattr(runner, "time_network", lambda recipe, machine: (1.0, 0.0))
    monkeypatch.setattr(threads, "available_cores", lambda: 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)

    def estimate(*words, folder=tmp_path):
        show_estimate(Reporter(), make_study_plan(read_words(["digits", *words, "--out", str(folder)]), Reporter()))
        return capsys.readouterr().out

    return estimate


@pytest.mark.parametrize(
    ("seeds", "jobs", "said"),
    [
        (1, 2, "1 cell, about 20 s with 1 at a time on 2 cores"),
        (2, 8, "2 cells, about 20 s with 2 at a time on 2 cores"),
        (3, 2, "3 cells, about 40 s with 2 at a time on 2 cores"),
        (4, 8, "4 cells, about 40 s with 4 at a time on 2 cores"),
        (4, 1, "4 cells, about 80 s with 1 at a time on 2 cores"),
    ],
)
def test_no_more_cells_than_there_are_and_than_cores_shorten_a_study(estimated, seeds, jobs, said):
    """The sum of all times was divided by the jobs: two cells of 10 s took 3 s "with 8 at a time on 2 cores"."""
    options = ("--sizes", "100", "--seeds", str(seeds), "--jobs", str(jobs), "--wandb", "off")
    assert said in estimated(*NANO, *options, "--budget", "steps:20")


def test_a_linear_probe_computes_each_image_once(estimated, monkeypatch, tmp_path):
    """Its ten penalties were ten epochs, forward and backward, in each cell."""
    from vit.study.frozen.frozen import write_random

    monkeypatch.setattr(runner, "time_network", lambda recipe, machine: (1000.0, 1.0))
    write_random("vit_nano_patch2_8", tmp_path / "start.ckpt")
    probes = ("--set", "model.freeze=backbone", "--set", f"model.init_from={tmp_path / 'start.ckpt'}")
    lengths = ("--sizes", "100,all", "--seeds", "2", "--jobs", "1", "--budget", "steps:20", "--wandb", "off")
    said = estimated(*NANO[:2], *NANO[4:], *probes, *lengths)
    computed = 1797 + 4 * 50  # all images of digits, and four heads
    assert f"4 cells, about {computed / 60:.0f} min" in said
    alone = estimated("--init_from", str(tmp_path / "start.ckpt"), *probes[:2], *lengths)  # was refused: "no weights"
    assert "vit_nano_patch2_8" in alone and f"4 cells, about {computed / 60:.0f} min" in alone
