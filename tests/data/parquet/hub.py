"""The Hugging Face hub on the loopback: data sets with files in branches, gated and missing ones, and no code."""

from dataclasses import dataclass, field
from hashlib import sha1
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote

from tests.loopback import Loopback, send

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


class Hub(Loopback):
    """Answers the API that huggingface_hub asks.

    Attributes:
        repositories: {name: data set}; o/gated and o/forbidden refuse.
        asked: path of each request.
        status: answered to every request, where it is not 0.
    """

    def __init__(self) -> None:
        super().__init__()
        self.repositories: dict[str, Repository] = {}
        self.asked: list[str] = []
        self.status = 0

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request: of the API, or for a file."""
        path = unquote(request.path.partition("?")[0]).strip("/")
        self.asked.append(path)
        if self.status:
            return send(request, self.status, {})
        for name, status in (("o/gated", 401), ("o/forbidden", 403)):
            if name in path:
                return send(request, status, {}, {"X-Error-Code": "GatedRepo", "X-Error-Message": "no"})
        for name, repository in self.repositories.items():
            if path.startswith(f"api/datasets/{name}"):
                return self._about(request, name, repository, path.removeprefix(f"api/datasets/{name}"))
            if path.startswith(f"datasets/{name}/resolve/"):
                return self._file(request, repository, path.removeprefix(f"datasets/{name}/resolve/"))
        return send(request, 404, {}, {"X-Error-Code": "RepoNotFound"})

    def _about(self, request: BaseHTTPRequestHandler, name: str, repository: Repository, rest: str) -> None:
        branch = repository.branch_of(rest.removeprefix("/revision/") or "main")
        if branch is None:
            return send(request, 404, {}, {"X-Error-Code": "RevisionNotFound"})
        said = {"id": name, "sha": repository.commit(branch), "cardData": repository.card if branch == "main" else {}}
        siblings = [{"rfilename": one} for one in repository.branches[branch]]
        return send(request, 200, {**said, "siblings": siblings})

    def _file(self, request: BaseHTTPRequestHandler, repository: Repository, rest: str) -> None:
        commit, _, file = rest.partition("/")
        branch = repository.branch_of(commit)
        content = None if branch is None else repository.branches[branch].get(file)
        if content is None:
            return send(request, 404, {}, {"X-Error-Code": "EntryNotFound"})
        etag = sha1(content, usedforsecurity=False).hexdigest()
        return send(request, 200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": commit})
