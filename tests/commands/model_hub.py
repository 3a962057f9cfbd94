"""The models of a Hugging Face hub on the loopback: takes uploads (git blobs and LFS), and gives back what it holds."""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote, urlsplit

from tests.loopback import Loopback, send

LARGE = 10_000  # bytes; such files go by LFS


class ModelHub(Loopback):
    """Answers what huggingface_hub asks for an upload and a download.

    Attributes:
        files: {OWNER/NAME: {path: content}} of the newest commits.
        private: {OWNER/NAME: whether it is}.
        commits: number of commits of each repository.
        asked: method and path of each request.
        cuts: number of requests that still break off where the path contains `cut_at`.
        changed: called before a commit is taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.commits: dict[str, int] = {}
        self.asked: list[str] = []
        self.cuts, self.cut_at = 0, ""
        self.changed = lambda: None
        self.lfs: dict[str, bytes] = {}

    def commit(self, name: str) -> str:
        return hashlib.sha1(f"{name} {self.commits[name]}".encode(), usedforsecurity=False).hexdigest()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(request.path).path).strip("/")
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        self.asked.append(f"{request.command} {path}")
        if self.cuts and self.cut_at in path:
            self.cuts -= 1
            request.close_connection = True
            request.connection.shutdown(2)
            return None
        token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        if path.startswith("lfs/"):
            self.lfs[path.removeprefix("lfs/")] = body
            return send(request, 200, b"")
        if token != "good":
            return send(request, 401, {"error": "Invalid credentials in Authorization header"})
        if path == "api/whoami-v2":
            return send(request, 200, {"name": "me", "type": "user", "auth": {}, "orgs": []})
        if path == "api/validate-yaml":
            return send(request, 200, {"errors": [], "warnings": []})
        if path == "api/repos/create":
            return self._create(request, json.loads(body))
        for name in sorted(self.files, key=len, reverse=True):
            for prefix in (f"api/models/{name}", name):
                if path == prefix or path.startswith((f"{prefix}/", f"{prefix}.git/")):
                    return self._of(request, name, path.removeprefix(prefix).strip("/"), body)
        return send(request, 404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})

    def _create(self, request: BaseHTTPRequestHandler, asked: dict[str, object]) -> None:
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if not name.startswith("me/"):
            return send(request, 403, {"error": "You don't have the rights to create a model under this namespace"})
        if name in self.files:
            return send(request, 409, {"error": "You already created this model repo"})
        self.files[name], self.commits[name] = {".gitattributes": b"*.safetensors filter=lfs\n"}, 1
        self.private[name] = bool(asked.get("private") or asked.get("visibility") == "private")
        return send(request, 200, {"url": f"{self.address}/{name}", "name": name})

    def _of(self, request: BaseHTTPRequestHandler, name: str, rest: str, body: bytes) -> None:
        files, commit = self.files[name], self.commit(name)
        if rest == "" or rest.startswith("revision/"):
            siblings = [{"rfilename": file} for file in files]
            return send(request, 200, {"id": name, "sha": commit, "private": self.private[name], "siblings": siblings})
        if rest.startswith("tree/"):
            return send(request, 200, [entry(path, content) for path, content in files.items()])
        if rest.startswith("preupload/"):
            modes = [
                {"path": one["path"], "uploadMode": "lfs" if one["size"] > LARGE else "regular", "shouldIgnore": False}
                for one in json.loads(body)["files"]
            ]
            return send(request, 200, {"files": modes})
        if rest == ".git/info/lfs/objects/batch":
            objects = [
                one if one["oid"] in self.lfs
                else {**one, "actions": {"upload": {"href": f"{self.address}/lfs/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]  # fmt: skip
            return send(request, 200, {"transfer": "basic", "objects": objects})
        if rest.startswith("commit/"):
            self.changed()
            return self._commit(request, name, [json.loads(line) for line in body.splitlines()])
        if rest.startswith("resolve/"):
            content = files.get(rest.split("/", 2)[2])
            if content is None:
                return send(request, 404, {}, {"X-Error-Code": "EntryNotFound"})
            etag = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            return send(request, 200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": commit})
        return send(request, 404, {"error": f"unknown {rest}"})

    def _commit(self, request: BaseHTTPRequestHandler, name: str, lines: list[dict[str, object]]) -> None:
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, self.commit(name)):
            return send(request, 412, {"error": "A commit has happened since. Please refresh and try again."})
        files = dict(self.files[name])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.lfs[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        self.files[name] = files
        self.commits[name] += 1
        oid = self.commit(name)
        return send(request, 200, {"commitUrl": f"{self.address}/{name}/commit/{oid}", "commitOid": oid})


def entry(path: str, content: bytes) -> dict[str, object]:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    found: dict[str, object] = {"type": "file", "path": path, "size": len(content), "oid": blob}
    if len(content) > LARGE:
        found["oid"] = "0" * 40
        found["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return found
