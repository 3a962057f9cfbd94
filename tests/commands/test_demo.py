"""`vit demo`: a page on this machine alone, whose labels are those of `vit predict`."""

import importlib.util

import pytest

from vit.commands import demo as module
from vit.prediction.predictor import load

needs_gradio = pytest.mark.skipif(importlib.util.find_spec("gradio") is None, reason="gradio is not installed")


@pytest.fixture
def predictor(digits_run):
    return load(digits_run.path, "cpu")


def test_without_gradio_it_says_what_to_install(vit, digits_run, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    answer = vit("demo", digits_run.path)
    assert answer.code == 2 and "pip install 'vit-lightning[demo]'" in answer.err


@needs_gradio
def test_the_page_is_built_and_sends_nothing_anywhere(predictor):
    page = module.build(predictor, 3)
    assert page.analytics_enabled is False
    assert [function.api_name for function in page.fns.values()] == ["predict", False]


@needs_gradio
def test_what_is_dropped_gets_the_labels_of_predict(predictor, mixed):
    """Odd names and files that are no images are dropped too."""
    page = module.build(predictor, 3)
    paths = sorted(str(path) for path in mixed.iterdir() if path.is_file() and not path.name.startswith("."))
    pictures, classes, problems, rows = page.fns[0].fn(paths)
    expected = list(predictor.predict_files(paths, 3))
    assert rows == [row for row in expected if row.status == "ok"] and len(rows) > 5
    assert [caption for _, caption in pictures] == [f"{row.label} {row.probability:.1%}" for row in rows]
    assert all(picture.shape[2] == 3 and picture.dtype == "uint8" for picture, _ in pictures)
    assert classes == dict(rows[0].top) and len(classes) == 3
    bad = [row for row in expected if row.status != "ok"]
    assert len(problems["value"].splitlines()) == len(bad) > 2 and problems["visible"]
    assert page.fns[0].fn(None)[:2] == ([], None)


@needs_gradio
@pytest.mark.slow
def test_its_server_answers_on_this_machine_alone(predictor, mixed, tmp_path):
    import urllib.request

    gradio_client = pytest.importorskip("gradio_client")
    page, address = module.launch(predictor, 3, module.HERE, None, tmp_path / "uploads")
    try:
        assert address.startswith("http://127.0.0.1:") and page.share_url is None
        html = urllib.request.urlopen(address).read().decode()
        assert "fonts.googleapis.com" not in html and "google-analytics" not in html
        file = mixed / "a b.png"
        client = gradio_client.Client(address, verbose=False, analytics_enabled=False)
        pictures, classes, _ = client.predict([gradio_client.handle_file(str(file))], api_name="/predict")
    finally:
        page.close(verbose=False)
    (row,) = predictor.predict_files([str(file)], 3)
    assert pictures[0]["caption"] == f"{row.label} {row.probability:.1%}"
    assert classes["label"] == row.label
    assert [one["label"] for one in classes["confidences"]] == [label for label, _ in row.top]
