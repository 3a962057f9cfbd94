"""An HTTP server on the loopback, whose answers a test decides."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Loopback:
    """Answers every request with `answer`, in a `with` block.

    Attributes:
        address: http://127.0.0.1:PORT
    """

    def __init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections stay open, as those of object stores

            def do_GET(self) -> None:
                outer.answer(self)

            do_HEAD = do_POST = do_PUT = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Listening(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # connections that wait, not 5: a batch asks for many ranges at the same time


def send(
    request: BaseHTTPRequestHandler, status: int, content: object, headers: Mapping[str, str] | None = None
) -> None:
    """Answer with bytes, or with a value as JSON."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
