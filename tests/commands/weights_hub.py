"""A Hugging Face hub on the loopback that holds weights of timm"""

from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.loopback import Loopback, send


class WeightsHub(Loopback):
    """Answers as the Hugging Face hub does for the files `model.safetensors` of models of timm; counts the requests.

    Attributes:
        files: {name of the model and its weights: file}.
        requests: paths that were asked for.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        super().__init__()
        self.files = {f"/timm/{name}/resolve/main/model.safetensors": file for name, file in files.items()}
        self.requests: list[str] = []

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append(request.path)
        file = self.files.get(request.path)
        headers = {"ETag": f'"{abs(hash(request.path)):016x}"', "X-Repo-Commit": "0" * 40}
        send(request, 404 if file is None else 200, b"" if file is None else file.read_bytes(), headers)
