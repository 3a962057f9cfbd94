"""An HTTP server with ranges on the loopback, which fails as it is told."""

import contextlib
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Listening(ThreadingHTTPServer):
    request_queue_size = 128  # connections that wait, not 5: a batch asks for many ranges at the same time


class Server:
    """Serves a folder.

    Attributes:
        address: http://127.0.0.1:PORT
        asked: path and range of each request.
        fault: called with path and number of the request; names what goes wrong, or "".
        sent: bytes of endless answers.
        has_etags: whether answers have an ETag, which is a hash of the file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, str]] = []
        self.fault: Callable[[str, int], str] = lambda path, number: ""
        self.seconds = 0.0  # before each answer
        self.has_etags = False
        self.sent = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections stay open, as those of object stores

            def do_GET(self) -> None:
                outer.answer(self)

            def do_HEAD(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Listening(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request; faults: a status, "cut", "silent", "lies", "whole", "short" or "endless"."""
        path, wanted = request.path, request.headers.get("Range", "")
        self.asked.append((path, wanted))
        time.sleep(self.seconds)
        fault = self.fault(path, len(self.asked))
        file = self.folder / path.lstrip("/")
        status = int(fault) if fault.isdigit() else 200 if file.is_file() else 404
        if status != 200:
            request.send_response(status)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        data = file.read_bytes()
        etag = hashlib.sha256(data).hexdigest()
        if wanted and fault != "whole":
            first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", wanted).groups())
            if first >= len(data):
                request.send_response(416)
                request.send_header("Content-Length", "0")
                request.end_headers()
                return
            data, status = data[first : last + 1], 206
        if fault == "lies":
            data = bytes(byte ^ 255 for byte in data)
        if fault == "short":
            data = data[:-1]
        if fault == "silent":
            time.sleep(1.5)
        if fault == "endless" and request.command == "GET":  # in chunks, so that no header says how long it is
            request.send_response(200)
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            request.close_connection = True
            with contextlib.suppress(ConnectionError):
                while self.sent < 2**31:
                    request.wfile.write(b"10000\r\n" + bytes(2**16) + b"\r\n")
                    self.sent += 2**16
            return
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        if self.has_etags:
            request.send_header("ETag", f'"{etag}"')
        request.end_headers()
        if request.command == "HEAD":
            return
        request.close_connection = fault == "cut"
        with contextlib.suppress(ConnectionError):
            request.wfile.write(data[: len(data) // 2] if fault == "cut" else data)

    def __enter__(self) -> "Server":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server of a folder, for the time of a block."""
    with Server(folder) as server:
        yield server
