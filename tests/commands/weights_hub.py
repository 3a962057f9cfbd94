"""A Hugging Face hub on the loopback that holds weights of timm"""

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self


class WeightsHub(ThreadingHTTPServer):
    """Answers as the Hugging Face hub does for the files `model.safetensors` of models of timm; counts the requests.

    Attributes:
        files: {name of the model and its weights: file}.
        requests: paths that were asked for.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.requests = files, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def asked(self, path: str) -> Path | None:
        """The file at an address; None: there is none."""
        return {f"/timm/{name}/resolve/main/model.safetensors": file for name, file in self.files.items()}.get(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: WeightsHub

    def do_HEAD(self) -> None:
        self.server.requests.append(self.path)
        file = self.server.asked(self.path)
        self.send_response(404 if file is None else 200)
        self.send_header("Content-Length", str(0 if file is None else file.stat().st_size))
        self.send_header("ETag", f'"{abs(hash(self.path)):016x}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        file = self.server.asked(self.path)
        self.wfile.write(b"" if file is None else file.read_bytes())

    def log_message(self, *_: object) -> None:
        pass
