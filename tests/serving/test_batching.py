"""The queue of a service: bounded, in order, and an error reaches everyone who waits."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from vit.inference.answers import answer_rule
from vit.inference.prediction import Prediction
from vit.inference.predictor import load
from vit.serving.app import Limits, create_app
from vit.serving.batching import Batcher, FullError


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

    def __init__(self):
        self.go, self.batches = threading.Event(), []

    def predict_files(self, keys, top_k, batch_size, reader):
        self.go.wait(20)
        self.batches.append([reader.read(key) for key in keys])
        if any(image == b"bad" for image in self.batches[-1]):
            raise RuntimeError("out of order")
        return [Prediction(key, "ok", reader.read(key).decode(), 1.0, ()) for key in keys]


@pytest.fixture
def slow():
    return Slow()


def batcher_of(slow, on_failure=lambda: None, **options):
    return Batcher(slow, 1, **{"max_batch": 4, "window": 0.2, "max_waiting": 3, **options}, on_failure=on_failure)


def test_requests_are_computed_together_and_each_gets_its_own_rows(slow):
    slow.go.set()
    batcher = batcher_of(slow)
    first, second = batcher.submit(["a", "b"], [b"1", b"2"]), batcher.submit(["c"], [b"3"])
    assert [(row.path, row.label) for row in first.result(20)] == [("a", "1"), ("b", "2")]
    assert [(row.path, row.label) for row in second.result(20)] == [("c", "3")]
    assert slow.batches == [[b"1", b"2", b"3"]]
    batcher.close()


@pytest.mark.faults("V6")
def test_a_full_queue_refuses_and_a_cancelled_request_is_not_computed(slow):
    batcher = batcher_of(slow, max_batch=1)
    answers = [batcher.submit(["0"], [b"0"])]
    time.sleep(0.2)  # the first is being computed
    answers += [batcher.submit([f"{number}"], [f"{number}".encode()]) for number in (1, 2, 3)]
    with pytest.raises(FullError):
        batcher.submit(["4"], [b"4"])
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
    codes = [client.post("/predict", content=b"a") for _ in range(2)]
    assert [answer.status_code for answer in codes] == [504, 503] and codes[1].headers["Retry-After"] == "1"
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
