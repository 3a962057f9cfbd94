"""What the first process decides, and how long the others look for it."""

import socket
import threading
import time
from datetime import timedelta

import pytest

from vit.errors import CheckpointError, ProcessesError, ResourceError
from vit.training.distributed import processes
from vit.training.distributed.processes import Rendezvous, readable_by_all


@pytest.fixture
def port(monkeypatch):
    """A port that something else has opened, as MASTER_PORT."""
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]))
        yield taken


def test_one_process_decides_alone(monkeypatch, tmp_path):
    assert Rendezvous(1).decided("run", lambda: "here") == "here"
    with readable_by_all(tmp_path / "any") as path:
        assert path == tmp_path / "any"


def test_a_first_process_that_refuses_waits_for_others_for_a_while_only(port, monkeypatch):
    """They know its error before its end closes the store; a process that never starts does not keep it."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    port.close()
    first = Rendezvous(3)
    monkeypatch.setenv("RANK", "1")
    other = Rendezvous(2)
    monkeypatch.setattr(processes, "_ITS_WORDS", 0.0)

    def refuse():
        raise CheckpointError("it has no checkpoint", "train")

    for patience, heard in ((0.2, 0), (60.0, 2)):
        monkeypatch.setattr(processes, "_HEARD", patience)
        monkeypatch.setenv("RANK", "0")
        name = f"recipe {heard}"
        other._store.add(f"{name} heard", heard)
        began = time.monotonic()
        with pytest.raises(CheckpointError):
            first.decided(name, refuse)
        assert time.monotonic() - began < 5
        monkeypatch.setenv("RANK", "1")
        with pytest.raises(SystemExit) as ended:
            other.decided(name, str)
        assert ended.value.code == CheckpointError.code
    first.close()


def test_a_port_that_is_taken_is_named(port):
    port.listen()
    with pytest.raises(ResourceError, match="set MASTER_PORT to a free port") as caught:
        Rendezvous(2)
    assert str(port.getsockname()[1]) in caught.value.problem


@pytest.mark.faults("X5")
def test_a_first_process_that_is_not_there_is_not_waited_for_without_end(port, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(processes, "PATIENCE", timedelta(seconds=1))
    with pytest.raises(ProcessesError, match="the first process of this training cannot be reached"):
        Rendezvous(2)


def test_others_wait_for_as_long_as_a_process_lives(port, monkeypatch):
    port.close()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(processes, "PATIENCE", timedelta(seconds=0.75))
    both = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        both.append(Rendezvous(2))
    first, other = both
    threading.Timer(2, lambda: first._store.set("run", "here")).start()
    assert other.decided("run", str) == "here"

    first.close()
    with pytest.raises(ProcessesError, match="the first process of this training cannot be reached"):
        other.decided("never", str)
