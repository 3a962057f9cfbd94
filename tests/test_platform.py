"""Without the functions of POSIX systems, all modules can be imported, and one process trains, predicts and measures.

Workers that are spawned, as on macOS and Windows, give the same numbers as forked ones.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import vit
from vit.__main__ import main
from vit.checkpoints.load import load
from vit.checkpoints.model_path import check_model, check_weights
from vit.checkpoints.run import RunDirectory
from vit.csv_files import records
from vit.data.core.dataset_names import FAR, HUB, KNOWN
from vit.errors import CheckpointError

# Third-party packages are imported first, because they have their own branches for Windows.
WINDOWS = """
import os, pkgutil, signal, sys
from importlib import import_module
import lightning.pytorch, matplotlib.figure, pyarrow.parquet, scipy.stats, sklearn.datasets
import timm, torch._dynamo, torch.distributed.checkpoint, torchvision, uvicorn, wandb
for name in (
    "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "mkfifo", "nice", "sched_getaffinity", "fork", "getuid",
    "geteuid", "getpgid", "killpg", "setsid", "getloadavg", "fdatasync", "pread", "pwrite", "posix_fadvise",
    "register_at_fork",
):
    delattr(os, name)
for name in (
    "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGHUP", "SIGXCPU", "SIGALRM", "SIGKILL", "SIGCHLD", "SIGQUIT", "SIGTSTP",
    "SIGCONT", "pthread_sigmask", "sigtimedwait", "sigwait", "setitimer", "alarm", "pause",
):
    delattr(signal, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"):
    sys.modules[name] = None
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
answers.append(ask("evaluate", run))
few = ("--data.train_images", "50", "--batch_size", "10", "--data.num_workers", "0")
answers.append(ask("train", "digits", *quick, *few, "--out", out))
answers.append(ask("--help"))
print([answer.code for answer in answers], *(answer.err for answer in answers))
"""
# Read by every Python process that finds it on its path: the workers of WORKERS and the cells of a study.
WITHOUT_POSIX = """
import os, signal
for name in ("O_NONBLOCK", "mkfifo", "nice", "fork"):
    delattr(os, name)
for name in ("SIGUSR1", "SIGUSR2", "pthread_sigmask", "sigtimedwait"):
    delattr(signal, name)
"""
WORKERS = """
import sys
if __name__ == "__main__":
    method, data, out = sys.argv[1:]
    import multiprocessing, os
    from vit.__main__ import main
    from vit.data.loading import loader
    from vit.study.running import runner
    assert hasattr(os, "nice") == (method == "fork")
    loader._START = method
    if method == "spawn":
        runner.get_all_start_methods = lambda: ["spawn"]
    quick = ("--wandb", "off", "--out", out)
    small = ("vit_nano_patch2_8", "--model.network.depth", "1", "--epochs", "2", "--data.num_workers", "2")
    codes = [main(["train", data, "--network", *small, "--data.cache", "none", "--name", "a", *quick])]
    from pathlib import Path
    (run,) = [path.parent for path in Path(out).rglob("config.yaml")]
    codes.append(main(["predict", str(run), data, "--recursive", "--output", f"{out}/rows.csv"]))
    codes.append(main(["evaluate", str(run), data, "--include_seen", "--split", "train"]))
    study = ("--networks", "vit_nano_patch2_8", "--sizes", "9", "--seeds", "1", "--budget", "steps:2", "--jobs", "2")
    codes.append(main(["study", data, *study, "--name", "study", *quick]))
    print(codes)
"""


@pytest.mark.slow
def test_one_process_needs_nothing_of_posix(colors, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS, colors, tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": str(Path(vit.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[0, 0, 0, 0, 0]"), done.stdout


@pytest.mark.parametrize(("platform", "lines"), [("win32", 1), ("linux", 0), ("darwin", 0)])
def test_windows_is_told_in_one_line(capsys, monkeypatch, platform, lines):
    monkeypatch.setattr(sys, "platform", platform)
    assert main(["--version"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines and all("Linux and macOS" in line for line in said)


def trained(method, colors, folder):
    """A training with workers, predictions, a measurement and a study; the workers and cells start with a method."""
    (folder / "site").mkdir(parents=True)
    if method == "spawn":
        (folder / "site" / "sitecustomize.py").write_text(WITHOUT_POSIX)
    script = folder / "script.py"
    script.write_text(WORKERS)
    path = os.pathsep.join([str(folder / "site"), str(Path(vit.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, script, method, colors, folder / "out"],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        cwd=folder, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[0, 0, 0, 0]", done.stdout + done.stderr
    return folder / "out"


@pytest.mark.slow
def test_spawned_workers_give_the_numbers_of_forked_ones(colors, tmp_path):
    """All numbers are equal: losses of each step, weights, rows of predictions, and those of a study's cells."""
    forked, spawned = (trained(method, colors, tmp_path / method) for method in ("fork", "spawn"))
    both = [sorted(out.rglob("*.csv"), key=lambda path: (path.name, len(path.parts))) for out in (forked, spawned)]
    assert len(both[0]) > 8
    for one, other in zip(*both, strict=True):
        assert one.name == other.name
        times = ("seconds", "train/images_per_second", "images_per_second")
        tables = [
            [{name: value for name, value in row.items() if name not in times} for row in records(path)]
            for path in (one, other)
        ]
        assert tables[0] == tables[1] != [], one
    ((best,), (other,)) = (list(out.glob("colors/*/*/checkpoints/best.ckpt")) for out in (forked, spawned))
    weights = [load(path)[0].state_dict() for path in (best, other)]
    assert all((value == weights[1][name]).all() for name, value in weights[0].items())


@pytest.mark.parametrize(
    "path", [r"C:\runs\best.ckpt", "C:/runs/best.ckpt", r"\\server\share\best.ckpt", r"D:\weights"]
)
def test_a_drive_letter_begins_a_path_and_no_address(path):
    """Such a path is missing here, which is said; it is not taken for an address or the name of a library."""
    for check in (check_model, check_weights):
        with pytest.raises(CheckpointError, match=r"there is no (checkpoint|file)"):
            check(path)
    assert not path.startswith((*FAR, HUB)) and path not in KNOWN


def test_two_names_for_one_folder_give_two_runs(tmp_path, monkeypatch):
    """A link makes one folder of Photos and photos, as a file system does that ignores the case of letters."""
    monkeypatch.setattr(time, "strftime", lambda _: "20260101-120000")
    (tmp_path / "photos").mkdir()
    (tmp_path / "Photos").symlink_to(tmp_path / "photos")
    made = [RunDirectory.create(str(tmp_path), name, "net", None).path.resolve() for name in ("photos", "Photos")]
    assert len(set(made)) == 2 and made[0].parent == made[1].parent


def test_an_output_whose_name_differs_in_case_is_not_overwritten(vit, digits_run, colors, here):
    (here / "rows.csv").write_text("mine\n")
    (here / "Rows.csv").symlink_to(here / "rows.csv")
    images = sorted(map(str, colors.rglob("*.png")))[:2]
    answer = vit("predict", digits_run.path, *images, "--output", "Rows.csv")
    assert answer.code == 0 or "exists" in answer.err
    assert (here / "rows.csv").read_text() == "mine\n"
