"""docs/faults.md says what the rows, the marks and a recorded run say, and claims nothing that no test shows."""

import os
import subprocess
import sys

from tests.faults.marks import Mark, marks
from tests.faults.recording import read
from tests.faults.table import DOCUMENT, FAILED, FAULTS, NOT_SHOWN, REAL, SIMULATED, State, document, states
from tests.processes import ROOT

RECORD = 'run "make faults"'

# Tests of a project of its own, with the same hooks.
TESTS = """
import pytest
@pytest.mark.faults("D1")
def test_real(): pass
@pytest.mark.faults("D2", simulated="an exception")
@pytest.mark.parametrize("side", [1, 2])
def test_simulated(side): pass
@pytest.mark.faults("D3")
@pytest.mark.parametrize("right", [True, False, True])
def test_fails(right): assert right
@pytest.mark.faults("D4")
def test_skipped(): pytest.skip("not here")
@pytest.mark.slow
@pytest.mark.faults("D5")
def test_long(): pass
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.faults("D6"))])
def test_of_parameters(number): pass
@pytest.mark.faults("D7")
def test_not_run(): pass
"""


def test_every_number_is_a_row_and_stands_once():
    numbers = [fault.id for fault in FAULTS]
    assert len(set(numbers)) == len(numbers)
    assert {mark.id for mark in marks()} - set(numbers) == set(), "marked, but in no row"


def test_the_document_claims_what_was_recorded():
    known = states(marks(), read())
    assert [number for number, state in known.items() if state.shown == FAILED] == [], RECORD
    missing = {number for number, state in known.items() if state.shown == NOT_SHOWN}
    assert missing == {fault.id for fault in FAULTS if fault.open}, RECORD
    assert DOCUMENT.read_text(encoding="utf-8") == document(known), "run python -m tests.faults.table"


def test_a_row_is_shown_by_tests_that_ran_and_passed(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "test_some.py").write_text(TESTS)
    (tmp_path / "inner" / "conftest.py").write_text("from tests.faults.recording import *\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    faults\n")
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib"]
    command += ["-p", "no:cacheprovider", "--record_faults", "kept.json", "--rootdir", ".", "inner/test_some.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run(*more):
        subprocess.run([*command, *more], cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False)
        known = states(marks(tmp_path / "inner"), read(tmp_path / "kept.json"))
        return {number: known[number] for number in ("D1", "D2", "D3", "D4", "D5", "D6", "D7")}

    known = run("-k", "not not_run", "-p", "xdist", "-n", "2")  # in two processes of xdist
    assert known["D1"] == State(REAL)
    assert known["D2"] == State(SIMULATED, simulated="an exception")
    assert known["D3"] == State(FAILED)
    assert known["D4"] == known["D7"] == State(NOT_SHOWN)
    assert known["D5"].shown == REAL and known["D5"].date  # only a slow test shows it
    assert known["D6"] == State(REAL)
    text = document(states(marks(tmp_path / "inner"), read(tmp_path / "kept.json")))
    assert "3 are shown by a real fault, 1 by a simulation, 1 failed," in text
    (tmp_path / "inner" / "test_some.py").write_text(TESTS.replace("def test_real", "def test_renamed"))
    known = run("-k", "test_not_run")
    assert known["D7"] == State(REAL) and known["D2"].shown == SIMULATED  # an earlier run stays
    assert known["D1"] == State(NOT_SHOWN)  # its test is gone


def test_marks_are_read_from_functions_parameters_and_files(tmp_path):
    file = tmp_path / "tests" / "test_some.py"
    file.parent.mkdir()
    file.write_text(TESTS + 'pytestmark = pytest.mark.faults("D8")\n')
    found = marks(file.parent)
    assert Mark("D2", "tests/test_some.py::test_simulated", "an exception") in found
    assert Mark("D6", "tests/test_some.py::test_of_parameters", "") in found
    assert [mark.id for mark in found].count("D8") == 7
