"""The Hugging Face hub on the loopback: data sets with files in branches, gated and missing ones, and no code."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

CONVERTED = "refs/convert/parquet"


@dataclass
class Repository:
    """A data set: files of each branch, and what its card says."""

    branches: dict[str, dict[str, bytes]]
    card: dict[str, object] = field(default_factory=dict)

    def commit(self, branch: str) -> str:
        """The hash of the content of a branch."""
        return sha1(repr(sorted(self.branches[branch].items())).encode(), usedforsecurity=False).hexdigest()

    def branch_of(self, revision: str) -> str | None:
        """The branch with a name or commit."""
        return next((one for one in self.branches if revision in (one, self.commit(one))), None)


class Hub:
    """Answers the API that huggingface_hub asks.

    Attributes:
        address: http://127.0.0.1:PORT
        repositories: {name: data set}; o/gated and o/forbidden refuse.
        asked: path of each request.
        status: answered to every request, where it is not 0.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.asked: list[str] = []
        self.status = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request: of the API, or for a file."""
        path = unquote(request.path.partition("?")[0]).strip("/")
        self.asked.append(path)
        if self.status:
            return _send(request, self.status, b"{}")
        for name, status in (("o/gated", 401), ("o/forbidden", 403)):
            if name in path:
                return _send(request, status, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "no"})
        for name, repository in self.repositories.items():
            if path.startswith(f"api/datasets/{name}"):
                return self._about(request, name, repository, path.removeprefix(f"api/datasets/{name}"))
            if path.startswith(f"datasets/{name}/resolve/"):
                return self._file(request, repository, path.removeprefix(f"datasets/{name}/resolve/"))
        return _send(request, 404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _about(self, request: BaseHTTPRequestHandler, name: str, repository: Repository, rest: str) -> None:
        branch = repository.branch_of(rest.removeprefix("/revision/") or "main")
        if branch is None:
            return _send(request, 404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        said = {"id": name, "sha": repository.commit(branch), "cardData": repository.card if branch == "main" else {}}
        siblings = [{"rfilename": one} for one in repository.branches[branch]]
        return _send(request, 200, json.dumps({**said, "siblings": siblings}).encode())

    def _file(self, request: BaseHTTPRequestHandler, repository: Repository, rest: str) -> None:
        commit, _, file = rest.partition("/")
        branch = repository.branch_of(commit)
        content = None if branch is None else repository.branches[branch].get(file)
        if content is None:
            return _send(request, 404, b"{}", {"X-Error-Code": "EntryNotFound"})
        etag = sha1(content, usedforsecurity=False).hexdigest()
        return _send(request, 200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": commit})


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    request.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
        request.send_header(name, value)
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(body)


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub, for the time of a block."""
    hub = Hub()
    threading.Thread(target=hub.server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield hub
    finally:
        hub.server.shutdown()
        hub.server.server_close()
