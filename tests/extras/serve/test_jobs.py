"""The jobs of a service: bounded, in turns, and an error reaches everyone who waits."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from starlette.exceptions import HTTPException

from vit.extras.serve.app import create_app
from vit.extras.serve.jobs import MAX_WAITING_PIXELS, Jobs
from vit.inference.answers.answers import answer_rule
from vit.inference.prediction import Prediction
from vit.inference.predictor import BATCH_SIZE, load


def test_sets_with_a_random_step_are_those_of_predict_in_any_order(digits_run, draw_classes, here):
    model = load(digits_run.path, "cpu", "32-true")
    model.rule = answer_rule(model.validation_scores, model.class_names, coverage=0.8, sets="aps")
    folder = draw_classes(here / "photos", ("a", "b", "c", "d"), 10, side=8)
    files = sorted(map(str, folder.glob("*/*.png")))
    expected = {row.path: row.labels for row in model.predict_files(files)}
    assert len(set(map(len, expected.values()))) > 1
    jobs = Jobs(model, 1, 100, on_failure=lambda: None)
    uploads = [(path, Path(path).read_bytes()) for path in reversed(files)]

    async def ask():
        return await asyncio.gather(jobs.rows(uploads[:30]), *(jobs.rows([upload]) for upload in uploads[30:]))

    found = [row for rows in asyncio.run(ask()) for row in rows]
    jobs.close()
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
    monkeypatch.setattr("vit.extras.serve.jobs.read_input", lambda key, preprocess, name, reader: reader.read(key))
    return Slow()


def run(slow, ask):
    """Let a coroutine ask for rows."""
    jobs = Jobs(slow, 1, 4, on_failure=lambda: None)
    try:
        return asyncio.run(asyncio.wait_for(ask(jobs), 60))
    finally:
        slow.go.set()
        jobs.close()


def started(jobs, name, images, pixels=0):
    """A request, which has begun."""
    return asyncio.ensure_future(jobs.rows([(name, image) for image in images], pixels))


def test_the_images_of_a_request_are_computed_together_and_a_large_request_takes_turns(slow):
    async def ask(jobs):
        large = started(jobs, "large", [b"1"] * (2 * BATCH_SIZE + 1))
        await asyncio.sleep(0.3)  # its first portion is being computed
        small = started(jobs, "small", [b"2", b"3"])
        await asyncio.sleep(0.3)
        slow.go.set()
        return await asyncio.gather(large, small)

    large, small = run(slow, ask)
    assert len(large) == 2 * BATCH_SIZE + 1 and {row.path for row in large} == {"large"}
    assert [(row.path, row.label) for row in small] == [("small", "2"), ("small", "3")]
    assert [len(batch) for batch in slow.batches] == [BATCH_SIZE, 2, BATCH_SIZE, 1]


@pytest.mark.faults("V8")
def test_a_request_whose_client_has_gone_has_no_further_turn(slow):
    async def ask(jobs):
        large = started(jobs, "large", [b"1"] * (2 * BATCH_SIZE))
        await asyncio.sleep(0.3)
        large.cancel()
        await asyncio.sleep(0)
        slow.go.set()
        return await jobs.rows([("small", b"2")])

    run(slow, ask)
    assert [len(batch) for batch in slow.batches] == [BATCH_SIZE, 1]


@pytest.mark.faults("V6")
def test_a_full_queue_refuses_and_a_cancelled_request_is_not_computed(slow):
    async def ask(jobs):
        tasks = [started(jobs, "0", [b"0"])]
        await asyncio.sleep(0.3)
        tasks += [started(jobs, number, [number.encode()]) for number in "123"]
        await asyncio.sleep(0.3)
        with pytest.raises(HTTPException) as refused:
            await jobs.rows([("4", b"4")])
        assert refused.value.status_code == 503 and jobs.num_waiting == 4
        tasks.pop(2).cancel()
        await asyncio.sleep(0)
        slow.go.set()
        return [rows[0].label for rows in await asyncio.gather(*tasks)]

    assert run(slow, ask) == ["0", "1", "3"]
    assert [b"2"] not in slow.batches


@pytest.mark.faults("V6")
def test_a_full_service_says_when_to_come_again(slow):
    jobs = Jobs(slow, 1, 1, on_failure=lambda: None)
    with TestClient(create_app(jobs, 1000, 1)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/predict", content=b"a")
        until = time.monotonic() + 20
        while not jobs.num_waiting and time.monotonic() < until:
            time.sleep(0.01)
        answer = client.post("/predict", content=b"b")
        assert answer.status_code == 503 and answer.headers["Retry-After"] == "1"
        assert first.result(20).status_code == 504, "no answer in time"
        while jobs.num_waiting and time.monotonic() < until:
            time.sleep(0.01)
        assert jobs.num_waiting == 0, "whoever has gone leaves room"
        slow.go.set()
    jobs.close()


@pytest.mark.faults("V7")
def test_a_model_that_fails_ends_the_service_and_tells_everyone(slow):
    ended = threading.Event()
    jobs = Jobs(slow, 1, 4, on_failure=ended.set)
    with TestClient(create_app(jobs, 1000, 20)) as client, ThreadPoolExecutor(2) as pool:
        assert client.get("/health").status_code == 200
        tasks = [pool.submit(client.post, "/predict", content=content) for content in (b"bad", b"bad")]
        until = time.monotonic() + 20
        while jobs.num_waiting < 2 and time.monotonic() < until:
            time.sleep(0.01)
        slow.go.set()
        for task in tasks:
            answer = task.result(20)
            assert answer.status_code == 503 and "the model has failed: RuntimeError" in answer.json()["error"]
        assert ended.is_set() and client.get("/health").status_code == 503
        assert client.post("/predict", content=b"1").status_code == 503
    jobs.close()


@pytest.mark.faults("V8")
def test_a_client_that_has_gone_is_not_decoded_for_and_holds_no_one(slow, monkeypatch):
    """One request of many slow images, and a small one behind it."""
    begun = []

    def read(key, preprocess, name, reader):
        begun.append(reader.read(key))
        time.sleep(0 if reader.read(key) == b"small" else 0.2)
        return reader.read(key)

    async def ask(jobs):
        large = started(jobs, "l", [b"large"] * 500)
        rows = await jobs.rows([("s", b"small")])
        assert rows[0].label == "small" and begun.count(b"large") < 50
        large.cancel()
        await asyncio.sleep(0.5)
        count = begun.count(b"large")
        await asyncio.sleep(1)
        assert begun.count(b"large") == count < 60 and jobs.num_waiting == 0

    monkeypatch.setattr("vit.extras.serve.jobs.read_input", read)
    slow.go.set()
    run(slow, ask)


@pytest.mark.faults("V8")
def test_pixels_that_wait_are_bounded(slow, monkeypatch):
    may_decode = threading.Event()

    def read(key, preprocess, name, reader):
        may_decode.wait(20)
        return reader.read(key)

    async def ask(jobs):
        half = MAX_WAITING_PIXELS // 2 + 1
        first = started(jobs, "a", [b"a"], half)
        await asyncio.sleep(0.1)
        with pytest.raises(HTTPException, match="503"):
            await jobs.rows([("b", b"b")], half)
        first.cancel()
        await asyncio.sleep(0.1)
        second = started(jobs, "b", [b"b"], half)
        may_decode.set()
        slow.go.set()
        assert (await second)[0].label == "b"

    monkeypatch.setattr("vit.extras.serve.jobs.read_input", read)
    run(slow, ask)
