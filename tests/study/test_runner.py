"""The server of a study's cells."""

import multiprocessing
import subprocess
import sys

import pytest

from vit.study import runner

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
