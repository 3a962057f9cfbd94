"""An HTTP server with ranges on the loopback, which fails as it is told."""

import contextlib
import hashlib
import re
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.loopback import Loopback, send


class Server(Loopback):
    """Serves a folder.

    Attributes:
        asked: path and range of each request.
        fault: called with path and number of the request; names what goes wrong, or "".
        sent: bytes of endless answers.
        has_etags: whether answers have an ETag, which is a hash of the file.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.asked: list[tuple[str, str]] = []
        self.fault: Callable[[str, int], str] = lambda path, number: ""
        self.seconds = 0.0  # before each answer
        self.has_etags = False
        self.sent = 0

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request; faults: a status, "cut", "silent", "lies", "whole", "short" or "endless"."""
        path, wanted = request.path, request.headers.get("Range", "")
        self.asked.append((path, wanted))
        time.sleep(self.seconds)
        fault = self.fault(path, len(self.asked))
        file = self.folder / path.lstrip("/")
        status = int(fault) if fault.isdigit() else 200 if file.is_file() else 404
        if status != 200:
            send(request, status, b"")
            return
        data = file.read_bytes()
        etag = hashlib.sha256(data).hexdigest()
        if wanted and fault != "whole":
            first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", wanted).groups())
            if first >= len(data):
                send(request, 416, b"")
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
