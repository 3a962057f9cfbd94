"""Disks that are full, read-only or odd: said in one line, and the last whole checkpoint stays."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.export.conftest import make
from tests.forked import run
from tests.processes import environment
from vit.checkpoints.format import checkpoint_content
from vit.checkpoints.io import write_checkpoint
from vit.checkpoints.run import RunDirectory
from vit.errors import ResourceError
from vit.training.callbacks.checkpoints import DurableCheckpointIO

# A mount namespace of its own: no other process sees these disks, and they go with it.
UNSHARED = """
import ctypes, subprocess
CLONE_NEWNS = 0x20000
assert ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
"""

# A disk of 132 kB, and one that cannot be written to.
DISKS = """
import contextlib, io, json, os, subprocess, sys
folder = sys.argv[2]
def mount(name, options):
    os.mkdir(f"{folder}/{name}")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", f"{folder}/{name}"], check=True)
    return f"{folder}/{name}"
mount("full", "size=132k")
mount("locked", "ro")
from tests.conftest import ask
quick = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--model.network.embed_dim", 16,
         "--model.network.num_heads", 2, "--epochs", 3, "--wandb", "off")
full = ask("train", sys.argv[1], *quick, "--out", f"{folder}/full")
locked = ask("train", sys.argv[1], *quick, "--out", f"{folder}/locked")
left = [os.path.join(place, name) for place, _, names in os.walk(f"{folder}/full") for name in names]
from vit.checkpoints.io import read_checkpoint
from pathlib import Path
steps = {path: read_checkpoint(Path(path))["global_step"] for path in left if path.endswith(".ckpt")}
print(json.dumps([[a.code, a.err] for a in (full, locked)] + [left, steps]))
"""

# Exports to a disk that is full, or has 100 kB; each format ends with its code, and leaves nothing.
EXPORTED = """
import json, os, subprocess, sys
run, folder = sys.argv[1], sys.argv[2] + "/disk"
os.mkdir(folder)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
from tests.conftest import ask
def fill(left):
    with open(f"{folder}/fill", "wb") as file:
        file.write(bytes(2**20 - 4096 * (left + 2)))
ends = []
for name, left in FORMATS:
    fill(left)
    ending = {"hf": ""}.get(name, name)
    answer = ask("export", run, "--format", name, "--output", f"{folder}/m.{ending}".rstrip("."))
    ends.append([name, answer.code, answer.err.splitlines()[-1], os.listdir(folder)])
print(json.dumps(ends))
"""

# Tables and runs on a disk that is full: each error names its file.
WRITTEN = """
import json, os, subprocess, sys
run, folder, images = sys.argv[1], sys.argv[2] + "/disk", sys.argv[2] + "/images"
os.mkdir(folder)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], check=True)
with open(f"{folder}/fill", "wb") as file:
    file.write(bytes(2**16))
from tests.conftest import ask
predict = ["predict", run, images]
ends = []
for name, words in [("a.csv", [*predict, "--output"]), ("a.jsonl", [*predict, "--output"]),
                    ("a.parquet", [*predict, "--output"]), ("e.parquet", ["embed", run, images, "--output"]),
                    ("parts", [*predict, "--parts"]), ("runs", ["train", "digits", "--wandb", "off", "--out"])]:
    answer = ask(*words, f"{folder}/{name}")
    ends.append([name, answer.code, answer.err.splitlines()[-1]])
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
answer = ask("embed", run, images, "--output", f"{folder}/r.parquet")
ends.append(["r.parquet", answer.code, answer.err.splitlines()[-1]])
print(json.dumps([ends, [name for place, _, names in os.walk(f"{folder}/runs") for name in names]]))
"""

# The same for temporary files: found when the program starts, and full when a worker wants to send its first batch.
TEMPORARY = """
import contextlib, os, subprocess, sys, tempfile
folder = os.environ["TMPDIR"] = "/mnt"  # sockets leave a folder with a long path, as that of a test may be
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=40", "none", folder], check=True)
tempfile.gettempdir()
import wandb  # makes a folder there
with contextlib.suppress(OSError):
    for number in range(100):
        open(f"{folder}/{number}", "w").close()
from vit.__main__ import main
sys.exit(main(["train", sys.argv[1], "--network", "vit_nano_patch2_8", "--epochs", "1", "--data.cache", "none",
               "--data.num_workers", "1", "--wandb", "off", "--out", sys.argv[2]]))
"""


# A run that goes on while the disk of its wandb folder has 40 kB; then a tracker of numbers alone, as a study's cells.
TRACKED = """
import json, os, subprocess, sys
from pathlib import Path
data, folder = sys.argv[1], Path(sys.argv[2])
def mount(path):
    path.mkdir(exist_ok=True, parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "none", path], check=True)
from tests.conftest import ask
from vit.commands.training import train_progress
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.open import open_trackers
from vit.training.tracking.tracker import NUMBERS_ALONE, Tracking
def die(watcher, done, *rest):
    if done == 3:
        raise RuntimeError
step, train_progress.TrainProgress.step = train_progress.TrainProgress.step, die
quick = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 2, "--checkpoint_every", "0s")
ask("train", data, *quick, "--out", folder, "--wandb", "offline")
train_progress.TrainProgress.step = step
import wandb
wandb.teardown()
(run,) = folder.glob("*/*/*")
mount(run / "wandb")
answer = ask("train", "--resume", run, drawn=True)
mount(folder / "cell" / "wandb")
notices = []
settings = Tracking(folder / "cell", folder, "cell", None, {}, NUMBERS_ALONE)
tracker = open_trackers(Recipe(wandb="offline"), settings, notices.append)
for step in range(2000):
    tracker.log({"train/loss": 1.0, "lr": 0.1}, step)
tracker.finish()
free = [os.statvfs(place / "wandb").f_bavail for place in (run, folder / "cell")]
print(json.dumps([answer.code, answer.err, (run / "result.json").is_file(), notices, free]))
"""


def can_mount():
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return done.returncode == 0


needs_mount = pytest.mark.skipif(shutil.which("unshare") is None or not can_mount(), reason="may not mount")


def unshared(script, data, folder):
    """What a program with disks of its own prints in its last line, as JSON."""
    words = [sys.executable, "-c", UNSHARED + script, data, folder]
    done = run(words, timeout=300, cwd=folder, env=environment(folder))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_mount
@pytest.mark.faults("F2")
def test_the_error_of_a_full_disk_names_the_file(digits_run, tmp_path):
    """It was "No space left on device", and a probe of 0 bytes stayed in a folder of a run that never began."""
    (tmp_path / "images").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "images" / "a.png")
    ends, left = unshared(WRITTEN, digits_run.path, tmp_path)
    assert len(ends) == 7 and left == []
    for name, code, words in ends:
        why = "Read-only file system" if name == "r.parquet" else "No space left on device"
        assert code == 7 and why in words and f"{tmp_path}/disk/{name}" in words, (name, words)


@needs_mount
@pytest.mark.faults("F2")
@pytest.mark.parametrize(
    "formats",
    [
        [("safetensors", 0), ("safetensors", 25), ("pt2", 25)],
        [("hf", 25), ("onnx", 25)],
    ],
    ids=["few", "others"],
)
@pytest.mark.slow
def test_an_export_to_a_full_disk_is_one_line(tmp_path, formats):
    """The writer of torch.export aborts the process there, and others have errors of their own."""
    one_block = make("vit")
    write_checkpoint(checkpoint_content(one_block.description, one_block.network.state_dict()), tmp_path / "m.ckpt")
    ends = unshared(EXPORTED.replace("FORMATS", repr(formats)), tmp_path / "m.ckpt", tmp_path)
    assert len(ends) == len(formats)
    for name, code, said, left in ends:
        assert code == 7 and "cannot write" in said and "No space left on device" in said, (name, said)
        assert left == ["fill"], name


@needs_mount
@pytest.mark.faults("F1", "F2", "F3")
def test_a_disk_that_fills_up_and_one_that_cannot_be_written(colors, tmp_path):
    (code, said), locked, left, steps = unshared(DISKS, colors, tmp_path)
    assert code == 7 and "No space left on device" in said and "choose another --out" in said
    assert "WARNING: checkpoints will take up to 0." in said  # said at the start
    assert steps and all(step > 0 for step in steps.values())  # whole ones alone
    assert not [name for name in left if name.endswith(".partial")]
    assert locked[0] == 7 and "Read-only file system" in locked[1] and "--out" in locked[1]


@pytest.mark.slow
@needs_mount
@pytest.mark.faults("D22")
def test_no_room_for_temporary_files_is_said_and_not_waited_for(colors, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", UNSHARED + TEMPORARY, colors, tmp_path],
        env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert "TMPDIR" in done.stderr or "/mnt/" in done.stderr, done.stderr  # whoever fails first


@pytest.mark.slow
@needs_mount
@pytest.mark.faults("W7")
def test_a_disk_that_fills_up_under_wandb_is_one_warning(colors, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", UNSHARED + TRACKED, colors, tmp_path],
        env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code, said, finished, notices, free = json.loads(done.stdout.splitlines()[-1])
    assert (code, finished) == (0, True), said
    for lines in (said.splitlines(), notices):
        (line,) = [line for line in lines if "Weights & Biases" in line and "is offline" not in line]
        assert "No space left on device" in line and "wandb sync" in line
    assert free[1] == 0


@pytest.mark.faults("F4")
def test_one_file_that_cannot_be_replaced(tmp_path):
    (tmp_path / "last.ckpt").mkdir()  # not even root can replace a folder by a file
    files = DurableCheckpointIO(tmp_path / "other.ckpt", tmp_path / "previous.ckpt", print)
    with pytest.raises(ResourceError, match=r"last\.ckpt"):
        files.save_checkpoint({"x": torch.zeros(2)}, tmp_path / "last.ckpt")
    assert os.listdir(tmp_path) == ["last.ckpt"]


@pytest.mark.faults("F5", simulated="os.link fails")
def test_a_file_system_without_links_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    files = DurableCheckpointIO(tmp_path / "last.ckpt", tmp_path / "previous.ckpt", print)
    for step in (1, 2):
        files.save_checkpoint({"global_step": step}, tmp_path / "last.ckpt")
    found = {path.name: torch.load(path)["global_step"] for path in tmp_path.iterdir()}
    assert found == {"last.ckpt": 2, "previous.ckpt": 1}


@pytest.mark.faults("F5", simulated="fcntl.lockf fails")
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_can_be_trained_on(tmp_path, monkeypatch, number):
    import fcntl

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with RunDirectory(tmp_path).held():
        pass


@pytest.mark.faults("F6")
def test_paths_that_are_too_long(vit, colors, tmp_path):
    vit("train", colors, "--wandb", "off", "--out", f"{tmp_path}/{'x' * 300}").failed(7, "File name too long")
    deep = Path(tmp_path, *["x" * 200] * 25)
    vit("train", colors, "--wandb", "off", "--out", deep).failed(7, "File name too long")
    assert len(RunDirectory.create(str(tmp_path), "d" * 500, "n" * 500, "m" * 500).path.name) < 255
