"""Every page in a real browser: readable for all (axe-core finds nothing), as wide as a phone, and without errors."""

import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser import browser  # noqa: F401  a fixture
from tests.runs import trained
from vit.report.studies.study_page import write_study_report

PAGES = (
    "run", "labels", "gallery", "explain", "inspect", "study", "crossval", "pretrain", "runs",
    "evaluation", "several", "compare", "check",
)  # fmt: skip
TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--batch_size", 8,
    "--wandb", "off", "--data.num_workers", 0,
)  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory, vit, digits_run, labels_run, mixed, colors, study):
    """{name: file} of one page of each kind, written by its command."""
    out = tmp_path_factory.mktemp("pages")
    picture = colors / "blue" / "00.png"
    for command in (
        ("predict", digits_run.path, mixed, "--gallery", "--output", out / "gallery.csv"),
        ("explain", digits_run.path, picture, "--output", out / "explain"),
        ("inspect", digits_run.path, picture, "--output", out / "inspect"),
        ("crossval", colors, "--folds", 2, "--jobs", 1, *TINY, "--optim.steps", 6, "--out", out / "crossval"),
        ("evaluate", digits_run.path, "--output", out / "evaluation"),
        ("evaluate", labels_run.path, "--output", out / "several"),
        ("pretrain", colors, *TINY, "--epochs", 1, "--out", out / "pretrain"),
    ):
        vit(*command, drawn=True).ok()
    assert vit("runs", out, "--page", out / "runs.html").code == 0
    other = trained(out / "other", "digits", *TINY, "--optim.steps", 9, "--seed", 4)
    assert vit("compare", digits_run.path, other, "--page", out / "compare.html").code == 0
    photos = out / "photos"
    shutil.copytree(colors, photos)
    shutil.copy(photos / "blue" / "00.png", photos / "red" / "copy.png")
    (photos / "red" / "broken.png").write_bytes(b"no image")
    assert vit("data", "check", photos, "--page", out / "check.html", "--output", out / "list.csv").code == 5
    write_study_report(study(failed=2, target=0.97), out)
    found = {"run": digits_run.path / "report.html", "labels": labels_run.path / "report.html"}
    found |= {"gallery": out / "gallery.html", "runs": out / "runs.html", "study": out / "report.html"}
    found |= {name: out / f"{name}.html" for name in ("compare", "check")}
    for name in ("evaluation", "several", "explain", "inspect", "crossval", "pretrain"):
        (found[name],) = (path for path in (out / name).rglob("*.html"))
    return found


def look(browser, file, width, scheme):  # noqa: F811
    """Open a page as a telephone or a desk shows it: it fits, asks for nothing, and axe-core finds no fault."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: errors.append(request.url) if request.url.startswith("http") else None)
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page).response["violations"]
    context.close()
    assert not errors
    assert not found, [(one["id"], one["help"], [node["html"][:150] for node in one["nodes"][:3]]) for one in found]


def test_the_page_of_a_run_is_for_everyone(browser, digits_run):  # noqa: F811
    look(browser, digits_run.path / "report.html", 390, "dark")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_for_everyone(browser, pages, name, width, scheme):  # noqa: F811
    look(browser, pages[name], width, scheme)
