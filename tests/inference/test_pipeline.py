"""Rows are the same whichever core reads and computes, and come in the order of the files."""

import threading
from dataclasses import dataclass, field

import pytest
import torch

import vit
from vit.inference import prediction
from vit.inference.engine import Engine
from vit.inference.prediction import rows_of


@dataclass
class Accelerator:
    """Stands for an engine on another device, and counts the pictures that wait for it."""

    device: torch.device = field(default_factory=lambda: torch.device("meta"))


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_cores_that_work_alone_give_the_rows_of_cores_in_turns(digits_run, mixed, monkeypatch):
    monkeypatch.setattr(prediction, "available_cores", lambda: 2)
    model = vit.load(digits_run.path)
    threads = set()
    compute = model.engine.logits_and_features
    noted = lambda images: threads.add(threading.get_ident()) or compute(images)  # noqa: E731
    monkeypatch.setattr(model.engine, "logits_and_features", noted)
    files = [str(file) for file in sorted(mixed.iterdir()) if file.is_file()] * 4
    alone = list(model.predict_files(files, batch_size=3))
    assert threading.get_ident() not in threads
    monkeypatch.setattr(prediction, "available_cores", lambda: 1)
    threads.clear()
    turns = list(model.predict_files(files, batch_size=3))
    assert threads == {threading.get_ident()}
    assert [row.path for row in alone] == files == [row.path for row in turns]
    for one, other in zip(alone, turns, strict=True):
        assert (one.status, one.label, one.error) == (other.status, other.label, other.error)
        if one.probability is not None:
            assert one.probability == pytest.approx(other.probability, abs=1e-6)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("num_images", "batch_size", "expected"),
    [(1, 64, 0), (3, 64, 0), (4, 64, 2), (40, 64, 10), (40, 8, 7), (2000, 64, 16), (2000, 1, 1)],
)
def test_all_cores_get_equally_many_batches(digits_run, monkeypatch, num_images, batch_size, expected):
    monkeypatch.setattr(prediction, "available_cores", lambda: 2)
    monkeypatch.setattr(prediction, "CORE_PIXELS", 16 * 8 * 8)
    engine = vit.load(digits_run.path).engine
    assert isinstance(engine, Engine) and engine.preprocess.image_size == 8
    assert prediction._images_per_core(engine, num_images, batch_size) == expected


def test_an_accelerator_gets_whole_batches_of_pictures_read_ahead():
    read, batches = [], []

    def compute(part):
        batches.append(part)
        assert len(read) <= (len(batches) + prediction.AHEAD) * 4 + 1
        return [-item for item in part]

    def reading(item):
        read.append(item)
        return item

    assert list(rows_of(Accelerator(), range(50), 4, reading, compute)) == [-item for item in range(50)]
    assert [len(part) for part in batches] == [4] * 12 + [2]


def test_an_accelerator_has_its_next_batch_before_the_rows_of_the_last_are_waited_for():
    events = []

    def compute(part):
        events.append(f"ask {part}")
        return (events.append(f"wait {item}") or -item for item in part)

    assert list(rows_of(Accelerator(), range(5), 2, lambda item: item, compute)) == [0, -1, -2, -3, -4]
    assert events == ["ask [0, 1]", "ask [2, 3]", "wait 0", "wait 1", "ask [4]", "wait 2", "wait 3", "wait 4"]
