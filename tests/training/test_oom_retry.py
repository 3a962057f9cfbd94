"""The attempt after memory ran out has a thread of its own, because oneDNN refuses the thread that failed for ever."""

import sys
import threading

import pytest
import torch

from tests.forked import run
from tests.processes import environment, linux_only
from vit.training.running.oom_retry import _in_new_thread

# No byte more than the process has: the output of GELU fits into freed memory, the code of its kernel does not.
REFUSED = """
import resource
import torch
from vit.memory import keep_freed_memory
from vit.training.running.oom_retry import _in_new_thread
keep_freed_memory()
torch.set_num_threads(1)
gelu, images = torch.nn.GELU(), torch.ones(8, 17, 250)
_in_new_thread(lambda: None)  # memory for threads
freed = [torch.empty(2**22) for _ in range(4)]
above = torch.empty(8)
del freed
free = resource.getrlimit(resource.RLIMIT_AS)
pages = int(open("/proc/self/statm").read().split()[0])
def refused():
    try:
        gelu(images)
    except RuntimeError as error:
        return "could not create a primitive" in str(error)
    return False
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(), free[1]))
found = refused()
resource.setrlimit(resource.RLIMIT_AS, free)
print(found, found and refused(), _in_new_thread(refused))
"""


@linux_only
def test_a_thread_that_onednn_refuses_is_left(tmp_path):
    done = run([sys.executable, "-c", REFUSED], timeout=120, env=environment(tmp_path))
    assert done.returncode == 0, done.stderr
    first, later, elsewhere = done.stdout.split()
    assert elsewhere == "False"
    if "False" in (first, later):
        pytest.skip("GELU needs no new memory here, or oneDNN forgets an error")


def test_results_errors_and_threads_are_those_of_the_caller():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert _in_new_thread(lambda: (torch.get_num_threads(), threading.current_thread().name)) == (3, "training")
    finally:
        torch.set_num_threads(threads)
    for error in (MemoryError("none"), SystemExit(130), KeyboardInterrupt()):

        def fail(error=error):
            raise error

        with pytest.raises(type(error)) as raised:
            _in_new_thread(fail)
        assert raised.value is error
