"""Without the functions of POSIX systems, all modules can be imported, and one process trains and predicts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import vit
from vit.__main__ import main

# Third-party packages are imported first, because they have their own branches for Windows.
WINDOWS = """
import os, pkgutil, signal, sys
from importlib import import_module
import lightning.pytorch, matplotlib.figure, pyarrow.parquet, scipy.stats, sklearn.datasets
import timm, torch._dynamo, torch.distributed.checkpoint, torchvision, uvicorn, wandb
for name in ("O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "mkfifo", "nice", "sched_getaffinity", "fork", "getuid"):
    delattr(os, name)
for name in ("SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGHUP", "pthread_sigmask", "sigtimedwait"):
    delattr(signal, name)
sys.modules["fcntl"] = sys.modules["resource"] = None
sys.platform = "win32"
import vit
for module in pkgutil.walk_packages(vit.__path__, "vit."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
from tests.conftest import ask
data, out = sys.argv[1:]
quick = ("--network", "vit_nano_patch2_8", "--model.network.depth", "1", "--epochs", "1", "--wandb", "off")
answers = [ask("train", data, *quick, "--data.num_workers", "0", "--out", out)]
run = answers[0].out.split("checkpoint ")[1].split()[0]
answers.append(ask("predict", run, data, "--recursive", "--output", f"{out}/rows.csv"))
print([answer.code for answer in answers], *(answer.err for answer in answers))
"""


def test_one_process_needs_nothing_of_posix(colors, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS, colors, tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": str(Path(vit.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[0, 0]"), done.stdout


@pytest.mark.parametrize(("platform", "lines"), [("win32", 1), ("linux", 0), ("darwin", 0)])
def test_windows_is_told_in_one_line(capsys, monkeypatch, platform, lines):
    monkeypatch.setattr(sys, "platform", platform)
    assert main(["--version"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines and all("Linux and macOS" in line for line in said)
