"""The documentation site: generated pages are complete, and a page that loads a file from elsewhere is found.

`make docs`, which `make check` runs, builds the site and checks every link and anchor in it.
"""

import re
import sys
from functools import partial

import pytest
import yaml

import vit
from tests.processes import ROOT


@pytest.fixture(scope="module")
def hooks():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import site_hooks
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return site_hooks


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img src="http://example/x.png">',
        '<img srcset="x.png 1x, https://example/x.png 2x">',
        '<p style="background: url(https://example/x.png)">',
        "<style>@import 'https://example/x.css'</style>",
        '<pre class="mermaid">graph</pre>',
    ],
)
def test_a_page_that_loads_from_elsewhere_is_found(hooks, tmp_path, page):
    (tmp_path / "index.html").write_text(page)
    (found,) = hooks.loads_from_elsewhere(tmp_path)
    assert found.startswith("index.html: ")


def test_links_and_own_files_are_no_loads(hooks, tmp_path):
    own = '<a href="https://example/">x</a><link rel="canonical" href="https://example/"><img src="../a//x.png">'
    (tmp_path / "index.html").write_text(own + '<script src="assets/x.js"></script>')
    (tmp_path / "x.css").write_text("a { background: url(data:image/png;base64,AA//) }")
    assert hooks.loads_from_elsewhere(tmp_path) == []
    (tmp_path / "x.css").write_text("@import '//example/y.css'")
    assert len(hooks.loads_from_elsewhere(tmp_path)) == 1


def test_comments_of_fields_are_their_texts(monkeypatch):
    """A column of results.csv has its meaning in the reference."""
    import griffe

    monkeypatch.chdir(ROOT)
    read = partial(griffe.load, extensions=griffe.load_extensions("docs/attribute_comments.py"))
    fields = read("vit.study.findings")["CellResult"].attributes
    assert fields["validation_loss"].docstring.value == "cross-entropy of the same checkpoint, in nats"
    assert fields["last_is_better"].docstring.value.startswith("whether the last weights")
    assert read("vit.data.core.dataset_names")["TORCHVISION"].docstring is None  # its comment is for a formatter


def test_every_function_of_the_package_has_a_place(hooks):
    assert list(hooks.public_functions()) == vit.__all__
    page = hooks.python_page()
    assert all(f"heading: vit.{name}\n" in page for name in vit.__all__)


def test_every_room_has_a_page(hooks):
    rooms = {path.name for path in (ROOT / "vit").iterdir() if path.is_dir() and list(path.glob("*.py"))}
    assert set(hooks.rooms()) == rooms - hooks.INTERNAL


def test_the_help_of_a_command_is_its_page(hooks):
    page = hooks.command_page("predict", hooks.help_of("predict"))
    assert page.startswith("# vit predict\n") and "--gallery" in page


def test_every_recipe_is_on_the_page_of_recipes(hooks):
    page = hooks.recipes_page()
    for path in (ROOT / "configs").rglob("*.yaml"):
        about, facts = hooks.recipe_header(path.read_text(encoding="utf-8"))
        assert about.endswith(".") and {"source", "command", "expected", "time"} <= facts.keys()
        assert f"| {about} | {facts['expected']} | {facts['time']} |" in page


def test_links_of_the_repository_become_links_of_the_site(hooks):
    text = "[a](docs/results.md#speed) [b](SECURITY.md) [c](https://example/docs/x)"
    assert hooks.repository_page(text) == "[a](results.md#speed) [b](security.md) [c](https://example/docs/x)"
    assert hooks.on_page_markdown("[n](../../notebooks/x.ipynb)") == "[n](../notebooks/x.ipynb)"


def test_every_page_is_in_the_navigation():
    names = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = set(re.findall(r"'([\w/]+\.md)'", str(names)))
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert written - listed == {"reference/exit_codes.md"}  # which docs/site_hooks.py adds
