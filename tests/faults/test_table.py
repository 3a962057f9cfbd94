"""The table of faults, the tests and the document say the same."""

from pathlib import Path

from tests.faults.table import DOCUMENT, FAULTS, document, marked


def test_every_row_is_shown_by_a_test_and_every_number_is_a_row():
    numbers = [fault.id for fault in FAULTS]
    assert len(set(numbers)) == len(numbers)
    shown = marked(Path(__file__).parents[1])
    assert set(shown) - set(numbers) == set(), "marked, but in no row"
    assert {fault.id for fault in FAULTS if not fault.open} - set(shown) == set(), "no test carries the number"


def test_the_document_is_what_the_table_says():
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run python -m tests.faults.table"
