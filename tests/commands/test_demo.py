"""`vit demo`: a page on this machine alone, whose labels are those of `vit predict` and whose maps of `vit explain`.

gradio runs in a process of its own: it leaves sockets and event loops behind, which are warnings, and errors here.
"""

import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import vit.extras.demo.command as module
from tests.browser import CHROMIUM, LACKING
from vit.checkpoints.run import RunDirectory
from vit.commands.cli.recipe_options import read_recipe
from vit.console import Reporter, harmless, interval
from vit.data.pixels.preprocess import Preprocess
from vit.data.splits.split import read_splits
from vit.explain.explainer import Explainer
from vit.extras.demo import page
from vit.extras.demo.page import NUM_EXAMPLES, examples_of, heading_of
from vit.inference.devices import choose_device
from vit.inference.engine import Engine
from vit.inference.predictor import Predictor, load
from vit.models.spec import create_network
from vit.report.page.image_figures import overlay
from vit.training.running.run_images import images_of_run

BEGIN = """
import json, sys
from pathlib import Path
from vit.console import Reporter
from vit.extras.demo.command import HERE
from vit.extras.demo.page import Page, build, examples_of, heading_of, launch
from vit.inference.predictor import load
run, uploads, *paths = sys.argv[1:]
predictor = load(run, "cpu")
Path(uploads).mkdir()
what = Page(predictor, 3, *heading_of(Path(run), predictor), examples_of(Path(run), Path(uploads), Reporter()))
"""
BUILT = """
page = build(what._replace(title="<b>bird"))
answers = [page.fns[0].fn(path) for path in paths]
print(json.dumps({
    "analytics": page.analytics_enabled, "api": [(one.api_name, one.api_visibility) for one in page.fns.values()],
    "answers": [(classes, None if seen is None else seen.tolist(), words) for classes, seen, words in answers],
    "heading": [block.value for block in page.blocks.values() if type(block).__name__ == "HTML"],
    "empty": page.fns[0].fn(None),
    "buttons": [block.buttons for block in page.blocks.values() if type(block).__name__ == "Image"],
}))
"""
VISITED = """
import html, shutil
from playwright.sync_api import sync_playwright
page, address = launch(what, HERE, None, Path(uploads))
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=paths[0], args=["--no-sandbox", "--disable-gpu"])
    tab = browser.new_page(viewport={"width": 1280, "height": 1200})
    tab.goto(address)
    tab.wait_for_selector(".gallery-item")
    examples = tab.locator(".gallery-item").count()
    heading = tab.locator("h1").all_inner_texts(), tab.title(), tab.locator(".prose p").all_inner_texts()
    tab.locator(".gallery-item").nth(2).click()
    tab.wait_for_selector("h2")
    answer = tab.locator("h2").first.inner_text()
    browser.close()
page.close(verbose=False)
print(json.dumps({"examples": examples, "heading": heading, "answer": answer.strip(), "paths": what.examples}))
"""
SERVED = """
import urllib.request
from gradio_client import Client, handle_file
page, address = launch(what, HERE, None, Path(uploads))
html = urllib.request.urlopen(address).read().decode()
client = Client(address, verbose=False, analytics_enabled=False)
answers = [client.predict(handle_file(path), api_name="/predict") for path in paths]
page.close(verbose=False)
print(json.dumps({"address": address, "html": html, "share": page.share_url, "answers": answers}))
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
    picture, words = page.look_at(predictor, path)
    found = Explainer(predictor, "relevance", with_faithfulness=False).explain(path)
    assert (picture == overlay(found.image, found.maps["relevance"]).permute(1, 2, 0).numpy()).all()
    assert words.startswith(f"Yellow spoke for {found.explained} (relevance)")


def test_a_cnn_has_a_map_and_an_onnx_file_says_that_it_has_none(mixed):
    network = create_network("resnet10_small", 2, 16, widths=(4, 4, 4, 4)).eval()
    cnn = Predictor(Engine(network, Preprocess(16), choose_device("cpu"), "32-true"), ("cat", "\x1b[31mred"), None)
    picture, words = page.look_at(cnn, str(mixed / "a b.png"))
    assert picture.shape == (224, 224, 3) and "(gradcam)" in words and "\x1b" not in words
    picture, words = page.look_at(SimpleNamespace(engine="an OnnxEngine"), str(mixed / "a b.png"))
    assert picture is None and words.startswith("No map: vit explain cannot read the layers of an exported file")


@pytest.mark.slow
def test_what_is_dropped_gets_the_labels_of_predict(digits_run, mixed, tmp_path):
    """Files with odd names and files that are not images are dropped too."""
    paths = sorted(os.fspath(path) for path in mixed.iterdir() if path.is_file() and not path.name.startswith("."))
    found = told(BUILT, digits_run, tmp_path, paths)
    rows = list(load(digits_run.best, "cpu").predict_files(paths, 3))
    good = [row for row in rows if row.status == "ok"]
    assert len(rows) - len(good) > 2 and len(good) > 5
    for row, (classes, seen, words) in zip(rows, found["answers"], strict=True):
        if row.status != "ok":
            assert (classes, seen, words) == (None, None, harmless(row.error)) and row.error
            continue
        picture, sentence = page.look_at(load(digits_run.best, "cpu"), row.path)
        assert list(classes.items()) == [(label, pytest.approx(share)) for label, share in row.top]
        assert seen == picture.tolist() and words == sentence and row.label in words
    assert "<h1>&lt;b&gt;bird</h1>" in found["heading"][0]
    assert found["empty"] == [None, None, ""]
    assert found["buttons"] and not {"share"} & {name for buttons in found["buttons"] for name in buttons}
    assert found["analytics"] is False
    assert found["api"][0] == ["predict", "public"]
    assert "public" not in {visibility for _, visibility in found["api"][1:]}


@pytest.mark.faults("V10")
@pytest.mark.slow
def test_a_page_with_a_name_of_its_own_cannot_use_the_demo(digits_run, tmp_path):
    """The middleware as gradio gets it, without its browser's files."""
    import gradio
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    class Launched:
        def launch(self, app_kwargs, **_):
            self.app = FastAPI(**app_kwargs)
            self.app.get("/")(lambda: "photograph")
            return None, "http://127.0.0.1:7860", None

    launched = Launched()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "build", lambda what: launched)
        page.launch(None, "127.0.0.1", None, tmp_path)
        client = TestClient(launched.app)
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 400
        assert client.get("/", headers={"Host": "127.0.0.1:7860"}).status_code == 200
        page.launch(None, "0.0.0.0", None, tmp_path)
        assert TestClient(launched.app).get("/", headers={"Host": "lab.example"}).status_code == 200
    assert "app_kwargs" in inspect.signature(gradio.Blocks.launch).parameters


@pytest.mark.slow
def test_its_server_answers_on_this_machine_alone(digits_run, mixed, tmp_path):
    """The bytes of a file are those that the network's decoder reads, and not a copy that gradio has made."""
    clear = np.random.default_rng(0).integers(0, 256, (12, 8, 4), dtype=np.uint8)
    Image.fromarray(clear).save(tmp_path / "clear.png")
    paths = [str(mixed / "a b.png"), str(tmp_path / "clear.png"), str(mixed / "notes.txt")]
    found = told(SERVED, digits_run, tmp_path, paths)
    assert found["address"].startswith("http://127.0.0.1:") and found["share"] is None
    loaded = re.findall(r"""(?:src|href)=["'](https?:[^"']+)""", found["html"])
    assert not loaded
    *rows, bad = load(digits_run.best, "cpu").predict_files(paths, 3)
    *answers, refused = found["answers"]
    assert not refused[0] and refused[1:] == [None, bad.error] and bad.status == "not_image"
    for row, (classes, _, words) in zip(rows, answers, strict=True):
        assert row.label in words
        assert classes["label"] == row.label
        shares = [(one["label"], pytest.approx(one["confidence"])) for one in classes["confidences"]]
        assert list(row.top) == shares


@pytest.mark.slow
def test_a_browser_sees_the_model_and_its_examples(digits_run, tmp_path):
    if CHROMIUM is None:
        pytest.skip(LACKING)
    before = {path: path.stat().st_mtime_ns for path in digits_run.path.rglob("*")}
    found = told(VISITED, digits_run, tmp_path, [CHROMIUM])
    (title,), tab, lines = found["heading"]
    assert title == "vit_nano_patch2_8, trained on digits" and tab == f"vit demo: {title}"
    result = RunDirectory(digits_run.path).read_result()
    accuracy = f"Test accuracy {interval(**result.metrics['acc1'])}, 359 images, 95 % interval"
    assert accuracy in lines and f"Model: {digits_run.best.name}" in lines
    assert found["examples"] == NUM_EXAMPLES
    row = next(load(digits_run.best, "cpu").predict_files([found["paths"][2]], 3))
    assert found["answer"] == row.label
    assert before == {path: path.stat().st_mtime_ns for path in digits_run.path.rglob("*")}


def test_examples_of_files_are_named_where_they_are(vit, colors, tmp_path, capsys):
    photos = tmp_path / "photos"
    shutil.copytree(colors, photos)
    quick = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 1, "--wandb", "off")
    answer = vit("train", photos, *quick, "--out", tmp_path / "out")
    (config,) = (tmp_path / "out").glob("**/config.yaml")
    listed = {row.path: row.label for row in read_splits(config.parent / "splits.csv")["validation"]}
    found = examples_of(config.parent, tmp_path / "none", Reporter())
    assert answer.code == 0 and {listed[path] for path in found[:3]} == {"blue", "green", "red"}
    Path(found[0]).unlink()
    assert examples_of(config.parent, tmp_path / "none", Reporter()) == found[1:]
    photos.rename(tmp_path / "moved")
    assert examples_of(config.parent, tmp_path / "none", Reporter()) == [] and not (tmp_path / "none").exists()
    assert f"no examples: {photos}, which held the images" in capsys.readouterr().err
    config.write_text(config.read_text().replace(f"source: {photos}", f"source: {tmp_path / 'moved'}"))  # as advised
    moved = [path.replace(str(photos), str(tmp_path / "moved")) for path in found[1:]]
    assert examples_of(config.parent, tmp_path / "none", Reporter()) == moved


def test_examples_of_a_data_set_in_one_file_are_its_pixels(digits_run, tmp_path):
    source = images_of_run(RunDirectory(digits_run.path), read_recipe(digits_run.path / "config.yaml"))
    samples, found = source.splits["validation"], examples_of(digits_run.best, tmp_path, Reporter())
    places = [int(Path(path).stem.partition("_")[2]) for path in found]
    assert len(found) == NUM_EXAMPLES == len({samples.labels[place] for place in places})
    for path, place in zip(found, places, strict=True):
        assert (np.asarray(Image.open(path)) == samples.arrays[place]).all()


def test_a_model_without_a_run_has_a_name_and_its_validation_accuracy(digits_run, tmp_path):
    alone = tmp_path / "<b>bird.ckpt"
    shutil.copy(digits_run.best, alone)
    title, lines = heading_of(alone, load(alone, "cpu"))
    assert title == "vit_nano_patch2_8" and examples_of(alone, tmp_path, Reporter()) == []
    assert lines[1].startswith("Validation accuracy ") and lines[1].endswith(", which is not a test")


@pytest.mark.slow
def test_a_model_of_several_labels_without_a_run_has_its_validation_map(labels_run, tmp_path):
    """The exact match of a validation is at thresholds of 0.5, which are not those of the model."""
    alone = shutil.copy(labels_run.best, tmp_path / "alone.ckpt")
    assert heading_of(alone, load(alone, "cpu"))[1][1].startswith("Validation mAP ")


@pytest.mark.parametrize("name", ["result.json", "splits.csv", "config.yaml"])
def test_a_damaged_run_still_has_a_page(digits_run, tmp_path, name):
    run = tmp_path / "run"
    shutil.copytree(digits_run.path, run)
    (run / name).write_text("{")
    title, lines = heading_of(run, load(run, "cpu"))
    assert title.startswith("vit_nano_patch2_8") and lines[-1] == "Model: run"
    assert len(examples_of(run, tmp_path, Reporter())) == (NUM_EXAMPLES if name == "result.json" else 0)


def test_others_on_the_network_see_no_images_of_the_run(vit, digits_run, monkeypatch):
    """The page itself is not served: what it would show is looked at."""
    shown = []
    monkeypatch.setattr(page, "launch", lambda what, *_: (shown.append(what), (None, "http://"))[1])
    monkeypatch.setattr(module.threading, "Event", lambda: SimpleNamespace(wait=lambda: None))
    for host in (module.HERE, "0.0.0.0"):
        assert vit("demo", digits_run.path, "--host", host, "--device", "cpu").code == 0
    assert [len(what.examples) for what in shown] == [NUM_EXAMPLES, 0]
