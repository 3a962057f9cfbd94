"""The queue of a service: bounded, in order, and an error reaches everyone who waits."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from vit.extras.serve.app import Limits, create_app
from vit.extras.serve.batching import MAX_WAITING_PIXELS, Batcher, FullError
from vit.inference.answers import answer_rule
from vit.inference.prediction import Prediction
from vit.inference.predictor import load


@pytest.mark.parametrize("max_batch", [1, 3, 40])
def test_sets_with_a_random_step_are_those_of_predict_in_any_order(digits_run, draw_classes, here, max_batch):
    model = load(digits_run.path, "cpu", "32-true")
    model.rule = answer_rule(model.validation_scores, len(model.class_names), coverage=0.8, sets="aps")
    folder = draw_classes(here / "photos", ("a", "b", "c", "d"), 10, side=8)
    files = sorted(map(str, folder.glob("*/*.png")))
    expected = {row.path: row.labels for row in model.predict_files(files)}
    assert len(set(map(len, expected.values()))) > 1
    batcher = Batcher(model, 1, max_batch, 0.05, 100, on_failure=lambda: None)
    answers = [batcher.submit([path], [Path(path).read_bytes()]) for path in reversed(files)]
    found = [answer.result(60)[0] for answer in answers]
    batcher.close()
    assert {row.path: row.labels for row in found} == expected
    in_memory = [next(model.predict(np.asarray(Image.open(path)))).labels for path in files]
    assert in_memory == [expected[path] for path in files]


class Slow:
    """A model that waits until it may go on, and counts its batches."""

    preprocess = None

    def __init__(self):
        self.go, self.batches = threading.Event(), []

    def predict_inputs(self, inputs, top_k):
        self.go.wait(20)
        self.batches.append([image for _, image in inputs])
        if any(image == b"bad" for image in self.batches[-1]):
            raise RuntimeError("out of order")
        return [Prediction(name, "ok", image.decode(), 1.0, ()) for name, image in inputs]


@pytest.fixture
def slow(monkeypatch):
    """A slow model whose images are not decoded."""
    monkeypatch.setattr("vit.extras.serve.batching.read_input", lambda key, preprocess, name, reader: reader.read(key))
    return Slow()


def batcher_of(slow, on_failure=lambda: None, **options):
    return Batcher(slow, 1, **{"max_batch": 4, "window": 0.2, "max_waiting": 3, **options}, on_failure=on_failure)


def test_requests_are_computed_together_and_each_gets_its_own_rows(slow):
    slow.go.set()
    batcher = batcher_of(slow)
    first, second = batcher.submit(["a", "b"], [b"1", b"2"]), batcher.submit(["c"], [b"3"])
    assert [(row.path, row.label) for row in first.result(20)] == [("a", "1"), ("b", "2")]
    assert [(row.path, row.label) for row in second.result(20)] == [("c", "3")]
    assert len(slow.batches) == 1 and sorted(slow.batches[0]) == [b"1", b"2", b"3"]
    batcher.close()


@pytest.mark.faults("V6")
def test_a_full_queue_refuses_and_a_cancelled_request_is_not_computed(slow):
    batcher = batcher_of(slow, max_batch=1)
    answers = [batcher.submit(["0"], [b"0"])]
    time.sleep(0.2)  # the first is being computed
    answers += [batcher.submit([f"{number}"], [f"{number}".encode()]) for number in (1, 2, 3)]
    with pytest.raises(FullError):
        batcher.submit(["4"], [b"4"])
    assert batcher.num_waiting == 3
    answers[2].cancel()
    slow.go.set()
    assert [answer.result(20)[0].label for answer in answers if not answer.cancelled()] == ["0", "1", "3"]
    batcher.close()
    assert [b"2"] not in slow.batches


@pytest.mark.faults("V6")
def test_a_full_service_says_when_to_come_again(slow):
    batcher = batcher_of(slow, max_batch=1, max_waiting=1)
    client = TestClient(create_app(batcher, Limits(1000, 0.3)))
    assert client.post("/predict", content=b"a").status_code == 504, "no answer in time"
    waiting = batcher.submit(["b"], [b"b"])
    answer = client.post("/predict", content=b"a")
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "1"
    waiting.cancel()
    assert batcher.num_waiting == 0, "whoever has gone leaves room"
    slow.go.set()
    batcher.close()


@pytest.mark.faults("V7")
def test_a_model_that_fails_ends_the_service_and_tells_everyone(slow):
    ended = threading.Event()
    batcher = batcher_of(slow, ended.set, max_batch=1)
    client = TestClient(create_app(batcher, Limits(1000, 20)))
    assert client.get("/health").status_code == 200
    failing, waiting = batcher.submit(["a"], [b"bad"]), batcher.submit(["b"], [b"1"])
    slow.go.set()
    for answer in (failing, waiting):
        with pytest.raises(RuntimeError, match="out of order"):
            answer.result(20)
    assert ended.wait(20) and client.get("/health").status_code == 503
    answer = client.post("/predict", content=b"1")
    assert answer.status_code == 503 and "the model has failed" in answer.json()["error"]


@pytest.mark.faults("V8")
def test_a_client_that_has_gone_is_not_decoded_for_and_holds_no_one(slow, monkeypatch):
    """One request of many slow images, and a small one behind it."""
    begun, go = [], threading.Event()

    def read(key, preprocess, name, reader):
        begun.append(reader.read(key))
        go.wait(0 if reader.read(key) == b"small" else 0.2)
        return reader.read(key)

    monkeypatch.setattr("vit.extras.serve.batching.read_input", read)
    slow.go.set()
    batcher = batcher_of(slow)
    large = batcher.submit(["l"] * 500, [b"large"] * 500)
    small = batcher.submit(["s"], [b"small"])
    assert small.result(10)[0].label == "small" and begun.count(b"large") < 50
    large.cancel()
    time.sleep(0.5)
    count = begun.count(b"large")
    time.sleep(1)
    assert begun.count(b"large") == count < 60 and batcher.num_waiting == 0
    batcher.close()


@pytest.mark.faults("V8")
def test_pixels_that_wait_are_bounded(slow, monkeypatch):
    may_decode = threading.Event()

    def read(key, preprocess, name, reader):
        may_decode.wait(20)
        return reader.read(key)

    monkeypatch.setattr("vit.extras.serve.batching.read_input", read)
    batcher = batcher_of(slow, max_batch=1, max_waiting=100)
    half = MAX_WAITING_PIXELS // 2 + 1
    first = batcher.submit(["a"], [b"a"], half)
    with pytest.raises(FullError):
        batcher.submit(["b"], [b"b"], half)
    first.cancel()
    second = batcher.submit(["b"], [b"b"], half)
    may_decode.set()
    slow.go.set()
    assert second.result(20)[0].label == "b"
    batcher.close()
