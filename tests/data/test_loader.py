"""How many processes prepare the images of a training, where the user does not say."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.forked import run
from tests.processes import environment, linux_only
from vit.data.core.samples import Samples, Source
from vit.data.loading import loader
from vit.data.loading.module import ImageDataModule, LoaderOptions
from vit.data.pixels.augment import Augment
from vit.data.pixels.preprocess import Preprocess


def workers(augment: Augment) -> int:
    images = np.zeros((40, 8, 8), dtype=np.uint8)
    samples = Samples([str(number) for number in range(40)], np.zeros(40, dtype=np.int64), arrays=images)
    options = LoaderOptions(4, cache="memory")
    data = ImageDataModule(Source("made", ("a",), {"train": samples}), Preprocess(8), augment, options, seed=0)
    return data.train_dataloader().num_workers


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more processes than this machine has cores
@pytest.mark.parametrize(
    ("augment", "has_gpu", "cores", "expected"),
    [
        (Augment(shift=0.1, mixup=0.5), True, 16, 0),  # a batch is one gather; the GPU does the rest
        (Augment(randaugment=2), True, 16, 16),
        (Augment(randaugment=2), True, 40, 16),
        (Augment(randaugment=2), False, 16, 0),  # the training needs these cores
        (Augment(crop=0.5), False, 6, 6),
    ],
)
def test_images_that_need_work_before_a_gpu_has_them_get_a_process_for_each_core(
    augment: Augment, has_gpu: bool, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "available_cores", lambda: cores)
    monkeypatch.setattr(loader.torch.cuda, "is_available", lambda: has_gpu)
    assert workers(augment) == expected


FEW = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv.pop(1)),) * 2)
if sys.argv.pop(1) == "late":  # as if they were used up after the start
    from vit.data.loading import loader
    loader._check_descriptors = lambda _: None
from vit.__main__ import main
sys.exit(main())
"""


@linux_only
@pytest.mark.faults("D44")
@pytest.mark.parametrize(("limit", "when"), [(28, "early"), pytest.param(32, "late", marks=pytest.mark.slow)])
def test_too_few_descriptors_are_one_line_and_no_hang(colors, tmp_path, limit, when):
    (tmp_path / "few.py").write_text(FEW)
    command = ("train", colors, "--network", "vit_nano_patch2_8", "--epochs", 2, "--data.num_workers", 2,
               "--data.cache", "none", "--wandb", "off", "--out", tmp_path / "runs")  # fmt: skip
    done = run(
        [sys.executable, tmp_path / "few.py", limit, when, *command],
        timeout=200, cwd=tmp_path, env=environment(tmp_path),
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "error[" in line]
    assert "too many open files" in line and "ulimit -n" in line
    assert when == "late" or "Traceback" not in done.stderr


KILLED = """
import multiprocessing, os, signal, sys, tempfile, time
from multiprocessing import connection, util
import torch
from vit.data.loading.loader import worker_loader

class Batch:
    def __init__(self):
        self.image = torch.zeros(4)

    def share_memory(self):
        self.image.share_memory_()

class Batches:
    def __getitems__(self, keys):
        return Batch()

def training(pids):
    loader = worker_loader(Batches(), [[number] for number in range(50)], 2, keep_workers=True)
    next(iter(loader))
    pids.send([worker.pid for worker in loader._iterator._workers])
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    folder = util.get_temp_dir()  # of a server whose children train
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=training, args=(sender,))
    child.start()
    sender.close()
    workers = receiver.recv()
    child.join()
    until = time.monotonic() + 90
    while any(os.path.exists(f"/proc/{pid}") for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    alive = [pid for pid in workers if os.path.exists(f"/proc/{pid}")]
    others = {*os.listdir(tempfile.gettempdir())} - {os.path.basename(folder)}
    print(child.exitcode, alive, os.path.isdir(folder), others)
"""


@linux_only
@pytest.mark.parametrize(  # the path of a socket has 107 characters at most
    "place", [pytest.param("short", marks=pytest.mark.slow), "long" * 20]
)
def test_workers_of_a_killed_training_remove_their_own_sockets_alone(tmp_path, place):
    (tmp_path / "killed.py").write_text(KILLED)
    with tempfile.TemporaryDirectory() as below:
        folder = Path(below, place)
        folder.mkdir()
        variables = {**environment(tmp_path), "TMPDIR": str(folder)}
        done = run([sys.executable, tmp_path / "killed.py"], timeout=200, cwd=tmp_path, env=variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "-9 [] True set()"


CELL = """
from vit.study.running.runner import _context
if __name__ == "__main__":
    process = _context().Process(target=print, args=("trained",))
    process.start()
    process.join()
"""


@linux_only
@pytest.mark.slow
def test_a_long_path_for_temporary_files_stops_no_cell_of_a_study(tmp_path):
    (tmp_path / "cell.py").write_text(CELL)
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    variables = {**environment(tmp_path), "TMPDIR": str(folder)}
    done = run([sys.executable, tmp_path / "cell.py"], timeout=200, real=True, cwd=tmp_path, env=variables)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
