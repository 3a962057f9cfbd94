"""A training on shards, near or far, that is stopped or killed and continued ends as if nothing had happened."""

import signal

import pytest

from tests.data.shards.server import Server
from tests.parity.interrupted import ENDED, SHORT, begun, same_but_for_rounding
from tests.processes import ended, linux_only
from tests.runs import run_folder
from vit.data.sources.sources import open_source
from vit.extras.shards.packing import pack

KILLED = ENDED.replace("SIGTERM", "SIGKILL")


@pytest.fixture
def shards(colors, tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    pack(open_source(str(colors)), folder, 6_000, lambda done, total: None)
    assert len(list(folder.glob("*.tar"))) > 4
    return folder


@linux_only
@pytest.mark.slow
@pytest.mark.faults("A15")
def test_two_processes_begin_and_one_finishes(vit, shards, tmp_path):
    """In the middle of an epoch, with everything that does not depend on the number of processes."""
    many = begun(tmp_path, 2, shards)
    assert vit("train", shards, *SHORT, "--out", tmp_path / "one").code == 0
    vit("train", "--resume", many, "--devices", 1).ok()
    assert same_but_for_rounding(run_folder(tmp_path / "one"), many)


@linux_only
@pytest.mark.slow
@pytest.mark.faults("A15")
def test_a_training_on_far_shards_is_killed(vit, shards, tmp_path, monkeypatch):
    """The images come from a server, files are read in every epoch by two loading processes, and the end is the same
    as from the disk."""
    monkeypatch.setenv("VIT_CACHE", str(tmp_path / "cache"))
    with Server(tmp_path) as server:
        options = (*SHORT, "--data.cache", "none", "--data.num_workers", 2, "--checkpoint_every", "0s")
        address = f"{server.address}/shards"
        ended(tmp_path, -signal.SIGKILL, "train", address, *options, "--out", tmp_path / "killed", script=KILLED)
        killed = run_folder(tmp_path / "killed")
        vit("train", "--resume", killed).ok()
    assert vit("train", shards, *options, "--out", tmp_path / "near").code == 0
    assert same_but_for_rounding(run_folder(tmp_path / "near"), killed)
