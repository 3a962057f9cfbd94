"""The page of a run: its numbers and pictures, text that stays text, also in a real browser."""

import base64
import hashlib
import io
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.browser import browser  # noqa: F401  a fixture
from tests.conftest import leave_blank
from tests.report.pages import Page
from vit.atomic_files import write_json
from vit.checkpoints.result import RunResult, versions
from vit.checkpoints.run import RunDirectory
from vit.data.core.samples import Samples, Source
from vit.errors import DataError, UsageError
from vit.inference.metrics.metrics import uncalibrated, with_intervals
from vit.inference.scores.scored_images import ScoredImages
from vit.models.spec import NetworkSpec
from vit.report.page.page import templates
from vit.report.run.run_page import write_run_report
from vit.report.tables.run_tables import facts

ALLOWED = {
    "html": {"lang"}, "head": set(), "meta": {"charset", "http-equiv", "content", "name"}, "title": set(),
    "style": set(), "body": set(), "main": set(),
    "h1": set(), "h2": {"id"}, "h3": set(), "p": {"class", "data-filters", "hidden"}, "div": {"class", "tabindex"},
    "figure": {"class", "tabindex"}, "img": {"src", "alt", "loading"}, "figcaption": set(), "table": {"class", "id"},
    "thead": set(), "tbody": set(), "tr": set(), "th": {"class"}, "td": {"class", "data-value", "style"},
    "small": set(), "b": set(), "span": {"class", "id", "role"}, "details": {"class"}, "summary": set(),
    "pre": {"id", "tabindex"}, "a": {"href"}, "section": {"class", "id"}, "script": set(), "label": set(),
    "input": {"type"}, "button": {"type", "data-copies", "hidden"},
}  # fmt: skip
HOSTILE = [
    "<script>document.title='owned'</script>", '"><img src=x onerror="document.title=\'owned\'">', "</td></table>",
    "{{ 7*7 }}", "{% raw %}", "]]><!--", "&lt;b&gt;", "a\nb\x00\x1b[31m", "\u202egnp.exe", "é\udce9",
    "</title></style>", "$\\frac{",
]  # fmt: skip
DRAWN = {
    "test_the_page_tells_the_run", "test_asked_twice_it_is_the_same",
    "test_a_browser_shows_hostile_names_and_runs_nothing",
}  # fmt: skip
METRICS = (
    "epoch,step,lr,train/loss,train/images_per_second,val/loss,val/acc1,val/acc5,val/ece,seconds\n"
    "0,9,0.1,2.0,100,1.9,0.5,,0.1,1.0\n1,18,0.1,1.0,100,0.9,0.6,,0.1,2.0\n"
)


@pytest.fixture(autouse=True)
def blank(request, monkeypatch):
    """Figures are empty but in the tests of `DRAWN`: test_figures.py draws them with any names and numbers."""
    if request.function.__name__ not in DRAWN:
        leave_blank(monkeypatch)


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
        preprocess = "{window: null, channels: 3, color_profiles: convert}"
        run.config_path.write_text(f"data:\n  source: photos\nmodel:\n  preprocess: {preprocess}\n")
        run.metrics_path.write_text(METRICS)
        write_json(run.class_names_path, {"classes": list(class_names)})
        names = [name for name in class_names if name.replace(" ", "").isalnum()]
        rows = "".join(f"train/{name}.png,{name},train,0,{name}.png\n" for name in names)
        run.splits_path.write_text(f"path,label,split,content,name\n{rows}")
        scored.write(run.scored_path("test"), class_names)
        result = RunResult(
            spec=NetworkSpec("vit_tiny", len(class_names)), image_size=8, versions=versions(),
            parameters=1_234_567, flops=89_000_000, data="photos",
            num_images={"train": 90, "validation": 9, "test": count},
            fingerprints={"train": "a", "validation": "b", "test": samples.fingerprint()}, seed=7, epochs=2.0,
            steps=18, batch_size=10, seconds=12.0, images_per_second=345.0, device="cpu, 1 thread",
            precision="32-true", best_epoch=1, validation={"val/loss": 0.9}, temperature=0.5,
            metrics=with_intervals(scored, len(class_names)).to_dict(),
            uncalibrated=uncalibrated(scored).to_dict(), mfu=0.1234,
        )  # fmt: skip
        result.write(run.result_path)
        return run, Source("photos", tuple(class_names), {"test": samples})

    return build


def page_of(run, source, result=None):
    write_run_report(run, source, result)
    return Page(run.report_path.read_text(encoding="utf-8"))


def check(page):
    """Nothing in the page but what the template puts there; nothing from elsewhere."""
    for tag, attributes in page.tags:
        assert set(attributes) <= ALLOWED[tag], (tag, attributes)
    assert not page.comments
    for image in page.of("img"):
        assert image["src"].startswith(("data:image/svg+xml;base64,", "data:image/png;base64,"))
    (policy,) = [meta["content"] for meta in page.of("meta") if "http-equiv" in meta]
    (script,) = re.findall(r"<script>(.*)</script>", page.html, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    places = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {link["href"] for link in page.of("a")} <= {f"#{place}" for place in places}
    assert all(cell["style"].startswith("--shade:") for cell in page.of("td") if "style" in cell)


def pictures(page):
    return [image for image in page.of("img") if image["src"].startswith("data:image/png")]


def test_unreadable_images_that_are_not_listed_are_counted(make):
    run, _ = make()
    result = replace(RunResult.read(run.result_path), left_out={"test": {f"{i}.jpg": "damaged" for i in range(23)}})
    lines = [value for name, value in facts(result) if name == "unreadable image"]
    assert len(lines) == 21 and lines[0] == "test: 0.jpg: damaged" and lines[-1] == "3 more"
    few = replace(result, left_out={"test": {"0.jpg": "damaged"}})
    assert [value for name, value in facts(few) if name == "unreadable image"] == ["test: 0.jpg: damaged"]


@pytest.mark.parametrize(
    ("count", "words"), [(100, "By class (60 of 100, lowest first), where"), (60, "By class, where")]
)
def test_a_table_of_some_classes_says_so(count, words):
    classes = [(f"class{place}", ["90.0"]) for place in range(min(count, 60))]
    unsure = {"thresholds": [], "sets": [{"coverage": "90", "measured": ("", "")}], "set_classes": classes}
    page = templates.get_template("run_calibration.html").render(unsure=unsure | {"num_validation": 9}, temperature=1,
                                                                 num_classes=count)  # fmt: skip
    assert words in page


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
        "cat 1 3 33.33 1.71 to 88.15 100.00 0.500 2 0 dog (2)",
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
    cells, worst, doubtful = 6, 6, 6
    assert len(pictures(page)) == cells + worst + doubtful and len(page.of("img")) == len(pictures(page)) + 2
    for image in pictures(page):
        with Image.open(io.BytesIO(base64.b64decode(image["src"].partition(",")[2]))) as picture:
            index = int(image["alt"].removesuffix(".png"))
            assert np.array_equal(np.asarray(picture)[..., 0], source.splits["test"].arrays[index])
    names = [image["alt"] for image in pictures(page)]
    assert names[-6:] == [f"{i}.png" for i in (5, 4, 3, 2, 1, 0)]  # the least sure first
    assert set(names[6:9]) == {"1.png", "2.png", "4.png"}  # the largest losses are the mistakes
    cells = {attributes["id"]: attributes["class"] for attributes in page.of("section")}
    assert cells == {
        "images-0-0": "cell", "images-1-1": "cell", "images-2-2": "cell",
        "images-0-1": "cell open t0 p1", "images-1-2": "cell open t1 p2",
    }  # fmt: skip
    assert list(cells)[:3] == ["images-0-0", "images-1-1", "images-2-2"], "hidden images stand right below the matrix"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(make, text):
    run, source = make((text, f"{text}2", "owl"), [f"{text}{i}" for i in range(6)])
    page = page_of(run, source)
    check(page)
    assert [len(page.of(tag)) for tag in ("html", "head", "body", "style", "title", "script")] == [1] * 6
    if text.isprintable():
        assert page.text.count(text) >= 20


@pytest.mark.slow
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
    assert len(page.of("img")) == 3 + 6 + 6 + 6


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
    assert {image["alt"] for image in images} == {"1.png"} and len(images) == 3, (
        "in its cell, among the worst and the least confident"
    )
    with Image.open(io.BytesIO(base64.b64decode(images[0]["src"].partition(",")[2]))) as picture:
        assert picture.size == (128, 85)
    assert html.count("no picture") == 15


def test_a_number_opens_its_images_without_a_script(make, browser):  # noqa: F811
    run, source = make()
    write_run_report(run, source)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(run.report_path.as_uri())

    def shown():
        return set(page.locator("section:visible h3").all_inner_texts())

    mistakes = {"cat taken for dog: 2 of 3", "dog taken for owl: 1 of 2"}
    assert shown() == mistakes
    page.locator(".matrix td a[href='#images-1-1']").click()
    assert shown() == mistakes | {"dog, predicted right: 1 of 2"}
    assert page.locator("section:visible img[alt='3.png']").count() == 1
    assert not page.locator("button:visible, input:visible").count(), "what needs a script is not shown"
    context.close()


@pytest.mark.slow
def test_missed_images_of_a_class_are_opened_together(make, browser):  # noqa: F811
    labels = [label for label in range(12) for _ in range(3)]
    guesses = [(label + turn) % 12 for label in range(12) for turn in (1, 1, 2)]
    run, source = make([f"class{place}" for place in range(12)], labels=labels, guesses=guesses)
    write_run_report(run, source)
    page = browser.new_page()
    page.goto(run.report_path.as_uri())
    found = page.locator("section.t9:visible h3")
    assert found.count() == 0
    page.locator("a[href='#missed-9']").click()
    assert found.all_inner_texts() == ["class9 taken for class10: 2 of 3", "class9 taken for class11: 1 of 3"]
    page.locator("a[href='#false-9']").click()
    texts = page.locator("section.p9:visible h3").all_inner_texts()
    assert texts == ["class8 taken for class9: 2 of 3", "class7 taken for class9: 1 of 3"]
    page.get_by_role("searchbox").fill("class9 class11")
    assert page.locator("#class-table tbody tr:visible").count() == 1
    page.close()


def test_pictures_of_cells_are_bounded(make):
    rng = np.random.default_rng(0)
    labels, guesses = rng.integers(0, 30, 4000).tolist(), rng.integers(0, 30, 4000).tolist()
    page = page_of(*make([f"class{place}" for place in range(30)], labels=labels, guesses=guesses))
    check(page)
    assert len(pictures(page)) <= 400 + 24 + 24
    assert "more are in predictions/test.csv. These have the largest loss." in page.text


def test_the_summary_can_be_copied(make, browser):  # noqa: F811
    run, source = make()
    write_run_report(run, source)
    page = browser.new_page()
    page.goto(run.report_path.as_uri())
    page.get_by_text("A summary to send").click()
    text = page.locator("#summary").inner_text()
    assert text.splitlines()[:3] == [
        "vit_tiny on photos",
        "Accuracy: 50.00 % (95 % interval 18.76 to 81.24), 3 of 6 test images",
        "Most frequent mistake: cat taken for dog, 2 of 3 images",
    ]
    assert "What to do next:" in text and str(run.path.parent) not in text
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    page.close()


def test_a_run_without_a_mistake(make):
    page = page_of(*make(labels=(0, 1, 2), guesses=(0, 1, 2)))
    check(page)
    assert "All test images are predicted right." in page.text and "most frequent mistake" not in page.text


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
    assert len(re.findall(r"class\d+ taken for class\d+: 1 of 1", page.text)) == 100, "every mistake has its image"


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


@pytest.mark.parametrize("key", ["versions", "fingerprints"])
def test_a_damaged_fact_of_a_result_is_named(make, key):
    run, source = make()
    write_json(run.result_path, {**json.loads(run.result_path.read_text()), key: []})
    with pytest.raises(DataError, match="damaged"):
        write_run_report(run, source)


def test_a_run_that_has_not_finished(make):
    run, source = make()
    run.result_path.unlink()
    with pytest.raises(UsageError, match="not finished"):
        write_run_report(run, source)


@pytest.mark.slow
def test_asked_twice_it_is_the_same(make):
    run, source = make()
    write_run_report(run, source)
    first = run.report_path.read_bytes()
    write_run_report(run, source)
    assert run.report_path.read_bytes() == first


def test_a_page_without_test_images_says_that_its_images_chose_the_checkpoint(make):
    run, source = make()
    run.scored_path("test").rename(run.scored_path("validation"))
    result, images = run.finished_result(), {"train": 90, "validation": 6}
    untested = replace(result, num_images=images, metrics={}, uncalibrated={}, best_metric="acc1")
    page = page_of(run, source, untested)
    assert "3 of 6 validation images (which chose the checkpoint) are predicted right: 50.00 %" in page.text
    assert "their accuracy is too high on average: --data.test 0.1" in page.text and "Metrics" not in page.text
    last = page_of(run, source, replace(untested, best_metric="last"))
    assert "3 of 6 validation images are predicted right: 50.00 %" in last.text and "--data.test" not in last.text
