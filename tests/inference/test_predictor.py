"""A prediction for every file, which depends on that file alone."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vit
from tests.tables import rows
from vit.data.loading.module import ImageDataModule, LoaderOptions
from vit.data.pixels.augment import Augment
from vit.data.sources.sources import open_source
from vit.errors import CheckpointError, DataError, UsageError
from vit.inference.engine import score
from vit.inference.files import list_files

EXPECTED = {"cut.png": "unreadable", "empty.jpg": "not_image", "notes.txt": "not_image", "gone.png": "unreadable"}
EXPECTED |= {"pipe.png": "not_image", "thin.png": "too_large"}


@pytest.fixture(scope="module")
def model(digits_run):
    return vit.load(digits_run.path)


@pytest.fixture(scope="module")
def predictions(model, mixed):
    return list(model.predict(mixed))


def test_one_prediction_per_file_in_the_order_of_the_list(predictions, mixed):
    names = [entry.name for entry in os.scandir(mixed) if entry.is_file() or entry.is_symlink() or "pipe" in entry.name]
    expected = sorted(name for name in names if not name.startswith("."))
    assert [prediction.path for prediction in predictions] == [os.path.join(mixed, name) for name in expected]


def test_status_says_why_there_is_no_label(predictions, model):
    for prediction in predictions:
        name = Path(prediction.path).name
        assert prediction.status == EXPECTED.get(name, "ok")
        if prediction.status == "ok":
            assert prediction.label in model.class_names and prediction.error == ""
        else:
            assert (prediction.label, prediction.probability, prediction.top) == ("", None, ())
            assert prediction.error
    assert Counter(prediction.status for prediction in predictions)["ok"] == len(predictions) - len(EXPECTED)


def test_top_is_in_falling_order_and_begins_with_the_label(model, mixed):
    for top_k, length in ((1, 1), (3, 3), (10, 10), (99, 10)):
        for prediction in model.predict(mixed / "a b.png", top_k=top_k):
            probabilities = [probability for _, probability in prediction.top]
            assert len(prediction.top) == length == len({label for label, _ in prediction.top})
            assert prediction.top[0] == (prediction.label, prediction.probability)
            assert probabilities == sorted(probabilities, reverse=True)
            assert sum(probabilities) <= 1 + 1e-6
    assert sum(probabilities) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_a_file_s_probabilities_do_not_depend_on_its_company(model, mixed, predictions, batch_size):
    others = list(model.predict(mixed, batch_size=batch_size))
    files = [prediction.path for prediction in predictions]
    backwards = list(model.predict_files(files[::-1], batch_size=batch_size))[::-1]
    for one, two, three in zip(predictions, others, backwards, strict=True):
        assert one.path == two.path == three.path and one.label == two.label == three.label
        if one.probability is not None:
            assert two.probability == pytest.approx(one.probability, abs=1e-6)
            assert three.probability == pytest.approx(one.probability, abs=1e-6)


@pytest.mark.faults("I12")
def test_prediction_sees_what_evaluation_sees(model, colors):
    """The same files through `predict` and through the evaluation loader give the same probabilities."""
    source = open_source(str(colors))
    module = ImageDataModule(source, model.preprocess, Augment(), LoaderOptions(1, cache="none", num_workers=0), 0)
    scored = score(model.engine, module.evaluation_loader("train"))
    found = list(model.predict_files([str(colors / path) for path in scored.paths], top_k=10))
    for prediction, probabilities in zip(found, scored.probabilities, strict=True):
        assert dict(prediction.top) == pytest.approx(dict(zip(model.class_names, probabilities, strict=True)), abs=1e-6)


def test_digits_written_as_files_are_recognized_as_in_the_run(model, digits_run, tmp_path):
    from sklearn.datasets import load_digits

    images = np.round(load_digits().images * (255 / 16)).astype(np.uint8)
    predicted = rows(digits_run.path / "predictions" / "test.csv")[:40]
    for row in predicted:
        Image.fromarray(images[int(row["path"].removeprefix("digits/"))]).save(tmp_path / f"{row['path'][7:]}.png")
    found = {Path(prediction.path).name[:-4]: prediction for prediction in model.predict(tmp_path)}
    for row in predicted:
        prediction = found[row["path"].removeprefix("digits/")]
        assert prediction.label == row["predicted"]
        assert prediction.probability == pytest.approx(float(row["probability"]), abs=1e-5)


def test_inputs_of_every_kind(model, mixed):
    given = [str(mixed / "a b.png"), mixed / "cut.png", f"{mixed}/comma*"]
    assert [Path(p.path).name for p in model.predict(given)] == ["a b.png", "cut.png", 'comma,quote".png']
    assert len(list(model.predict(str(mixed), recursive=True))) == len(list(model.predict(mixed))) + 1
    with pytest.raises(DataError, match="there is no"):
        model.predict(mixed / "nothing.png")  # at once, not when the first row is asked for


def test_each_given_file_has_its_prediction_however_often_it_is_given(model, mixed):
    a, b = str(mixed / "a b.png"), str(mixed / "cut.png")
    given = [a, b, a]
    assert [(path, row.path) for path, row in zip(given, model.predict(given), strict=True)] == [(p, p) for p in given]
    both = [Path(row.path).name for row in model.predict([f"{mixed}/comma*", a, f"{mixed}/comma*"])]
    assert both == ['comma,quote".png', "a b.png", 'comma,quote".png']


def test_predictions_come_as_they_are_made(model, mixed):
    rows = model.predict_files(
        list_files([mixed], recursive=False).paths + [os.fspath(mixed / "a b.png")] * 200, batch_size=2
    )
    first = next(rows)
    assert first.path.startswith(str(mixed))
    rows.close()


def test_load_takes_a_run_or_any_of_its_checkpoints(digits_run, mixed):
    best = [vit.load(path) for path in (digits_run.path, str(digits_run.path), digits_run.best)]
    last = vit.load(digits_run.path / "checkpoints" / "last.ckpt")
    assert {model.class_names for model in (*best, last)} == {tuple("0123456789")}
    rows = [next(model.predict(mixed / "a b.png")) for model in best]
    assert rows[0] == rows[1] == rows[2]
    with pytest.raises(CheckpointError, match="nothing"):
        vit.load(digits_run.path / "nothing.ckpt")
    with pytest.raises(CheckpointError, match="figures"):
        vit.load(digits_run.path / "figures")


def test_precision_follows_the_training_unless_asked(digits_run):
    assert vit.load(digits_run.path).engine.precision == "32-true"
    assert vit.load(digits_run.path, precision="bf16-mixed").engine.precision == "bf16-mixed"
    for options in ({"precision": "fp16"}, {"engine": "tensorrt"}):  # computed with float32 and torch, without a word
        with pytest.raises(UsageError, match="choose one of"):
            vit.load(digits_run.path, **options)


def test_the_package_names_what_it_offers(digits_run):
    assert vit.create_network("vit_nano_patch2_8", num_classes=3)(torch.zeros(1, 3, 8, 8)).shape == (1, 3)
    with pytest.raises(AttributeError, match="laod"):
        vit.laod(digits_run.path)


def test_counts_below_one_are_refused(model, mixed):
    """No row came for a batch size of 0, and an IndexError for no class."""
    for counts in ({"batch_size": 0}, {"top_k": 0}):
        with pytest.raises(UsageError, match=f"{next(iter(counts))} is 0"):
            model.predict(mixed, **counts)
