"""Shards and parquet tables in Google's object store: an emulator on the loopback, read through gcsfs."""

import importlib.util
import os
import socket
import subprocess
import sys
import time

import pytest

from tests.processes import free_port
from vit.data.checks.contents import read_contents
from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.extras.shards.packing import pack

HAS_ALL = all(importlib.util.find_spec(name) for name in ("gcsfs", "gcp_storage_emulator"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_ALL, reason="pip install gcsfs gcp-storage-emulator, to run the tests of gs://"),
    pytest.mark.filterwarnings("default"),  # of Google's libraries
]
NAMES = ("blue", "green", "red")
DATA = "gs://bucket/shards"
SERVER = """
import sys, time
from gcp_storage_emulator.server import create_server
create_server("127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket="bucket").start()
time.sleep(300)
"""
WRITE = """
import sys, fsspec
files = fsspec.filesystem("gs", token="anon")
for name in sys.argv[1:]:
    files.pipe_file("bucket/" + name, open(name, "rb").read())
"""


def put(folder, *names):
    """Write files of a folder into the store, from a process of its own."""
    subprocess.run([sys.executable, "-c", WRITE, *names], cwd=folder, check=True, timeout=120)


@pytest.fixture
def store(tmp_path, colors, monkeypatch):
    """A folder whose files `gs://bucket/` has: the colors as shards."""
    port = free_port()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # asks by gRPC, which the emulator has not
    monkeypatch.setenv("VIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "store"
    (folder / "shards").mkdir(parents=True)
    pack(open_source(str(colors)), folder / "shards", 6_000, lambda done, total: None)
    server = subprocess.Popen([sys.executable, "-c", SERVER, port], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as tried:
                if not tried.connect_ex(("127.0.0.1", int(port))):
                    break
            time.sleep(0.1)
        put(folder, *(os.fspath(path.relative_to(folder)) for path in folder.rglob("*.*")))
        yield folder
    finally:
        server.kill()
        server.wait()


def test_images_of_the_store_are_those_of_the_folder(store, colors):
    source, near = open_source(DATA), open_source(str(colors))
    assert source.class_names == NAMES and len(source.splits["train"]) == 42
    assert sorted(read_contents(source).hashes["train"]) == sorted(read_contents(near).hashes["train"])
    with pytest.raises(DataError, match="there is no gs://"):
        open_source("gs://bucket/nothing")


@pytest.mark.faults("L29", simulated="an emulator stands in for the store")
def test_an_object_that_changed(store, monkeypatch):
    monkeypatch.setenv("VIT_CACHE_GB", "0")
    train = open_source(DATA).splits["train"]
    changed = list(store.glob("shards/*.tar"))
    for path in changed:
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
    put(store, *(os.fspath(path.relative_to(store)) for path in changed))
    with pytest.raises(DataError, match=r"is not the image that .* lists"):
        train.encoded(len(train) - 1)


def test_a_training_reads_the_store(store, vit, here):
    options = ("--network", "vit_nano_patch2_8", "--image_size", 8, "--model.network.depth", 1, "--wandb", "off")
    vit("train", DATA, *options, "--epochs", 2, "--batch_size", 8, "--data.num_workers", 2,
                 "--data.cache", "none", "--out", "runs").ok()  # fmt: skip
