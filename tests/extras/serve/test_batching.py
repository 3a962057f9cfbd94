"""The queue of a service: bounded, in order, and an error reaches everyone who waits."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from vit.extras.serve.app import create_app
from vit.extras.serve.batching import MAX_WAITING_PIXELS, Batcher, FullError
from vit.inference.answers.answers import answer_rule
from vit.inference.prediction import Prediction
from vit.inference.predictor import load


@pytest.mark.parametrize("max_batch", [1, 3, 40])
def test_sets_with_a_random_step_are_those_of_predict_in_any_order(digits_run, draw_classes, here, max_batch):
    model = load(digits_run.path, "cpu", "32-true")
    model.rule = answer_rule(model.validation_scores, model.class_names, coverage=0.8, sets="aps")
    folder = draw_classes(here / "photos", ("a", "b", "c", "d"), 10, side=8)
    files = sorted(map(str, folder.glob("*/*.png")))
    expected = {row.path: row.labels for row in model.predict_files(files)}
    assert len(set(map(len, expected.values()))) > 1
    batcher = Batcher(model, 1, max_batch, 100, on_failure=lambda: None)

    async def ask():
        return await asyncio.gather(*(batcher.rows([path], [Path(path).read_bytes()]) for path in reversed(files)))

    found = [rows[0] for rows in asyncio.run(ask())]
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


def run(slow, ask, on_failure=lambda: None, **options):
    """Let a coroutine ask a batcher."""
    batcher = Batcher(slow, 1, **{"max_batch": 4, "max_waiting": 4, **options}, on_failure=on_failure)
    try:
        return asyncio.run(asyncio.wait_for(ask(batcher), 60))
    finally:
        slow.go.set()
        batcher.close()


def started(batcher, name, images, pixels=0):
    """A request of equal images, which has begun."""
    return asyncio.ensure_future(batcher.rows([name] * len(images), images, pixels))


def test_what_is_decoded_meanwhile_is_computed_together_and_each_gets_its_own_rows(slow):
    async def ask(batcher):
        tasks = [started(batcher, "0", [b"0"])]
        await asyncio.sleep(0.3)  # the first is being computed
        tasks += [started(batcher, "a", [b"1", b"2"]), started(batcher, "c", [b"3"])]
        await asyncio.sleep(0.3)
        slow.go.set()
        return await asyncio.gather(*tasks)

    _, first, second = run(slow, ask)
    assert [(row.path, row.label) for row in (*first, *second)] == [("a", "1"), ("a", "2"), ("c", "3")]
    assert slow.batches[0] == [b"0"] and sorted(slow.batches[1]) == [b"1", b"2", b"3"]


@pytest.mark.faults("V6")
def test_a_full_queue_refuses_and_a_cancelled_request_is_not_computed(slow):
    async def ask(batcher):
        tasks = [started(batcher, "0", [b"0"])]
        await asyncio.sleep(0.3)
        tasks += [started(batcher, number, [number.encode()]) for number in "123"]
        await asyncio.sleep(0.3)
        with pytest.raises(FullError):
            await batcher.rows(["4"], [b"4"])
        assert batcher.num_waiting == 4
        tasks.pop(2).cancel()
        await asyncio.sleep(0)
        slow.go.set()
        return [rows[0].label for rows in await asyncio.gather(*tasks)]

    assert run(slow, ask, max_batch=1) == ["0", "1", "3"]
    assert [b"2"] not in slow.batches


@pytest.mark.faults("V6")
def test_a_full_service_says_when_to_come_again(slow):
    batcher = Batcher(slow, 1, 1, 1, on_failure=lambda: None)
    with TestClient(create_app(batcher, 1000, 1)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/predict", content=b"a")
        until = time.monotonic() + 20
        while not batcher.num_waiting and time.monotonic() < until:
            time.sleep(0.01)
        answer = client.post("/predict", content=b"b")
        assert answer.status_code == 503 and answer.headers["Retry-After"] == "1"
        assert first.result(20).status_code == 504, "no answer in time"
        while batcher.num_waiting and time.monotonic() < until:
            time.sleep(0.01)
        assert batcher.num_waiting == 0, "whoever has gone leaves room"
        slow.go.set()
    batcher.close()


@pytest.mark.faults("V7")
def test_a_model_that_fails_ends_the_service_and_tells_everyone(slow):
    ended = threading.Event()
    batcher = Batcher(slow, 1, 1, 4, on_failure=ended.set)
    with TestClient(create_app(batcher, 1000, 20)) as client, ThreadPoolExecutor(2) as pool:
        assert client.get("/health").status_code == 200
        tasks = [pool.submit(client.post, "/predict", content=content) for content in (b"bad", b"bad")]
        until = time.monotonic() + 20
        while batcher.num_waiting < 2 and time.monotonic() < until:
            time.sleep(0.01)
        slow.go.set()
        for task in tasks:
            answer = task.result(20)
            assert answer.status_code == 503 and "the model has failed: RuntimeError" in answer.json()["error"]
        assert ended.is_set() and client.get("/health").status_code == 503
        assert client.post("/predict", content=b"1").status_code == 503
    batcher.close()


@pytest.mark.faults("V8")
def test_a_client_that_has_gone_is_not_decoded_for_and_holds_no_one(slow, monkeypatch):
    """One request of many slow images, and a small one behind it."""
    begun = []

    def read(key, preprocess, name, reader):
        begun.append(reader.read(key))
        time.sleep(0 if reader.read(key) == b"small" else 0.2)
        return reader.read(key)

    async def ask(batcher):
        large = started(batcher, "l", [b"large"] * 500)
        rows = await batcher.rows(["s"], [b"small"])
        assert rows[0].label == "small" and begun.count(b"large") < 50
        large.cancel()
        await asyncio.sleep(0.5)
        count = begun.count(b"large")
        await asyncio.sleep(1)
        assert begun.count(b"large") == count < 60 and batcher.num_waiting == 0

    monkeypatch.setattr("vit.extras.serve.batching.read_input", read)
    slow.go.set()
    run(slow, ask)


@pytest.mark.faults("V8")
def test_pixels_that_wait_are_bounded(slow, monkeypatch):
    may_decode = threading.Event()

    def read(key, preprocess, name, reader):
        may_decode.wait(20)
        return reader.read(key)

    async def ask(batcher):
        half = MAX_WAITING_PIXELS // 2 + 1
        first = started(batcher, "a", [b"a"], half)
        await asyncio.sleep(0.1)
        with pytest.raises(FullError):
            await batcher.rows(["b"], [b"b"], half)
        first.cancel()
        await asyncio.sleep(0.1)
        second = started(batcher, "b", [b"b"], half)
        may_decode.set()
        slow.go.set()
        assert (await second)[0].label == "b"

    monkeypatch.setattr("vit.extras.serve.batching.read_input", read)
    run(slow, ask)
