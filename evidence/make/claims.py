"""docs/claims.md: a table of the claims with their verdicts, and a section for each claim."""

from collections.abc import Iterator, Mapping, Sequence

from definitions import Claim, Row
from kept import Answers, Kept
from lines import Lines
from sentences import (
    compared_by_condition,
    comparison_table,
    conditions,
    ends,
    p_text,
    table_line,
)
from verdicts import Verdict, meanings, verdict_of


def answers_of(kept: Mapping[str, Kept], claim: Claim) -> Answers | None:
    """What a claim is judged by, or None where nothing of it is kept."""
    found = kept.get(claim.row)
    if found is None or claim.lines:
        return None
    answers = found.measured(claim.measured) if claim.measured else found.answers
    if claim.sizes:
        answers = found.answers_by_size
    if answers is None:
        return None
    answers = (answers.across() if claim.across else answers).only(claim.series)
    pairs = ((condition, *names) for condition in answers.correct for names in claim.compare)
    return answers if any(answers.has_pair(*names) for names in pairs) else None


def lines_of(rows: Mapping[str, Row], claim: Claim) -> Lines | None:
    """The lines of numbers of a claim, or None where it has none, or they are not measured yet."""
    path = rows[claim.row].folder / "measured" / f"{claim.measured}.json"
    return Lines.read(path) if claim.lines and path.is_file() else None


def claims_page(kept: Mapping[str, Kept], rows: Mapping[str, Row], claims: Sequence[Claim], note: str) -> str:
    """The text of docs/claims.md."""
    found = {claim.name: answers_of(kept, claim) or lines_of(rows, claim) for claim in claims}
    verdicts = {claim.name: verdict_of(claim, one) for claim in claims if (one := found[claim.name]) is not None}
    lines = ["# Claims", "", note, ""]
    lines += [
        "What is said of Vision Transformers, measured with small networks on small images. A small network does not "
        "speak for a large one on photographs. So each verdict is about these networks alone.",
        "",
        *_table(claims, verdicts),
        "",
        "What the verdicts mean (2 of 4: two of four comparisons are as the claim says):",
        "",
        *meanings(),
        "",
        "Errors are wrong answers in percent of the test images, and a difference of two percentages is in points. "
        "Numbers in parentheses and bars of figures are 95 % intervals. Those of errors cover other seeds and other "
        "test images. Those of gradients and distances cover other seeds alone, and those of times other turns. The "
        "value p is corrected for all comparisons of a section ([how](measurements.md#do-the-intervals-hold)); the "
        "intervals are not. Bold: the corrected test tells the two apart. The "
        "[leaderboard](leaderboard.md#hours-of-every-row) has the hours of each row, and `evidence/` each seed.",
        "",
    ]
    for claim in claims:
        lines += [f"## {claim.title}", "", f"**The claim:** {claim.said}", "", claim.text, ""]
        one = found[claim.name]
        if one is None:
            lines += [f"Not measured yet: `make results ROW={claim.row}`.", ""]
            continue
        verdict = verdicts[claim.name]
        in_table = isinstance(one, Answers) and not claim.by_condition  # the comparisons that decide are its lines
        lines += [f"**{verdict.label}.**{'' if in_table else f' {verdict.sentence}'}", ""]
        lines += [f"![{claim.title}](figures/claims/{claim.name}.png)", ""]
        if isinstance(one, Lines):
            lines += _section_of_lines(claim, one, rows[claim.row])
        else:
            lines += _section(claim, one, kept[claim.row])
    return "\n".join(lines).rstrip() + "\n"


def _table(claims: Sequence[Claim], verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """The claims with their verdicts."""
    yield table_line(("claim", "verdict here"))
    yield table_line(["---"] * 2)
    for claim in claims:
        anchor = "".join(letter for letter in claim.title if letter.isalnum() or letter in "_- ").lower()
        link = f"[{claim.title}](#{anchor.replace(' ', '-')})"
        verdict = verdicts.get(claim.name)
        yield table_line((link, "not measured yet" if verdict is None else verdict.label))


def _section(claim: Claim, answers: Answers, kept: Kept) -> Iterator[str]:
    """Caption, comparisons and conditions of a claim that is judged by answers."""
    seeds = max(len(one) for series in answers.correct.values() for one in series.values())
    what = claim.value if claim.by_condition else "test error"
    fewer = "" if kept.is_finished else " Some points have fewer seeds so far."
    yield from (f"*Figure: {what}, mean of {seeds} seeds.{fewer}*", "")
    if claim.by_condition:
        yield from _condition_table(answers, claim)
    else:
        yield from (*comparison_table(answers, claim.compare, claim.names), "")
    yield from (conditions(kept), "")


def _section_of_lines(claim: Claim, measured: Lines, row: Row) -> Iterator[str]:
    """Caption, changes, numbers and command of a claim that is judged by lines of numbers."""
    count = len(next(iter(measured.values.values())))
    scale = "" if measured.is_share else " The vertical axis is logarithmic."
    yield from (f"*Figure: {measured.y_label}, mean of {count} {measured.repetitions}.{scale}*", "")
    yield from (*map(table_line, measured.table(claim.names)), "")
    yield from (f"Machine: {measured.machine}. `make results ROW={row.name}` runs `{measured.command}`.", "")


def _condition_table(answers: Answers, claim: Claim) -> Iterator[str]:
    """Accuracies of the compared series under each condition, with their gap and its corrected p."""
    for first, second in claim.compare:
        heads = [f"{claim.names.get(name, name)} (%)" for name in (first, second)]
        yield table_line(("test images", *heads, "difference (points)", "p"))
        yield table_line(["---"] * 5)
        for one in compared_by_condition(answers, (second, first)):  # errors of the second minus the first
            values = [f"{100 - 100 * error:.2f}" for error in reversed(one.errors)]
            reach = f" ({ends(one.gap)})" if one.found.is_tested else ""
            gap, p = f"{100 * one.gap.value:+z.2f}{reach}", p_text(one.p).removeprefix("= ")
            marks = ("**", "**") if one.is_apart else ("", "")
            yield table_line((one.condition, *values, gap.join(marks), p.join(marks)))
        yield ""
