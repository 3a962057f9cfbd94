"""`pytest --record_faults` keeps what became of the tests that carry numbers of docs/faults.md.

tests/conftest.py takes these hooks in. A run adds to what earlier runs recorded: the long tests are recorded by
`pytest -m "faults and slow" --record_faults`. A test that is skipped here keeps its earlier outcome, with its date.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

OUTCOMES = Path(__file__).with_name("outcomes.json")
Outcomes = dict[str, dict[str, Any]]  # {test: {"slow": bool, "date": str, "rows": {id: "passed" or "failed"}}}


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "record the outcomes of tests marked faults in a file; docs/faults.md is made from it"
    parser.addoption("--record_faults", nargs="?", const=str(OUTCOMES), default=None, metavar="FILE", help=about)


def pytest_itemcollected(item: pytest.Item) -> None:
    """What a report must say of its test, wherever it ran: with xdist a report is all that comes back."""
    ids = [number for mark in item.iter_markers("faults") for number in mark.args]
    if ids:
        slow = item.get_closest_marker("slow") is not None
        item.user_properties.append(("faults", json.dumps({"ids": ids, "slow": slow})))


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--record_faults")
    if file is not None and not hasattr(config, "workerinput"):  # with xdist, the process that gets all reports
        config.pluginmanager.register(Recorder(Path(file)))


class Recorder:
    """Gathers outcomes, and writes them when the run ends."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seen: Outcomes = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = dict(report.user_properties).get("faults")
        if told is None or report.outcome == "skipped" or (report.when != "call" and report.outcome == "passed"):
            return
        about = json.loads(str(told))
        test = self.seen.setdefault(
            report.nodeid.split("[")[0], {"slow": True, "date": time.strftime("%Y-%m-%d"), "rows": {}}
        )
        test["slow"] &= about["slow"]  # some of its parameters may be quick
        for number in about["ids"]:
            if test["rows"].get(number) != "failed":
                test["rows"][number] = report.outcome

    def pytest_sessionfinish(self) -> None:
        outcomes: Outcomes = read(self.file)
        for test, now in self.seen.items():
            before = outcomes.get(test, {"slow": True, "rows": {}}) if now["slow"] else {"slow": False, "rows": {}}
            slow, rows = now["slow"] and before["slow"], {**before["rows"], **now["rows"]}  # of quick parameters, too
            outcomes[test] = {**now, "slow": slow, "rows": rows}
        self.file.write_text(json.dumps(outcomes, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read(file: Path = OUTCOMES) -> Outcomes:
    """What was recorded; nothing where nothing was."""
    found: Outcomes = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found
