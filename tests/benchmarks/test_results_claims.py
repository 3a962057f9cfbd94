"""Every claim of evidence/make/rows.toml can be judged, drawn and written, also one that is not measured yet."""

import re
import tomllib

import numpy as np
import pytest

from tests.processes import ROOT

CLAIMS = [
    one["name"]
    for one in tomllib.loads((ROOT / "evidence" / "make" / "rows.toml").read_text(encoding="utf-8"))["claim"]
]


@pytest.fixture(params=CLAIMS)
def claim(request):
    from definitions import read_evidence

    return next(one for one in read_evidence().claims if one.name == request.param)


def made_up(claim):
    """Numbers of the form that the row of a claim has."""
    from kept import Answers
    from lines import Lines

    generator = np.random.default_rng(0)
    if claim.lines:
        names = [*claim.kinds, *claim.series] or ["a"]
        values = {name: generator.uniform(0.1, 0.9, (5, 3)) for name in names}
        return Lines("x", "y", (1.0, 2.0, 3.0), values, "seeds", True, "command", "machine")
    kinds = ["unchanged", *(claim.kinds or ["noise"])] if claim.by_condition else [""]
    correct = {
        kind: {name: {s: generator.random(50) < 0.5 for s in range(5)} for name in claim.series} for kind in kinds
    }
    return Answers(50, correct)


def test_a_claim_is_judged_and_drawn(claim, tmp_path):
    from figures import draw, draw_lines, stated
    from lines import Lines
    from verdicts import verdict_of

    found, path = made_up(claim), tmp_path / "figure.png"
    assert verdict_of(claim, found).sentence
    if isinstance(found, Lines):
        draw_lines(claim, found, path)
    else:
        draw(claim, found, path)
    assert stated(path)


def test_a_claim_says_what_it_expects(claim):
    words = {"more", "less", "same"}
    assert len(claim.expects) == (0 if claim.lines and not claim.compare else len(claim.compare))
    assert set(claim.expects) <= words | {""} and set(claim.kinds.values()) <= words
    assert words & {*claim.expects, *claim.kinds.values()} or claim.name == "cost"  # whose claim is a number


def test_plain_names_are_of_series_that_a_claim_has(claim):
    from figures import without

    known = {*claim.series, *claim.kinds}
    known |= {without(name, claim.drawn)[0] for name in claim.series} if claim.drawn else set()
    if not claim.lines:
        assert claim.names.keys() <= known
    if any("=" in name for name in claim.series):
        assert all(name in claim.names for name in claim.series), "names of options are not plain words"


def test_a_claim_that_is_not_measured_says_so(claim):
    from claims import claims_page
    from definitions import Row

    row = Row(name="nothing_yet", title="", data="")
    text = claims_page({}, {claim.row: row}, [claim], "")
    assert f"Not measured yet: `make results ROW={claim.row}`" in text and "|not measured yet|" in text


def test_the_data_of_a_claim_are_those_of_its_figure():
    """A row whose largest size had one seed so far said "1 seeds", and one of 140 images named all 3,068."""
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    sections = [section for section in page.split("\n## ")[1:] if "\nData: " in section]
    assert sections
    for section in sections:
        shown = re.search(r"mean of (\d+) seeds", section)
        stated = re.search(r"\nData: .*?, (?:[\d,]+ to )?([\d,]+)(?: of ([\d,]+))? training.* (\d+) seeds?\. ", section)
        assert shown is not None and stated is not None, section
        assert shown[1] == stated[3]
        named = {int(size.replace(",", "")) for size in re.findall(r", ([\d,]+) images\|", section)}
        assert not named or max(named) == int(stated[1].replace(",", ""))
    assert any("140 of 3,068 training" in section for section in sections)
