"""Data that a run sends to Weights & Biases, read from the files of an offline run."""

import json
import os
import re
import struct
import sys

import pytest


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No login, an empty working folder that stays empty, and a home folder without files of wandb."""
    for name in [name for name in os.environ if name.startswith("WANDB_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_ERROR_REPORTING"):
        monkeypatch.setenv(name, "")  # so that the end of the test undoes what the tracker sets
        monkeypatch.delenv(name)
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.chdir(work)
    yield
    wandb = sys.modules.get("wandb")
    if wandb is not None:
        wandb.teardown()
    assert list(work.iterdir()) == []
    left = [path for path in home.rglob("*") if re.search("wandb|netrc", path.name)]  # matplotlib may write
    assert left == []


def records(file):
    """The records of a .wandb file, which is a LevelDB log of protobuf messages."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, position, parts = file.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while position + 7 <= len(data):
        room = 32768 - position % 32768
        if room < 7:
            position += room
            continue
        length, kind = struct.unpack_from("<HB", data, position + 4)
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a complete record, or its last part
            yield Record.FromString(parts)
            parts = b""


def logs(folder):
    return sorted((folder / "wandb").glob("*run-*/*.wandb"))


def kept(folder, kind):
    return [getattr(record, kind) for file in logs(folder) for record in records(file) if record.HasField(kind)]


def plain(items):
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}


def history(folder):
    return [plain(row.item) for row in kept(folder, "history")]
