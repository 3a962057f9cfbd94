"""`vit demo`: a page on this machine alone, whose labels are those of `vit predict`.

gradio runs in a process of its own: it leaves sockets and event loops behind, which are warnings, and errors here.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vit.commands.demo as module
from vit.prediction.predictor import load

needs_gradio = pytest.mark.skipif(importlib.util.find_spec("gradio") is None, reason="gradio is not installed")
BEGIN = """
import json, sys
from pathlib import Path
from vit.commands.demo import HERE, build, launch
from vit.prediction.predictor import load
run, uploads, *paths = sys.argv[1:]
predictor = load(run, "cpu")
"""
BUILT = """
page = build(predictor, 3)
pictures, classes, problems, rows = page.fns[0].fn(paths)
empty = page.fns[0].fn(None)
print(json.dumps({
    "analytics": page.analytics_enabled, "api": [(one.api_name, one.api_visibility) for one in page.fns.values()],
    "shapes": [picture.shape for picture, _ in pictures], "captions": [caption for _, caption in pictures],
    "classes": classes, "problems": problems["value"].splitlines(), "empty": [empty[0], empty[1], empty[3]],
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


def test_without_gradio_it_says_what_to_install(vit, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    answer = vit("demo", "run")
    assert answer.code == 2 and "pip install 'vit-lightning[demo]'" in answer.err


@needs_gradio
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
    assert found["analytics"] is False
    assert found["api"][0] == ["predict", "public"]
    assert [visibility for _, visibility in found["api"][1:]] == ["private"]


@needs_gradio
@pytest.mark.slow
def test_its_server_answers_on_this_machine_alone(digits_run, mixed, tmp_path):
    pytest.importorskip("gradio_client")
    path = str(mixed / "a b.png")
    found = told(SERVED, digits_run, tmp_path, [path])
    assert found["address"].startswith("http://127.0.0.1:") and found["share"] is None
    loaded = re.findall(r"""(?:src|href)=["'](https?:[^"']+)""", found["html"])
    assert not loaded
    (row,) = load(digits_run.best, "cpu").predict_files([path], 3)
    assert found["captions"] == [f"{row.label} {row.probability:.1%}"]
    assert found["classes"]["label"] == row.label
    assert [one["label"] for one in found["classes"]["confidences"]] == [label for label, _ in row.top]
