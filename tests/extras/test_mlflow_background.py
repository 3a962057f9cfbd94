"""Work for a server that may be away: in order, never waited for, and one error at the end."""

import threading
import time

import pytest

from vit.extras.mlflow import background
from vit.extras.mlflow.background import Background


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(background, "PAUSE_SECONDS", 0.02)


class Server:
    def __init__(self):
        self.away, self.broken, self.got = "", False, []

    def obstacle(self):
        return self.away

    def put(self, value):
        if self.away or self.broken:
            raise OSError("refused" if self.away else "invalid value")
        self.got.append(value)


def worked(server, count):
    until = time.monotonic() + 5
    while len(server.got) < count and time.monotonic() < until:
        time.sleep(0.01)
    return server.got


@pytest.mark.faults("T24", simulated="a server in the same process is away for a while")
def test_what_a_server_lacks_is_sent_when_it_is_back():
    server = Server()
    work = Background(server.obstacle)
    work.add(lambda: server.put(0))
    assert worked(server, 1) == [0]
    server.away = "no connection to somewhere"
    for value in range(1, 20):
        work.add(lambda value=value: server.put(value))
    time.sleep(0.2)  # more tries than an error of the server itself has
    assert server.got == [0]
    server.away = ""
    work.finish(5)
    assert server.got == list(range(20))


def test_a_server_that_stays_away_has_one_more_try_at_the_end():
    server = Server()
    server.away = "no connection to somewhere"
    work = Background(server.obstacle)
    work.add(lambda: server.put(0))
    began = time.monotonic()
    with pytest.raises(ConnectionError, match="no connection to somewhere"):
        work.finish(30)
    assert time.monotonic() - began < 5


def test_an_error_of_the_server_itself_has_three_tries():
    server, tries = Server(), []
    work = Background(server.obstacle)

    def refuse():
        tries.append(None)
        raise ValueError("invalid value")

    work.add(refuse)
    work._thread.join(5)
    assert len(tries) == background.TRIES
    with pytest.raises(ValueError, match="invalid value"):
        work.add(lambda: server.put(0))
    with pytest.raises(ValueError, match="invalid value"):
        work.finish(5)
    assert server.got == []


def test_an_answer_that_does_not_come_is_not_waited_for():
    forever = threading.Event()
    work = Background(lambda: "")
    with pytest.raises(TimeoutError):
        work.ask(forever.wait, 0.05)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        work.finish(0.05)
    assert time.monotonic() - began < 2
    forever.set()


def test_an_error_of_what_is_asked_comes_back():
    work = Background(lambda: "")

    def fail():
        raise KeyError("run")

    with pytest.raises(KeyError):
        work.ask(fail, 5)
    work.finish(5)
