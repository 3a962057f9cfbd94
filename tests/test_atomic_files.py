"""Files are complete or not there, also when several processes write one file at the same time."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.forked import popen
from tests.processes import ROOT
from vit.atomic_files import ABANDONED_SECONDS, atomic_write, remove_partial, write_json

WRITERS, ROUNDS = 4, 10
SHARD = """
import json, sys, time
from pathlib import Path
from vit.study.folder import StudyDirectory
root, number = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
began = float(input())
for round in range(int(sys.argv[3])):
    study = StudyDirectory(root / str(round))
    time.sleep(max(0.0, began + 0.1 * round - time.time()))  # all at the same time
    for _ in range(10):
        study.describe([], {"shard": number, "long": "x" * 100_000})
        assert len(json.loads(study.description_path.read_text())["protocol"]["long"]) == 100_000
"""
KILLED = """
import os, sys
from pathlib import Path
from vit.atomic_files import atomic_write
with atomic_write(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    os.kill(os.getpid(), 9)
"""


@pytest.mark.faults("R9")
def test_shards_that_start_together_write_one_description(tmp_path):
    command = [sys.executable, "-c", SHARD, str(tmp_path)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    writers = [popen([*command, str(number), str(ROUNDS)], cwd=ROOT, **streams) for number in range(WRITERS)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    began = time.time() + 0.5
    for writer in writers:
        writer.stdin.write(f"{began}\n")
        writer.stdin.flush()
    said = [writer.communicate(timeout=900)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * WRITERS, "".join(said)
    for number in range(ROUNDS):
        assert os.listdir(tmp_path / str(number)) == ["study.json"]


def test_what_a_killed_writer_left_goes_and_what_a_living_one_writes_stays(tmp_path):
    path = tmp_path / "study.json"
    killed = (
        "import os, sys; from pathlib import Path; from vit.atomic_files import atomic_write\n"
        "with atomic_write(Path(sys.argv[1])) as p:"
    )
    for _ in range(2):
        script = f"{killed}\n    p.write_text('half'); os.kill(os.getpid(), 9)"
        subprocess.run([sys.executable, "-c", script, str(path)], cwd=ROOT, check=False)
    old, _ = left = sorted(tmp_path.iterdir())
    assert len(left) == 2 and not path.exists()
    os.utime(old, (time.time() - ABANDONED_SECONDS - 1,) * 2)
    (tmp_path / ".study.jsonl.12.partial").touch()  # a partial file of another file
    os.utime(tmp_path / ".study.jsonl.12.partial", (0, 0))
    write_json(path, {"a": 1})
    assert not old.exists() and left[1].exists() and (tmp_path / ".study.jsonl.12.partial").exists()
    assert json.loads(path.read_text()) == {"a": 1}
    remove_partial(tmp_path)
    assert os.listdir(tmp_path) == ["study.json"]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")

    def fail():
        with atomic_write(path) as partial:
            partial.write_text("after")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["file"]
