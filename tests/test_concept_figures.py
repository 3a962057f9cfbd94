"""The figures of docs/concepts/ are those that the notebooks store, and each is shown with its notebook."""

import sys

import pytest

from tests.processes import ROOT


@pytest.fixture(scope="module")
def figures():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_concept_figures
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return make_concept_figures


def test_each_is_what_the_notebook_stores(figures):
    assert {path.name for path in figures.FIGURES.iterdir()} == set(figures.CELLS)
    for name, cell in figures.CELLS.items():
        assert (figures.FIGURES / name).read_bytes() == figures.stored_picture(*cell), (
            'run "python docs/make_concept_figures.py"'
        )


def test_each_is_shown_beside_a_link_to_its_notebook(figures):
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "concepts").glob("*.md")]
    for name, (notebook, _) in figures.CELLS.items():
        (page,) = [page for page in pages if f"(../figures/concepts/{name})" in page]
        assert f"(../../notebooks/{notebook}.ipynb)" in page
