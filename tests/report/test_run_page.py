"""The page of a run: its numbers and pictures, text that stays text, also in a real browser."""

import base64
import io
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.browser import browser  # noqa: F401  a fixture
from tests.report.pages import Page
from vit.atomic_files import write_json
from vit.checkpoints.result import RunResult, versions
from vit.checkpoints.run import RunDirectory
from vit.data.samples import Samples, Source
from vit.errors import DataError, UsageError
from vit.inference.metrics import uncalibrated, with_intervals
from vit.inference.scored_images import ScoredImages
from vit.inference.scored_rows import write_scored
from vit.models.spec import NetworkSpec
from vit.report.run_page import write_run_report

ALLOWED = {
    "html": {"lang"}, "head": set(), "meta": {"charset", "http-equiv", "content", "name"}, "title": set(),
    "style": set(), "body": set(), "main": set(),
    "h1": set(), "h2": set(), "h3": set(), "p": {"class"}, "div": {"class", "tabindex"},
    "figure": {"class", "tabindex"}, "img": {"src", "alt", "loading"}, "figcaption": set(), "table": set(),
    "thead": set(), "tbody": set(), "tr": set(), "th": {"class"}, "td": {"class"}, "small": set(), "b": set(),
    "span": {"class"}, "details": set(), "summary": set(), "pre": set(),
}  # fmt: skip
HOSTILE = [
    "<script>document.title='owned'</script>", '"><img src=x onerror="document.title=\'owned\'">', "</td></table>",
    "{{ 7*7 }}", "{% raw %}", "]]><!--", "&lt;b&gt;", "a\nb\x00\x1b[31m", "\u202egnp.exe", "é\udce9",
    "</title></style>", "$\\frac{",
]  # fmt: skip
METRICS = (
    "epoch,step,lr,train/loss,train/images_per_second,val/loss,val/acc1,val/acc5,val/ece,seconds\n"
    "0,9,0.1,2.0,100,1.9,0.5,,0.1,1.0\n1,18,0.1,1.0,100,0.9,0.6,,0.1,2.0\n"
)


@pytest.fixture
def make(tmp_path):
    """`make(classes, paths, labels, guesses)`: a finished run of 8x8 test images, and its images."""

    def build(class_names=("cat", "dog", "owl"), paths=None, labels=(0, 0, 0, 1, 1, 2), guesses=(0, 1, 1, 1, 2, 2)):
        count = len(labels)
        paths = paths or [f"{i}.png" for i in range(count)]
        probabilities = np.full((count, len(class_names)), 0.1 / (len(class_names) - 1), dtype=np.float32)
        probabilities[np.arange(count), guesses] = np.linspace(0.9, 0.7, count)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        scored = ScoredImages(tuple(paths), np.array(labels), probabilities).at(0.5)
        pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8), dtype=np.uint8)
        samples = Samples(list(paths), scored.labels, arrays=pixels)
        run = RunDirectory(tmp_path / "run")
        run.path.mkdir()
        run.config_path.write_text("data:\n  source: photos\n")
        run.metrics_path.write_text(METRICS)
        write_json(run.class_names_path, {"classes": list(class_names)})
        rows = "".join(f"train/{name}.png,{name},train\n" for name in class_names if name.replace(" ", "").isalnum())
        run.splits_path.write_text(f"path,label,split\n{rows}")
        write_scored(run.scored_path("test"), scored, class_names)
        result = RunResult(
            spec=NetworkSpec("vit_tiny", len(class_names)), image_size=8, versions=versions(),
            parameters=1_234_567, flops=89_000_000, data="photos",
            num_images={"train": 90, "validation": 9, "test": count},
            fingerprints={"train": "a", "validation": "b", "test": samples.fingerprint()}, seed=7, epochs=2.0,
            steps=18, batch_size=10, seconds=12.0, images_per_second=345.0, device="cpu, 1 threads",
            precision="32-true", best_epoch=1, validation={"val/loss": 0.9}, temperature=0.5,
            metrics=with_intervals(scored, len(class_names)).to_dict(),
            uncalibrated=uncalibrated(scored, len(class_names)).to_dict(), mfu=0.1234,
        )  # fmt: skip
        result.write(run.result_path)
        return run, Source("photos", tuple(class_names), {"test": samples})

    return build


def page_of(run, source):
    write_run_report(run, source)
    return Page(run.report_path.read_text(encoding="utf-8"))


def check(page):
    """Nothing in the page but what the template puts there; nothing from elsewhere."""
    for tag, attributes in page.tags:
        assert set(attributes) <= ALLOWED[tag], (tag, attributes)
    assert not page.comments
    for image in page.of("img"):
        assert image["src"].startswith(("data:image/svg+xml;base64,", "data:image/png;base64,"))
    (policy,) = [meta["content"] for meta in page.of("meta") if "http-equiv" in meta]
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def pictures(page):
    return [image for image in page.of("img") if image["src"].startswith("data:image/png")]


@pytest.mark.parametrize("count", [200, 201])
def test_a_confusion_matrix_of_very_many_classes_is_left_out(make, count):
    names = [f"class {place}" for place in range(count)]
    run, source = make(names, labels=(0, 0, 0, count - 1), guesses=(1, 1, 0, 3))
    write_run_report(run, source)
    page = run.report_path.read_text(encoding="utf-8")
    check(Page(page))
    assert ("more than 200 classes is left out" in page) == (count > 200)
    assert "class 0 taken for class 1: 2 of 3" in page


def test_the_page_tells_the_run(make):
    run, source = make()
    page = page_of(run, source)
    check(page)
    assert sorted(os.listdir(run.path)) == sorted(
        ["classes.json", "config.yaml", "metrics.csv", "predictions", "report.html", "result.json", "splits.csv"]
    )
    headings = ["Metrics", "Training", "Classes", "Confusions", "Worst images", "Least confident images", "Calibration"]
    places = [page.text.index(f" {words} ") for words in [*headings, "How it was made"]]
    assert places == sorted(places)
    result = json.loads(run.result_path.read_text())
    ece, before = result["metrics"]["ece"], result["uncalibrated"]["ece"]
    for words in (
        "3 of 6 test images are predicted right: 50.00 %",
        "The most frequent mistake: 2 of 3 images of cat taken for dog.",
        "shows the best checkpoint, of epoch 2",
        "accuracy 50.00 %",
        f"calibration error {100 * ece['value']:.2f} %",
        f"{100 * before['value']:.2f} % {100 * before['chance']:.2f} by chance",
        "cat 1 3 33.33 6.15 to 79.23 100.00 0.500 2 0 dog (2)",
        "cat taken for dog : 2 of 3".replace(" :", ":"),
        "temperature 0.500 , fitted".replace(" ,", ","),
        "1,234,567 parameters, 89.0 million FLOPs for each image",
        "MFU 12.3 % of the measured matrix peak",
        "torch 2.",
        "source: photos",
    ):
        assert words in page.text, words


def test_its_pictures_are_the_images_in_the_right_place(make):
    run, source = make()
    page = page_of(run, source)
    wrong, worst, doubtful = 3, 6, 6
    assert len(pictures(page)) == wrong + worst + doubtful and len(page.of("img")) == len(pictures(page)) + 4
    for image in pictures(page):
        with Image.open(io.BytesIO(base64.b64decode(image["src"].partition(",")[2]))) as picture:
            index = int(image["alt"].removesuffix(".png"))
            assert np.array_equal(np.asarray(picture)[..., 0], source.splits["test"].arrays[index])
    names = [image["alt"] for image in pictures(page)]
    assert names[-6:] == [f"{i}.png" for i in (5, 4, 3, 2, 1, 0)]  # the least sure first
    assert set(names[3:6]) == {"1.png", "2.png", "4.png"}  # the largest losses are the mistakes


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(make, text):
    run, source = make((text, f"{text}2", "owl"), [f"{text}{i}" for i in range(6)])
    page = page_of(run, source)
    check(page)
    assert [len(page.of(tag)) for tag in ("html", "head", "body", "style", "title", "script")] == [1] * 5 + [0]
    if text.isprintable():
        assert page.text.count(text) >= 20


def test_a_browser_shows_hostile_names_and_runs_nothing(make, browser):  # noqa: F811
    script, image = HOSTILE[:2]
    run, source = make((script, image, "owl"), [f"{script}{i}" for i in range(3)] + [f"{image}{i}" for i in range(3)])
    write_run_report(run, source)
    shown = browser.new_page()
    shown.goto(run.report_path.as_uri())
    page = Page(shown.content())
    check(page)  # the browser's own tree, after it has run what it would run
    assert shown.title() == "vit_tiny on photos"
    assert page.text.count(script) >= 10 and page.text.count(image) >= 10
    assert len(page.of("img")) == 4 + 3 + 6 + 6


@pytest.mark.parametrize("what", ["no source", "other images", "no test images"])
def test_without_its_images_the_page_has_no_pictures(make, what):
    run, source = make()
    samples = source.splits["test"]
    others = {
        "no source": None,
        "other images": replace(source, splits={"test": replace(samples, labels=samples.labels[::-1].copy())}),
        "no test images": replace(source, splits={}),
    }
    page = page_of(run, others[what])
    check(page)
    assert not pictures(page) and "not where the run found them, or have changed" in page.text


def test_files_that_are_gone_have_no_picture(make, tmp_path):
    run, source = make()
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (300, 200), (200, 30, 30)).save(tmp_path / "photos" / "1.png")
    files = replace(source.splits["test"], root=tmp_path / "photos", arrays=None)
    write_run_report(run, replace(source, splits={"test": files}))
    html = run.report_path.read_text()
    images = [image for image in Page(html).of("img") if "jpeg" in image["src"]]
    assert {image["alt"] for image in images} == {"1.png"} and len(images) == 3
    with Image.open(io.BytesIO(base64.b64decode(images[0]["src"].partition(",")[2]))) as picture:
        assert picture.size == (128, 85)
    assert html.count("no picture") == 12


def test_a_run_without_a_mistake(make):
    page = page_of(*make(labels=(0, 1, 2), guesses=(0, 1, 2)))
    check(page)
    assert "Every test image is predicted right." in page.text and "most frequent mistake" not in page.text


def test_a_run_from_before_there_was_calibration(make):
    run, source = make()
    result = json.loads(run.result_path.read_text())
    del result["temperature"], result["uncalibrated"]
    write_json(run.result_path, result)
    page = page_of(run, source)
    check(page)
    assert "without temperature scaling" not in page.text and "temperature 1.000;" in page.text


def test_many_classes(make):
    names = [f"class{i}" for i in range(200)]
    page = page_of(*make(names, labels=list(range(200)), guesses=[i - i % 2 for i in range(200)]))
    check(page)
    assert "The 60 classes with the lowest F1 of 200." in page.text


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("result.json", "{"), ("result.json", "[]"), ("result.json", "{}"), ("classes.json", '{"classes": ["cat"]}'),
        ("predictions/test.csv", "path\n"), ("metrics.csv", "epoch\n1\n"),
    ],
)  # fmt: skip
def test_damaged_files_are_named(make, file, text):
    run, source = make()
    (run.path / file).write_text(text)
    with pytest.raises(DataError, match=r"damaged|not as its run wrote it"):
        write_run_report(run, source)
    assert not run.report_path.exists()


def test_a_run_that_has_not_finished(make):
    run, source = make()
    run.result_path.unlink()
    with pytest.raises(UsageError, match="not finished"):
        write_run_report(run, source)


def test_asked_twice_it_is_the_same(make):
    run, source = make()
    write_run_report(run, source)
    first = run.report_path.read_bytes()
    write_run_report(run, source)
    assert run.report_path.read_bytes() == first
