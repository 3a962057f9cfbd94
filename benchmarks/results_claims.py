"""docs/claims.md: a table of the claims with their verdicts, and a section for each claim."""

from collections.abc import Iterator, Mapping, Sequence

from results_kept import Answers, Kept
from results_lines import Lines
from results_rows import Claim, Row
from results_verdicts import Verdict, meanings, verdict_of
from results_words import (
    accuracy_words,
    compared_by_condition,
    conditions,
    differences,
    each_seed,
    ends,
    p_words,
    progress,
    table_line,
)


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
        "Errors are wrong answers in percent of the test images, and a difference of two percentages is in points. The "
        "numbers in parentheses are 95 % intervals. Those of errors cover other seeds and other test images. Those of "
        "gradients and distances cover other seeds alone, and those of times other turns. The value p is corrected for "
        "all comparisons of a section ([how](measurements.md#do-the-intervals-hold)). The intervals are not.",
        "",
    ]
    for claim in claims:
        lines += [f"## {claim.title}", "", f"**The claim:** {claim.said}", "", claim.text, ""]
        one = found[claim.name]
        if one is None:
            lines += [f"Not measured yet: `make results ROW={claim.row}`.", ""]
            continue
        verdict = verdicts[claim.name]
        lines += [f"**{verdict.label}.** {verdict.sentence}", ""]
        lines += [f"![{claim.title}](figures/claims/{claim.name}.png)", ""]
        if isinstance(one, Lines):
            lines += _section_of_lines(claim, one, rows[claim.row])
        else:
            lines += _section(claim, one, kept[claim.row])
    return "\n".join(lines).rstrip() + "\n"


def _table(claims: Sequence[Claim], verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """The claims with their verdicts."""
    yield table_line(("claim", "verdict here", "what decides"))
    yield table_line(["---"] * 3)
    for claim in claims:
        anchor = "".join(letter for letter in claim.title if letter.isalnum() or letter in "_- ").lower()
        link = f"[{claim.title}](#{anchor.replace(' ', '-')}): {claim.said}"
        verdict = verdicts.get(claim.name)
        yield table_line((link, *(("not measured yet", "") if verdict is None else (verdict.label, verdict.sentence))))


def _section(claim: Claim, answers: Answers, kept: Kept) -> Iterator[str]:
    """Caption, comparisons, numbers and command of a claim that is judged by answers."""
    seeds = max(len(one) for series in answers.correct.values() for one in series.values())
    what = f"{claim.value}; more is better" if claim.by_condition else "test error; lower is better"
    if claim.by_condition and claim.value != "test accuracy":
        what = claim.value
    fewer = "" if kept.is_finished else " Some points have fewer seeds so far."
    yield from (
        f"*Figure: {what}. A point is the mean of {seeds} seeds.{fewer} Its bar is the 95 % interval over other "
        "seeds and other test images.*",
        "",
    )
    if claim.by_condition:
        yield from _condition_table(answers, claim)
    else:
        yield from (*differences(answers, claim.compare, claim.names), "", *_series_table(answers, claim), "")
    yield from (f"{conditions(kept)} {progress(kept)}", "")
    yield from (f"`make results ROW={claim.row}`: `{kept.row.command}`", "")


def _section_of_lines(claim: Claim, measured: Lines, row: Row) -> Iterator[str]:
    """Caption, changes, numbers and command of a claim that is judged by lines of numbers."""
    count = len(next(iter(measured.values.values())))
    scale = "" if measured.is_share else " The vertical axis is logarithmic."
    yield from (
        f"*Figure: {measured.y_label}. A point is the mean of {count} {measured.repetitions}. The band is the 95 % t "
        f"interval over {measured.repetitions}.{scale}*",
        "",
    )
    yield from (*measured.sentences(claim.compare, claim.names), "")
    yield from (*map(table_line, measured.table(claim.names)), "")
    yield from (f"Machine: {measured.machine}.", "")
    yield from (f"`make results ROW={row.name}`: `{measured.command}`", "")


def _series_table(answers: Answers, claim: Claim) -> Iterator[str]:
    yield table_line(("network", "test accuracy (95 % interval)", "each seed"))
    yield table_line(["---"] * 3)
    for series in answers.correct[""]:
        name = claim.names.get(series, series)
        yield table_line((name, accuracy_words(answers, "", series), each_seed(answers, "", series)))


def _condition_table(answers: Answers, claim: Claim) -> Iterator[str]:
    """Accuracies of the compared series under each condition, with their gap and its corrected p."""
    for first, second in claim.compare:
        heads = [f"{claim.names.get(name, name)} (%)" for name in (first, second)]
        yield table_line(("test images", *heads, "difference (points)", "p"))
        yield table_line(["---"] * 5)
        for one in compared_by_condition(answers, (second, first)):  # errors of the second minus the first
            values = [accuracy_words(answers, one.condition, series).replace(" %", "") for series in (first, second)]
            reach = f" ({ends(one.gap)})" if one.found.is_tested else ""
            gap, p = f"{100 * one.gap.value:+z.2f}{reach}", p_words(one.p).removeprefix("= ")
            marks = ("**", "**") if one.is_apart else ("", "")
            yield table_line((one.condition, *values, gap.join(marks), p.join(marks)))
        yield ""
    yield "Bold: the corrected test tells the two apart."
    yield ""
