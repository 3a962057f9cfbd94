"""A proxy for TCP on the loopback that delays answers, or drops connections as it is told."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator


class Proxy:
    """Passes connections on to a server.

    Attributes:
        address: http://127.0.0.1:PORT
        seconds: delay before the first bytes of each answer.
        cut: called with the number of an answer; number of its bytes after which the connection is dropped, or None.
        answers: number of answers so far.
        dropped: number of connections that were dropped.
        most_at_once: largest number of answers that were delayed at the same time.
    """

    def __init__(self, port: int) -> None:
        self.seconds = 0.0
        self.cut: Callable[[int], int | None] = lambda number: None
        self.answers = self.dropped = self.most_at_once = 0
        self._delayed = 0
        self._lock = threading.Lock()
        self._target = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def run(self) -> None:
        """Accept connections until the proxy is closed."""
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _connection(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server, contextlib.suppress(OSError):
            asked = threading.Event()
            threading.Thread(target=self._questions, args=(client, server, asked), daemon=True).start()
            left: int | None = None
            while data := server.recv(65536):
                if asked.is_set():  # the first bytes of an answer
                    asked.clear()
                    left = self._delay()
                if left is not None and len(data) >= left:
                    client.sendall(data[:left])
                    self.dropped += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                left = None if left is None else left - len(data)
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)

    def _delay(self) -> int | None:
        """Wait before an answer, and return after how many of its bytes the connection is dropped."""
        with self._lock:
            self.answers += 1
            number = self.answers
            self._delayed += 1
            self.most_at_once = max(self.most_at_once, self._delayed)
        time.sleep(self.seconds)
        with self._lock:
            self._delayed -= 1
        return self.cut(number)

    def _questions(self, client: socket.socket, server: socket.socket, asked: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                asked.set()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """A proxy of a server on this machine, for the time of a block."""
    proxy = Proxy(port)
    threading.Thread(target=proxy.run, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
