"""The page of a prediction: text stays text, whatever files and classes are called, and nothing is loaded or run."""

import base64
import io
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from tests.report.pages import Page
from vit.data.pixels.preprocess import Preprocess
from vit.errors import ResourceError
from vit.inference.prediction import Prediction
from vit.report import picture_page as module
from vit.report.picture_page import SQUARE, Gallery

ALLOWED = {
    "html": {"lang"}, "head": set(), "meta": {"charset", "http-equiv", "content", "name"}, "title": set(),
    "style": set(), "body": set(), "main": set(), "div": {"class"},
    "h1": set(), "h2": set(), "figure": {"title", "class"},
    "img": {"src", "alt", "loading"}, "a": {"href"}, "span": {"class"}, "figcaption": set(), "b": set(),
    "i": {"style"}, "small": set(), "table": set(), "tr": set(), "td": {"class"}, "p": {"class"},
    "fieldset": {"class"}, "label": set(), "input": {"type", "name", "id", "checked"},
}  # fmt: skip
HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", "</figcaption></main>",
    "javascript:alert(1)", "{{ 7*7 }}", "{% raw %}", "]]><!--", "&lt;b&gt;", "a\nb\x00\x1b[31m", "\u202egnp.exe",
    "é\udce9", "</title><script>alert(1)</script>", "</style><script>x</script>",
]  # fmt: skip


def check(page):
    for tag, attributes in page.tags:
        assert set(attributes) <= ALLOWED[tag], (tag, attributes)
    assert not page.comments
    for image in page.of("img"):
        assert image["src"].startswith("data:image/jpeg;base64,")
    for link in page.of("a"):
        assert re.fullmatch(r"[\w./~%-]+|https://[\w./~%:?=&-]*", link["href"], re.ASCII), link  # no quote
    for bar in page.of("i"):
        assert bar["style"].startswith("width:") and bar["style"].removeprefix("width:").removesuffix("%").isdigit()


def page_of(folder, rows, model="model.ckpt", thresholds=()):
    with Gallery(folder / "page.html", model, None, Preprocess(SQUARE), "", dict(thresholds)) as gallery:
        for row in rows:
            gallery.add(row if isinstance(row, Prediction) else one_class(*row))
    return Page((folder / "page.html").read_text(encoding="utf-8"))


def one_class(path, status, label, probability, error):
    """The prediction of a model that gives an image one class."""
    return Prediction(path, status, label, probability, ((label, probability),) if probability else (), error)


@pytest.fixture
def picture(tmp_path):
    image = Image.new("RGB", (300, 200), (200, 30, 30))
    extra = PngImagePlugin.PngInfo()
    extra.add_text("Comment", "secret place")
    image.save(tmp_path / "red.png", pnginfo=extra)
    return tmp_path / "red.png"


@pytest.mark.faults("H1")
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(tmp_path, picture, text):
    named = tmp_path / (text.replace("/", "-").replace("\0", "") + ".png")
    named.write_bytes(picture.read_bytes())
    rows = [(str(named), "ok", text, 0.75, ""), (f"{text}.png", "unreadable", "", None, text)]
    page = page_of(tmp_path, rows, model=text)
    check(page)
    figures = page.of("figure")
    assert len(figures) == 2 and len(page.of("img")) == 1
    assert [len(page.of(tag)) for tag in ("html", "head", "body", "main", "style", "title", "script")] == [1] * 6 + [0]
    if text.isprintable():
        assert figures[1]["title"] == f"{text}.png"
        assert page.of("img")[0]["alt"] == named.name
        assert sum(text in data for data in page.words) >= 3  # title, heading and label


@pytest.mark.faults("H1")
@given(st.text(), st.text(), st.text())
def test_any_text_stays_text(tmp_path_factory, path, label, error):
    page = page_of(tmp_path_factory.mktemp("page"), [(path, "unreadable", label, 0.5, error)], model=label)
    check(page)
    assert len(page.of("figure")) == 1 and not page.of("img")


def test_a_probability_below_1_is_not_shown_as_all(tmp_path):
    page = page_of(tmp_path, [(f"{share}.png", "ok", "red", share, "") for share in (1.0, 0.9999, 0.6)])
    assert [data for data in page.words if data.endswith(" %")] == ["60.0 %", "> 99.9 %", "100.0 %"]


def test_a_page_that_appeared_meanwhile_stays(tmp_path):
    with pytest.raises(ResourceError, match=r"another program has made .*page.html meanwhile"):  # noqa: SIM117
        with Gallery(tmp_path / "page.html", "m.ckpt", None, Preprocess(SQUARE), "", {}):
            (tmp_path / "page.html").write_text("mine")
    assert (tmp_path / "page.html").read_text() == "mine"


@pytest.mark.faults("H1")
def test_nothing_may_be_loaded_or_run(tmp_path, picture):
    page = page_of(tmp_path, [(str(picture), "ok", "red", 0.9, "")])
    (policy,) = [meta["content"] for meta in page.of("meta") if "http-equiv" in meta]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {"default-src": "'none'", "img-src": "data:", "style-src": "'unsafe-inline'"}


@pytest.mark.faults("H5")
def test_thumbnails_are_made_anew(tmp_path, picture):
    page = page_of(tmp_path, [(str(picture), "ok", "red", 0.9, "")])
    (image,) = page.of("img")
    data = base64.b64decode(image["src"].partition(",")[2])
    with Image.open(io.BytesIO(data)) as thumbnail:
        assert thumbnail.format == "JPEG" and thumbnail.size == (SQUARE, SQUARE)
        red, green, blue = thumbnail.getpixel((70, 70))
        assert red > 180 and max(green, blue) < 60
    assert b"secret place" not in data and "secret place" not in (tmp_path / "page.html").read_text()


def test_a_file_that_is_gone_has_no_picture(tmp_path):
    page = page_of(tmp_path, [(str(tmp_path / "gone.png"), "ok", "red", 0.9, "")])
    text = "".join(page.words)
    assert not page.of("img") and "no picture" in text and "1 file." in text


def test_a_large_folder_shows_the_least_certain_files_and_counts_all(tmp_path, picture, monkeypatch):
    monkeypatch.setattr(module, "MAX_PICTURES", 3)
    bad = [("x.txt", "not_image", "", None, "no image")] * 2
    rows = [(str(picture), "ok", "red", 0.9, ""), *bad, *((str(picture), "ok", "blue", p, "") for p in (0.8, 0.3, 0.5))]
    page = page_of(tmp_path, rows)
    text = " ".join("".join(page.words).split())
    assert "6 files; 2 without a label. The 3 least certain ones are shown, the lowest probability first." in text
    assert re.findall(r"([\d.]+) %red.png", text) == ["30.0", "50.0", "80.0"]
    assert "all blue3 red1" in text


def test_a_label_hides_the_pictures_of_others(tmp_path, picture):
    rows = [(str(picture), "ok", name, 0.9, "") for name in ("cat", "dog", "cat")]
    page = page_of(tmp_path, [*rows, (str(picture), "novel", "", 0.95, "unlike")])
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [one["id"] for one in page.of("input")] == ["all", "f0", "f1"]
    assert [one["class"].split() for one in page.of("figure")] == [["c0"], ["c1"], ["c0"], []]
    rules = re.sub(r"\s+", " ", html)
    assert "body:has(#f0:checked) figure:not(.c0), body:has(#f1:checked) figure:not(.c1) { display: none; }" in rules


def test_more_labels_than_filters_are_counted_in_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_FILTERS", 2)
    page = page_of(tmp_path, [(f"{name}.png", "ok", name, 0.9, "") for name in "aab"] + [("c.png", "ok", "c", 0.9, "")])
    assert len(page.of("input")) == 3
    assert [data for data in page.words if data in ("c", "1")][-2:] == ["c", "1"]


def test_several_labels_are_all_shown_and_none_counts_as_missing(tmp_path, picture):
    top = ("cat", 0.9), ("dog", 0.8)
    of_images = ((("cat", "dog"), 0.97), ((), 0.5))  # the first is unlike the training images, but gets labels
    rows = [Prediction(str(picture), "ok", top=top, labels=labels, novelty=one) for labels, one in of_images]
    page = page_of(tmp_path, rows, thresholds={"cat": 0.5, "dog": 0.5})
    text = "".join(page.words)
    assert "cat | dog" in text and "(no label)" in text and "without a label" not in text
    assert len(page.of("img")) == 2 and text.count("unlike the training images") == 1


def test_of_several_labels_the_images_nearest_to_a_threshold_come_first(tmp_path, picture, monkeypatch):
    monkeypatch.setattr(module, "MAX_PICTURES", 3)
    places = {"sure": 0.4, "unsure": 0.01, "odd": 0.2, "even": 0.0}
    rows = [Prediction(f"{name}.png", "ok", top=(("cat", 0.5 + distance),)) for name, distance in places.items()]
    bad = Prediction("x.txt", "not_image", error="no image")
    page = page_of(tmp_path, [bad, *rows], thresholds={"cat": 0.5})
    text = " ".join("".join(page.words).split())
    words = "The 3 least certain ones are shown, the image with a probability nearest to its threshold first."
    assert words in text and "lowest probability" not in text
    assert [one["title"] for one in page.of("figure")] == ["even.png", "unsure.png", "odd.png"]


def test_pictures_open_their_files_wherever_they_lie(tmp_path, picture):
    odd = picture.rename(tmp_path / "javascript:a b#?.png")
    (tmp_path / "out").mkdir()
    page = page_of(tmp_path / "out", [(str(odd), "ok", "red", 0.9, "")])
    assert page.of("a") == [{"href": "../javascript%3Aa%20b%23%3F.png"}]


def test_a_page_that_is_interrupted_is_still_a_page(tmp_path, picture):
    def add_and_stop():
        yield (str(picture), "ok", "red", 0.9, "")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        page_of(tmp_path, add_and_stop())
    html = (tmp_path / "page.html").read_text()
    check(Page(html))
    assert html.rstrip().endswith("</html>")


def test_odd_bytes_in_names(tmp_path, picture):
    odd = os.path.join(os.fsencode(tmp_path), b"caf\xe9.png")
    picture.rename(os.fsdecode(odd))
    page = page_of(tmp_path, [(os.fsdecode(odd), "ok", "red", 0.9, "")])
    check(page)
    assert page.of("img")[0]["alt"] == "caf?.png"
