"""Large blocks come from the heap once the program has asked for it."""

import gc
import platform
import subprocess
import sys

import pytest

from vit import memory

SCRIPT = """
import resource
from vit.memory import keep_freed_memory, return_freed_memory
assert not {asked} or keep_freed_memory()
def use():
    for _ in range(10):
        b"x" * 2**26  # 64 MiB
use()
assert not {returned} or return_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(asked, returned=False):
    command = [sys.executable, "-c", SCRIPT.format(asked=asked, returned=returned)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_freed_tensors_are_used_again(monkeypatch):
    for name in memory._OWN_CHOICES:
        monkeypatch.delenv(name, raising=False)
    assert 10 * page_faults(asked=True) < page_faults(asked=False)
    assert 10 * page_faults(asked=True) < page_faults(asked=True, returned=True)  # after memory ran out


def test_choices_of_the_user_stay(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert not memory.keep_freed_memory() and not memory.return_freed_memory()


def test_other_systems_have_no_such_settings(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not memory.keep_freed_memory() and not memory.return_freed_memory()


OBJECTS = """
import atexit, gc, weakref
from vit.memory import collect_seldom
class Cycle:
    def __init__(self): self.itself = self
atexit.register(lambda: print(gc.get_freeze_count()))  # runs after those that are registered later
full = []
gc.callbacks.append(lambda phase, about: full.append((phase, about["generation"]) == ("start", 2)))
if {asked}:
    collect_seldom()
    collect_seldom()
kept = [[] for _ in range(10**6)]  # libraries make half as many while they are imported
print(sum(full))
young = weakref.ref(Cycle())
more = [[] for _ in range(1000)]
print(young() is None)
"""


def collected(asked):
    """(collections of all objects at start, whether a young cycle is freed, objects that the exit does not look at)"""
    command = [sys.executable, "-c", OBJECTS.format(asked=asked)]
    full, young, frozen = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(full), young == "True", int(frozen)


def test_many_objects_are_not_looked_through_again_and_again():
    full, young, frozen = collected(asked=False)
    assert full > 2 or sys.version_info >= (3, 14)  # 8 times in Python 3.11, 3 in 3.13, and later in small steps
    assert young and frozen < 1000  # Python 3.12 has a few from its start
    full, young, frozen = collected(asked=True)
    assert full == 0 and young and frozen > 10**6


@pytest.mark.parametrize("has_triton", [True, False])
def test_the_exit_looks_at_all_objects_where_triton_would_print_those_that_stay(has_triton, monkeypatch):
    calls = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.delitem(sys.modules, "triton._C.libtriton", raising=False)
    if has_triton:
        monkeypatch.setitem(sys.modules, "triton._C.libtriton", sys)
    memory._freeze()
    assert calls == ["freeze"] * (not has_triton)


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/job/task", {"job/memory.max": "5000", "job/task/memory.max": "max"}, 5000),  # version 2
        (
            "4:memory:/job",
            {"memory/job/memory.limit_in_bytes": "7000", "memory/memory.limit_in_bytes": str(2**63)},
            7000,
        ),
        ("0::/elsewhere", {"memory.max": "3000"}, 3000),  # a container sees its own group as the root
        ("4:cpu:/job", {"cpu/job/memory.max": "1"}, None),
    ],
)
def test_the_memory_of_a_container_or_job_is_the_limit(tmp_path, group, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "own").write_text(f"{group}\n")
    whole = memory.memory_limit(tmp_path, tmp_path / "missing")
    assert whole > 2**28 and memory.memory_limit(tmp_path, tmp_path / "own") == (expected or whole)
