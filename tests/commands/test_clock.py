"""A training whose clock is set back while it runs, whose folder is then moved, and which goes on by that clock."""

import shutil
import subprocess
import sys

import pytest

from tests.processes import belonging, environment, finish, linux_only, send, until
from tests.tables import rows

# Stands between a whole process (Python, PyTorch's threads) and the C library; the kernel's own clock is not touched.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    const char *set_back = getenv("VIT_SET_BACK");
    if (clock == CLOCK_REALTIME && set_back && access(set_back, F_OK) == 0) now->tv_sec -= 400L * 86400;
    return failed;
}
time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
"""
OPTIONS = (
    "--network", "vit_nano_patch2_8", "--batch_size", "128", "--precision", "32-true", "--checkpoint_every", "1s",
    "--seed", "3", "--wandb", "off",
)  # fmt: skip


@linux_only
@pytest.mark.slow
@pytest.mark.faults("R15", simulated="a library in front of libc sets the clock of the process back")
def test_a_clock_that_is_set_back_and_a_folder_that_is_moved(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "clock.c").write_text(CLOCK)
    library, jump = tmp_path / "clock.so", tmp_path / "jump"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    variables = environment(tmp_path) | {"LD_PRELOAD": str(library), "VIT_SET_BACK": str(jump)}

    def begin(*arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "vit", "train", *map(str, arguments)], cwd=tmp_path, env=variables,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    process = begin("digits", *OPTIONS, "--optim.steps", 150, "--out", tmp_path / "runs")
    until(lambda: list(tmp_path.glob("runs/**/last.ckpt")), 300)
    (last,) = tmp_path.glob("runs/**/last.ckpt")
    jump.touch()
    before = last.stat().st_ino
    until(lambda: last.stat().st_ino != before, 120)  # by the clock that does not jump, it is time for another one
    send(belonging(tmp_path), 15)
    _, said = finish(tmp_path, process, 120)
    assert process.returncode == 143, said

    moved = shutil.move(last.parents[1], tmp_path / "moved" / "elsewhere")
    process = begin("--resume", moved)
    out, said = finish(tmp_path, process, 300)
    assert process.returncode == 0, said
    assert "00:00" not in out and not list(tmp_path.glob("runs/**/*.ckpt"))
    seconds = [float(row["seconds"]) for row in rows(moved / "metrics.csv")]
    assert seconds == sorted(seconds) and seconds[0] > 0 and seconds[-1] < 900
