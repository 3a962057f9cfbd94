"""`vit demo`: a page on this machine alone, whose labels are those of `vit predict` and whose maps of `vit explain`.

gradio runs in a process of its own: it leaves sockets and event loops behind, which are warnings, and errors here.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import vit.commands.demo as module
from vit.data.preprocess import Preprocess
from vit.explain.explainer import Explainer
from vit.inference.devices import choose_device
from vit.inference.engine import Engine
from vit.inference.predictor import Predictor, load
from vit.models.spec import create_network
from vit.report.overlay import overlay

BEGIN = """
import json, sys
from pathlib import Path
from vit.commands.demo import HERE, build, launch
from vit.inference.predictor import load
run, uploads, *paths = sys.argv[1:]
predictor = load(run, "cpu")
"""
BUILT = """
page = build(predictor, 3)
pictures, classes, problems, rows = page.fns[0].fn(paths)
empty = page.fns[0].fn(None)
seen, words = page.fns[1].fn(rows)
unseen, wordless = page.fns[1].fn([])
print(json.dumps({
    "analytics": page.analytics_enabled, "api": [(one.api_name, one.api_visibility) for one in page.fns.values()],
    "shapes": [picture.shape for picture, _ in pictures], "captions": [caption for _, caption in pictures],
    "classes": classes, "problems": problems["value"].splitlines(), "empty": [empty[0], empty[1], empty[3]],
    "seen": [seen["visible"], seen["value"].tolist()], "words": words["value"],
    "unseen": [unseen["visible"], wordless["visible"]],
    "buttons": [block.buttons for block in page.blocks.values() if type(block).__name__ in ("Gallery", "Image")],
    "turns": sorted({one.concurrency_id for one in page.fns.values()}),
}))
"""
SERVED = """
import urllib.request
from gradio_client import Client, handle_file
page, address = launch(predictor, 3, HERE, None, Path(uploads))
html = urllib.request.urlopen(address).read().decode()
client = Client(address, verbose=False, analytics_enabled=False)
pictures, classes, _ = client.predict([handle_file(path) for path in paths], api_name="/predict")
page.close(verbose=False)
print(json.dumps({"address": address, "html": html, "share": page.share_url, "classes": classes,
                  "captions": [picture["caption"] for picture in pictures]}))
"""


def told(script, digits_run, tmp_path, paths):
    """What a script with gradio says, as JSON in its last line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    line = [sys.executable, "-c", BEGIN + script, str(digits_run.best), str(tmp_path / "uploads"), *paths]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_without_gradio_it_says_what_to_install(vit, digits_run, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    answer = vit("demo", digits_run.path)
    clone = Path(__file__).parents[2]
    line = f"{shlex.quote(sys.executable)} -m pip install -e {shlex.quote(f'{clone}[demo]')}"
    assert answer.code == 2 and answer.err == f"vit: error[2]: the page needs gradio; {line}\n"
    assert (clone / "pyproject.toml").is_file() and "demo = [" in (clone / "pyproject.toml").read_text()


def test_the_map_is_that_of_explain(digits_run, mixed):
    predictor, path = load(digits_run.best, "cpu"), str(mixed / "a b.png")
    picture, words = module.look_at(predictor, path)
    found = Explainer(predictor, "relevance", with_faithfulness=False).explain(path)
    assert (picture == overlay(found.image, found.maps["relevance"]).permute(1, 2, 0).numpy()).all()
    assert words.startswith(f"Yellow spoke for {found.explained} (relevance)")


def test_a_cnn_has_a_map_and_an_onnx_file_says_that_it_has_none(mixed):
    network = create_network("resnet10_small", 2, 16, widths=(4, 4, 4, 4)).eval()
    cnn = Predictor(Engine(network, Preprocess(16), choose_device("cpu"), "32-true"), ("cat", "\x1b[31mred"), None)
    picture, words = module.look_at(cnn, str(mixed / "a b.png"))
    assert picture.shape == (224, 224, 3) and "(gradcam)" in words and "\x1b" not in words
    picture, words = module.look_at(SimpleNamespace(engine="an OnnxEngine"), str(mixed / "a b.png"))
    assert picture is None and words.startswith("No map: vit explain cannot read the layers of an ONNX file")


def test_what_is_dropped_gets_the_labels_of_predict(digits_run, mixed, tmp_path):
    """Files with odd names and files that are no images are dropped too."""
    paths = sorted(os.fspath(path) for path in mixed.iterdir() if path.is_file() and not path.name.startswith("."))
    found = told(BUILT, digits_run, tmp_path, paths)
    rows = list(load(digits_run.best, "cpu").predict_files(paths, 3))
    good = [row for row in rows if row.status == "ok"]
    assert found["captions"] == [f"{row.label} {row.probability:.1%}" for row in good] and len(good) > 5
    assert all(shape[2] == 3 for shape in found["shapes"])
    assert list(found["classes"].items()) == [(label, pytest.approx(share)) for label, share in good[0].top]
    assert len(found["problems"]) == len(rows) - len(good) > 2
    assert found["empty"] == [[], None, []]
    picture, words = module.look_at(load(digits_run.best, "cpu"), good[0].path)
    assert found["seen"] == [True, picture.tolist()] and found["words"] == words and good[0].label in words
    assert found["unseen"] == [False, False]
    assert all(buttons and "share" not in buttons for buttons in found["buttons"])
    assert found["turns"] == ["network"]
    assert found["analytics"] is False
    assert found["api"][0] == ["predict", "public"]
    assert {visibility for _, visibility in found["api"][1:]} == {"private"}


@pytest.mark.slow
def test_its_server_answers_on_this_machine_alone(digits_run, mixed, tmp_path):
    path = str(mixed / "a b.png")
    found = told(SERVED, digits_run, tmp_path, [path])
    assert found["address"].startswith("http://127.0.0.1:") and found["share"] is None
    loaded = re.findall(r"""(?:src|href)=["'](https?:[^"']+)""", found["html"])
    assert not loaded
    (row,) = load(digits_run.best, "cpu").predict_files([path], 3)
    assert found["captions"] == [f"{row.label} {row.probability:.1%}"]
    assert found["classes"]["label"] == row.label
    assert [one["label"] for one in found["classes"]["confidences"]] == [label for label, _ in row.top]
