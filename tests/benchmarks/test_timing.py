"""Sides take turns, and what they did is kept whole."""

import sys

SCRIPT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from timing import answer, compare
if "--side" in sys.argv:
    answer({"ours": 30.0, "theirs": 10.0}[sys.argv[-1]])
else:
    compare("ours", ["theirs"], 2, "Nothing")
"""


def test_no_side_always_follows_the_same_other_one():
    from timing import take_turns

    order = []
    sides = {name: lambda name=name: order.append(name) or 1.0 for name in "abc"}
    assert take_turns(sides, 3) == {"a": [1.0] * 3, "b": [1.0] * 3, "c": [1.0] * 3}
    assert "".join(order) == "abccbaabc"


def test_functions_are_called_until_a_turn_is_over():
    import time

    from timing import interleave

    calls = []
    speeds = interleave({"slow": lambda: (calls.append(1), time.sleep(0.01))}, images=5, turns=2, seconds=0.03)
    assert len(speeds["slow"]) == 2 and all(0 < speed <= 500 for speed in speeds["slow"])
    assert len(calls) >= 3 + 2 * 2  # to warm up, and at least one timed call of each turn after one that is not


def test_a_side_that_would_take_minutes_is_left_out_and_ours_is_not(monkeypatch):
    import timing

    clock = [0.0]
    monkeypatch.setattr(timing, "now", lambda: clock[0])
    sides = {name: lambda s=s: clock.__setitem__(0, clock[0] + s) for name, s in (("vit", 11), ("a", 9), ("b", 23))}
    absent = {}
    assert list(timing.without_slow(sides, absent)) == ["vit", "a"]
    assert absent == {"b": "left out: a call takes 23 s"}


def test_programs_in_turn_leave_a_measurement(tmp_path, monkeypatch, capsys):
    import timing

    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(sys, "argv", [str(script), timing.__file__.rpartition("/")[0]])
    monkeypatch.setenv(timing.RESULT_VARIABLE, str(tmp_path / "row.json"))
    timing.compare("ours", ["theirs"], 2, "Nothing", work=lambda: timing.Work(2e6, "32-true"))
    found = timing.Measurement.read(tmp_path / "row.json")
    assert found.ratios("ours", "theirs") == [3.0, 3.0]
    assert found.work == timing.Work(2e6, "32-true")
    assert found.mfu == 30.0 * 2e6 / found.peak
    assert "RATIO ours / theirs: 3.00 (min 3.00, max 3.00), n = 2" in capsys.readouterr().out
