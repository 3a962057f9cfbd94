"""The server of a study's cells."""

import multiprocessing
import subprocess
import sys
import threading
import time

import pytest

from tests.forked import run
from tests.processes import ROOT, environment
from vit.checkpoints.run import RunDirectory
from vit.study.findings import ListedCell
from vit.study.running import runner

FORKED = """
import gc
from multiprocessing import get_context
def show():
    print(gc.get_threshold()[2])
if __name__ == "__main__":
    context = get_context("forkserver")
    context.set_forkserver_preload([{first!r}])
    process = context.Process(target=show)
    process.start()
    process.join()
"""


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="cells are forked elsewhere")
def test_cells_look_for_garbage_seldom_from_the_first_import_of_their_server(tmp_path, monkeypatch):
    class Context:
        def set_forkserver_preload(self, names):
            self.names = names

    monkeypatch.setattr(runner, "get_context", lambda _: Context())
    first, *_ = runner._context().names
    (tmp_path / "forked.py").write_text(FORKED.format(first=first))
    done = subprocess.run(
        [sys.executable, "-P", str(tmp_path / "forked.py")], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) > 100


def test_the_server_of_the_cells_ignores_ctrl_c_before_its_other_imports():
    """Ctrl-C while it imported torch showed its traceback below the one line of the study."""
    script = "import os, signal, vit.study.running.cell_server; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


CUT_OFF = """
import signal
from multiprocessing import get_context
def stop(*_):
    raise KeyboardInterrupt
if __name__ == "__main__":
    context = get_context("forkserver")
    context.set_forkserver_preload(["vit.study.running.cell_server", "slow_imports"])
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        context.Process(target=print, args=("x" * 1_000_000,)).start()
    except KeyboardInterrupt:
        print("stopped")
"""


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="cells are forked elsewhere")
def test_a_study_that_is_stopped_while_it_hands_over_a_cell_shows_no_traceback(tmp_path):
    """More than a pipe holds waits until the server has imported torch. The cell then gets the beginning alone."""
    (tmp_path / "slow_imports.py").write_text("import time; time.sleep(1)")
    (tmp_path / "study.py").write_text(CUT_OFF)
    done = run([sys.executable, tmp_path / "study.py"], timeout=60, env=environment(tmp_path))
    assert (done.stdout, done.stderr) == ("stopped\n", "")


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_what_to_add(tmp_path):
    """Each process of a study imports the script, which would start the study again."""
    (tmp_path / "script.py").write_text("""
from multiprocessing import get_context
from multiprocessing.process import current_process
from vit.errors import UsageError
from vit.study.findings import ListedCell
from vit.study.running import runner
print("imported", getattr(current_process(), "_inheriting", False), flush=True)
runner.end_if_imported()
process = get_context("spawn").Process(target=print)
runner._start(process)
process.join()
try:
    runner._check_guarded(process.exitcode)
except UsageError as error:
    print(error)
""")
    done = run([sys.executable, tmp_path / "script.py"], timeout=200, env=environment(tmp_path))
    assert done.stdout.startswith("imported False\nimported True\n"), done.stderr
    assert "if __name__ == '__main__':" in done.stdout and not done.stderr


def _cell(run):
    with run.held():
        time.sleep(3)
        run.result_path.write_text("{}")


def test_a_cell_whose_server_was_killed_is_waited_for(tmp_path):
    """Python gives code 255 then, and the cell goes on."""
    run = RunDirectory(tmp_path)
    process = multiprocessing.get_context("forkserver").Process(target=_cell, args=(run,))
    process.start()
    runner._wait_for_orphan(run)
    assert runner._outcome(run, runner._LOST) == "done"
    process.join()
    assert not run.failure_path.exists()


def test_a_cell_that_was_killed_with_its_server_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_PATIENCE", 0.1)
    run = RunDirectory(tmp_path)
    runner._wait_for_orphan(run)
    assert runner._outcome(run, runner._LOST) == "failed"
    assert "the process that starts the cells was killed" in run.failure_path.read_text()


def test_a_study_whose_time_is_over_ends(tmp_path):
    """With one job at a time and no cell left that may start, it waited for nothing without end."""
    cells = [ListedCell("ViT", 10, seed, "", f"cells/{seed}") for seed in (0, 1)]
    asked, share = [], runner.MachineShare(1, 1, 0)
    study = threading.Thread(
        target=runner.run_cells, args=(tmp_path, cells, share, "s", {}, None, asked.append), daemon=True
    )
    study.start()
    study.join(20)
    assert not study.is_alive() and asked == cells
