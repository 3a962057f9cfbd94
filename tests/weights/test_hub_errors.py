"""Weights that a hub does not give: one line says why, and what to do. A server on this machine is the hub."""

import json
import os
import sys

import pytest
import timm
from safetensors.torch import save_file

from tests.forked import run
from tests.loopback import Loopback, send
from vit.errors import UsageError
from vit.weights.hubs import from_timm

ASK = """
import sys
from vit.errors import VitError
from vit.weights.open import open_pretrained
try:
    print("license", open_pretrained(sys.argv[1]).license)
except VitError as error:
    print(error)
"""
CARD = "---\nlicense: other\nlicense_name: made-up-nc\n---\n# A model\n"


class Hub(Loopback):
    """Answers for o/gated, o/forbidden and o/open; other models do not exist.

    Attributes:
        files: {name: content} of o/open.
    """

    def __init__(self, files):
        super().__init__()
        self.files = files

    def answer(self, request):
        path, name = request.path, request.path.rpartition("/")[2]
        if "gated" in path or "forbidden" in path:
            said = {"X-Error-Code": "GatedRepo", "X-Error-Message": "not for you"}
            return send(request, 401 if "gated" in path else 403, {}, said)
        if "/api/models/o/open/tree/" in path:
            tree = [{"type": "file", "path": file, "oid": "0" * 40, "size": len(body)}
                    for file, body in self.files.items()]  # fmt: skip
            return send(request, 200, tree)
        if "/api/models/o/open" in path:
            siblings = [{"rfilename": file} for file in self.files]
            return send(request, 200, {"id": "o/open", "sha": "0" * 40, "siblings": siblings})
        if "o/open" in path and name in self.files:
            body = self.files[name]
            return send(request, 200, body, {"ETag": f'"{hash(body) & 0xFFFFFF:06x}"', "X-Repo-Commit": "0" * 40})
        return send(request, 404, {}, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "not for you"})


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    file = tmp_path_factory.mktemp("hub") / "model.safetensors"
    save_file(timm.create_model("test_vit", num_classes=2).state_dict(), file)
    config = json.dumps({"architecture": "test_vit", "num_classes": 2}).encode()
    with Hub({"model.safetensors": file.read_bytes(), "config.json": config, "README.md": CARD.encode()}) as server:
        yield server.address


def asked(source, folder, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    variables = {**kept, "HF_HOME": str(folder), **variables}
    real = source.startswith("timm:")  # in a fork, timm keeps the variables of the server
    done = run([sys.executable, "-c", ASK, source], env=variables, timeout=300, real=real)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = done.stdout.splitlines()
    return line


@pytest.mark.faults("T6")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf:o/gated", "hf:o/gated cannot be fetched: it is gated, and the hub does not know that you accepted its "
                       "terms; accept the terms on the model's page, then run 'hf auth login'"),
        ("hf:o/forbidden", "hf:o/forbidden cannot be fetched: it is gated"),
        ("hf:o/missing", "hf:o/missing cannot be fetched: the hub has no such model, or it is private; check the name"),
        pytest.param(
            "timm:resnet10t.c3_in1k", "timm:resnet10t.c3_in1k cannot be fetched: the hub has no such model",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_a_hub_that_refuses(name, words, hub, tmp_path):
    assert asked(name, tmp_path, HF_ENDPOINT=hub).startswith(words)


@pytest.mark.faults("T6")
def test_no_hub_at_all(tmp_path):
    found = asked("hf:o/open", tmp_path, HF_HUB_OFFLINE="1")
    assert found.startswith("hf:o/open cannot be fetched: HF_HUB_OFFLINE is set, and the cache does not have it; check")


@pytest.mark.faults("T6")
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224.no_such_tag", "test_vit_relpos"])
def test_a_model_of_timm_without_weights(name):
    with pytest.raises(UsageError, match=f"timm has no weights for '{name}'"):
        from_timm(name)


@pytest.mark.slow
def test_the_card_comes_with_the_weights_and_stays_in_the_cache(hub, tmp_path):
    assert asked("hf:o/open", tmp_path, HF_ENDPOINT=hub) == "license made-up-nc"
    assert asked("hf:o/open", tmp_path, HF_HUB_OFFLINE="1") == "license made-up-nc"
