"""The page of a study: all of its numbers, text that stays text, nothing loaded or run, written whole."""

import base64
import hashlib
import os
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.conftest import leave_blank
from tests.report.pages import Page
from vit.atomic_files import write_json
from vit.errors import DataError
from vit.report.studies import study_page as module
from vit.report.studies.compare_page import write_crossval_page
from vit.report.studies.study_page import write_study_report
from vit.study.answer.summary import to_json
from vit.study.crossval import CrossvalResult, fold_accuracy
from vit.study.fold_table import FoldPredictions

ALLOWED = {
    "html": {"lang"}, "head": set(), "meta": {"charset", "http-equiv", "content", "name"}, "title": set(),
    "style": set(), "body": set(), "main": set(),
    "h1": set(), "h2": {"id"}, "h3": set(), "p": {"class", "data-filters", "hidden"}, "div": {"class", "tabindex"},
    "figure": {"tabindex"}, "img": {"src", "alt"}, "figcaption": set(), "a": {"href"}, "table": {"class", "id"},
    "thead": set(),
    "tbody": set(), "tr": set(), "th": {"class"}, "td": {"class", "colspan", "data-value"}, "small": set(), "i": set(),
    "details": {"class", "open"},
    "summary": set(), "pre": {"id", "tabindex"}, "script": set(), "b": set(), "label": set(),
    "button": {"type", "data-copies", "hidden"}, "input": {"type"}, "span": {"role"},
    "sup": set(), "br": set(), "ul": set(), "li": set(), "code": set(),
}  # fmt: skip
HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</td></table>", "{{ 7*7 }}", "{% raw %}",
    "]]><!--", "&lt;b&gt;", "a\nb\x00\x1b[31m", "\u202egnp.exe", "é\udce9", "</title></style>", "$\\frac{", "_x",
]  # fmt: skip

DRAWN = {"test_the_page_is_complete", "test_nothing_may_be_loaded_or_run"}


@pytest.fixture(autouse=True)
def blank(request, monkeypatch):
    """Figures are empty but in the tests of `DRAWN`: test_study_figures.py draws them with any names and numbers."""
    if request.function.__name__ not in DRAWN:
        leave_blank(monkeypatch)


def page_of(findings, folder):
    write_study_report(findings, folder)
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def check(page):
    """Nothing in the page but what the template puts there; nothing from elsewhere."""
    for tag, attributes in page.tags:
        assert set(attributes) <= ALLOWED[tag], (tag, attributes)
        assert attributes.get("href", "#").startswith("#")
        assert attributes.get("src", "data:").startswith("data:")
    assert not page.comments
    for image in page.of("img"):
        kind, _, data = image["src"].partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(data)).tag.endswith("svg")


def test_the_page_is_complete(study, tmp_path):
    findings = study(failed=2, target=0.97)
    page = page_of(findings, tmp_path)
    check(page)
    assert sorted(os.listdir(tmp_path)) == ["curve.png", "report.html"]
    with Image.open(tmp_path / "curve.png") as picture:
        picture.load()
        assert picture.format == "PNG" and picture.width > 1000
    assert len(page.of("img")) == 2
    headings = ["Errors", "Differences", "Price", "Cells that failed", "Forecasts", "Protocol"]
    places = [page.text.index(f" {words} ", page.text.index("Test error in %") - 10) for words in headings]
    assert places == sorted(places)
    first = page.text.index("Below about 1,200 images resnet10_small is ahead")
    assert first < page.text.index("2,000 optimizer steps at every size") < page.text.index("Test error in %")
    for series in findings.series:
        assert f"{series.parameters:,}" in page.text
        for point in series.points:
            assert f"{100 * point.mean.value:.2f}" in page.text
            assert f"{100 * point.mean.low:.2f} to {100 * point.mean.high:.2f}; 5 seeds" in page.text
    for words in (
        "2,000 optimizer steps at every size",  # caption and protocol
        '"Unclear since 300" means',
        "From the sizes up to 3,000 this method would have said 10.0 % (8.0 to 12.0)",
        "20,000 (forecast)",
        "below the margin, 2 points",
        "other draws from your 57,000 training images",
        "cells/a/seed1/log.txt",
        "training diverged",
        "steps:2000",
        "validation: 3,000",
        "torch: 2.14.1",
        "< 0.001",
        "resnet10_small 0.40, 0.40",
    ):
        assert words in page.text, words


@pytest.mark.faults("H1")
@pytest.mark.parametrize(("sizes", "places"), [((500, 2000, 8000), 6), ((500,), 3)])
def test_every_table_and_figure_names_the_budget(study, tmp_path, sizes, places):
    page = page_of(study(sizes=sizes), tmp_path)
    assert page.text.count("Budget: 2,000 optimizer steps at every size.") == places  # the rest is the protocol


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ((), "resnet10_small; 5 sizes"),
        (("timm:a.in1k", "/home/me/b.safetensors"), "resnet10_small; with b.safetensors and timm:a.in1k; 5 sizes"),
        ([f"weights/mae_seed{seed}.pth" for seed in range(5)], "resnet10_small; with 5 files of weights; 5 sizes"),
    ],
)
def test_the_page_begins_with_the_weights(study, tmp_path, files, words):
    findings = study()
    findings = replace(findings, protocol={**findings.protocol, "weights": dict.fromkeys(files, "0123456789abcdef")})
    assert words in page_of(findings, tmp_path).text


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        (("vit_tiny_patch16_224",) * 2, "vit_tiny_patch16_224: lr=0.001; lr=0.003; 5 sizes"),
        (("vit_tiny_patch16_224", "resnet18"), " lr=0.001; lr=0.003; 5 sizes"),
        (("lr=0.001", "lr=0.003"), " lr=0.001; lr=0.003; 5 sizes"),
    ],
)
def test_the_page_begins_with_the_network_that_all_series_share(study, tmp_path, networks, words):
    findings = study(names=("lr=0.001", "lr=0.003"))
    series = [replace(one, network=network) for one, network in zip(findings.series, networks, strict=True)]
    assert words in page_of(replace(findings, series=series), tmp_path).text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(study, tmp_path, text):
    findings = study(names=(text, "resnet"), failed=1, data=text)
    findings = replace(findings, answer=[text, text], protocol={**findings.protocol, text: text, "budget": text})
    findings = replace(findings, failed=[replace(findings.failed[0], error=text)])
    page = page_of(findings, tmp_path)
    check(page)
    assert [len(page.of(tag)) for tag in ("html", "head", "body", "style", "title", "script")] == [1] * 6
    if text.isprintable():
        assert page.text.count(text) >= 10


@pytest.mark.faults("H1")
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1))
def test_any_text_stays_text(study, tmp_path_factory, text):
    findings = study(names=(text, text + "2"), sizes=(100, 1000), failed=1)
    check(page_of(replace(findings, answer=[text, text]), tmp_path_factory.mktemp("page")))


@pytest.mark.faults("H1")
def test_nothing_may_be_loaded_or_run(study, tmp_path):
    page = page_of(study(), tmp_path)
    (policy,) = [meta["content"] for meta in page.of("meta") if "http-equiv" in meta]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    (script,) = re.findall(r"<script>(.*)</script>", page.html, re.DOTALL)
    allowed = f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
    assert rules == {
        "default-src": "'none'", "img-src": "data:", "style-src": "'unsafe-inline'", "script-src": allowed
    }  # fmt: skip
    html = (tmp_path / "report.html").read_text()
    assert "http://" not in html and "https://" not in html and "@import" not in html and "url(" not in html


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fitted": False}, "no forecast: the lengths of the trainings grew in another way"),
        ({"sizes": (100, 1000)}, "2,000 (forecast)"),
        ({"seeds": 1}, "1 seed"),
        ({"sizes": (500,)}, "1 size,"),
        ({"sizes": (500,), "names": ("a", "b", "c", "d")}, "Test error of every series with 500 training images"),
        ({"sizes": (500,), "seeds": 1}, "1 seed"),
        ({"sizes": (500,), "names": ("alone",)}, "alone; 1 size"),
        ({"names": ("alone",)}, "alone; 5 sizes"),
        ({"names": ("a", "b", "c", "d")}, "a against d"),
    ],
    ids=str,
)
def test_studies_of_any_shape_have_a_page(study, tmp_path, options, words):
    page = page_of(study(**options), tmp_path)
    check(page)
    assert words in page.text
    assert "nan" not in page.text.lower() and "None" not in page.text


def test_the_answer_stands_first_and_the_rest_is_a_list(study, tmp_path):
    findings = replace(
        study(),
        answer=["Use a.", "Yes."],
        warnings=["It guesses."],
        conditions="The budget was 5.",
        next_steps=["Try b."],
    )
    page = page_of(findings, tmp_path)
    check(page)
    order = [
        page.text.index(words) for words in ("Use a.", "Yes.", "WARNING: It guesses.", "The budget was 5.", "Try b.")
    ]
    assert order == sorted(order)
    assert "What to do next: - Try b." in page.text, "the summary has it too"
    assert "Warning: It guesses." in page.text, "an answer is sent with its warnings"
    assert "Study of fashion_mnist: 100, 300, 1,000, 3,000, 10,000 training images" in page.text


def test_one_seed_has_no_interval_and_no_test(study, tmp_path):
    page = page_of(study(seeds=1), tmp_path)
    assert "A point with one seed has none." in page.text
    assert "0.310" not in page.text and "0.930" not in page.text


def test_a_series_that_misses_a_size(study, tmp_path):
    findings = study()
    short = replace(findings.series[0], points=findings.series[0].points[:3])
    page = page_of(replace(findings, series=[short, findings.series[1]]), tmp_path)
    check(page)


def test_a_page_is_written_whole_or_not_at_all(study, tmp_path, monkeypatch):
    page_of(study(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(_):
        raise ValueError("no picture")

    monkeypatch.setattr(module, "gaps", fail)
    with pytest.raises(ValueError, match="no picture"):
        write_study_report(study(seeds=2), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("sizes", "is_all"), [((100, 57000), True), ((100, 1000), False)])
def test_a_size_with_all_images_says_what_its_intervals_do_not_cover(study, tmp_path, sizes, is_all):
    text = page_of(study(sizes=sizes), tmp_path).text
    words = "With all 57,000 images every seed learns the same images, so the intervals at this size cover the seed"
    assert (words in text) is is_all and "every seed fits the same head" not in text


def test_folds_are_not_said_to_share_their_images(study, tmp_path):
    """The page of a study with folds said "all seeds are tested on the same images"."""
    findings = study(sizes=(100, 57000))
    text = page_of(replace(findings, protocol={**findings.protocol, "folds": 5}), tmp_path).text
    assert "every seed learns the same images" not in text and "tested on the same images" not in text
    assert "Each seed learns and is tested on other images" in text


def test_confusions_that_a_cross_validation_does_not_list_are_counted(tmp_path):
    labels, shift = (each.ravel() for each in np.mgrid[:8, :8])  # each class is taken for each other one, once
    probabilities = np.eye(8, dtype=np.float32)[(labels + shift) % 8]
    names, folds, groups = tuple("abcdefgh"), 1 + labels % 2, ("",) * 64
    predictions = FoldPredictions(names, tuple(map(str, range(64))), labels, probabilities, folds, groups)
    description = {"data": "letters", "network": "cnn", "division": "by class"}
    accuracy = fold_accuracy(predictions.correct, folds)
    found = CrossvalResult(description, predictions, accuracy, (tmp_path / "a", tmp_path / "b"), 0)
    write_crossval_page(found, tmp_path / "report.html")
    text = Page((tmp_path / "report.html").read_text()).text
    assert "Images with rarer confusions: 16." in text  # 56 less 40
    assert "Warning: not shown to be better than guessing: the balanced accuracy is 12.50 %" in text


def test_the_preliminary_answer_of_frozen_networks_is_shown_and_linked(study, tmp_path):
    findings, folder = study(), tmp_path / "frozen"
    for cells in ({}, {"cells": "4 of 4 finished"}):  # `vit report` takes no folder of a preliminary answer
        protocol = {key: value for key, value in findings.protocol.items() if key != "cells"} | cells
        page = page_of(replace(findings, protocol=protocol), tmp_path)
        assert ("vit report STUDY --target 0.95" in page.text) == bool(cells) and "Frozen networks" not in page.text
    folder.mkdir()
    write_study_report(findings, folder)
    summary = {**to_json(findings), "answer": ["Use <b>a</b> first.", "Yes."], "trend": ""}
    write_json(folder / "summary.json", summary)
    page = page_of(findings, tmp_path)
    assert "Use <b>a</b> first." in page.text
    assert {"href": "frozen/report.html"} in page.of("a")
    assert any(image["src"].startswith("data:image/png") for image in page.of("img"))
    (folder / "summary.json").write_text("[]")
    with pytest.raises(DataError, match="move this folder elsewhere"):
        write_study_report(findings, tmp_path)
