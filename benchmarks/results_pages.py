"""docs/leaderboard.md and docs/claims.md, written from what evidence/ keeps; no number comes from elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from results_figures import FIGURES, draw, draw_lines
from results_lines import Lines
from results_rows import ROOT, Answers, Claim, Kept, Row, read_rows, seeds_of

from vit.study.findings import ALPHA, Difference, Interval
from vit.study.paired import difference, hochberg
from vit.study.variance_components import NORMAL_QUANTILE, mean_error, wilson

BOARD, CLAIMS = ROOT / "docs" / "leaderboard.md", ROOT / "docs" / "claims.md"
NOTE = "<!-- written by `make results` from evidence/; edit evidence/rows.toml or benchmarks/results_pages.py -->"


def write_pages() -> list[Path]:
    """Write both pages and the figures; returns their paths."""
    rows, claims = read_rows()
    kept = {name: found for name, row in rows.items() if (found := Kept.of(row)) is not None}
    BOARD.write_text(leaderboard(kept), encoding="utf-8")
    CLAIMS.write_text(claims_page(kept, rows, claims), encoding="utf-8")
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures = []
    for claim in claims:
        path = FIGURES / f"{claim.name}.png"
        answers, lines = answers_of(kept, claim), lines_of(rows, claim)
        if answers is not None:
            draw(claim, answers, path)
        if lines is not None:
            draw_lines(lines, path)
        if answers is not None or lines is not None:
            figures.append(path)
    return [BOARD, CLAIMS, *figures]


def answers_of(kept: Mapping[str, Kept], claim: Claim) -> Answers | None:
    """What a claim is judged by, or None where nothing of it is kept."""
    found = kept.get(claim.row)
    if found is None or claim.lines:
        return None
    answers = found.measured(claim.measured) if claim.measured else found.answers
    if answers is None or not any(
        answers.has_pair(condition, *names) for condition in answers.correct for names in claim.compare
    ):
        return None
    return answers


def lines_of(rows: Mapping[str, Row], claim: Claim) -> Lines | None:
    """The lines of numbers of a claim, or None where it has none, or they are not measured yet."""
    path = rows[claim.row].folder / "measured" / f"{claim.measured}.json"
    return Lines.read(path) if claim.lines and path.is_file() else None


def leaderboard(kept: Mapping[str, Kept]) -> str:
    """The text of docs/leaderboard.md."""
    lines = ["# Leaderboard", "", NOTE, ""]
    lines += [
        "Each row is made again by `make results ROW=NAME`. The folder `evidence/NAME` of the repository keeps the "
        "`result.json` of each run. Accuracies are on the test images, by the checkpoint of the lowest validation "
        "loss. The intervals cover other seeds and other test images; where nothing is random, other test images. "
        "Minutes are means of the runs. Other work on the machine may have slowed them.",
        "",
        _line(("data", "network", "parameters", "test accuracy (95 % interval)", "seeds", "each seed", "minutes a run",
               "hardware", "command")),
        _line(["---"] * 9),
    ]  # fmt: skip
    board = {name: one for name, one in kept.items() if one.row.board}
    for one in board.values():
        lines += _board_lines(one)
    lines.append("")
    for name, one in board.items():
        lines += [f"## `{name}`", "", f"{one.row.title}. {_progress(one)}", ""]
        lines += [f"`make results ROW={name}` runs `{one.row.command}`.", ""]
        lines += [*_compared_on_board(one), ""]
    return "\n".join(lines).rstrip() + "\n"


def _board_lines(kept: Kept) -> Iterator[str]:
    hardware, command = _hardware(kept), f"`make results ROW={kept.row.name}`"
    for name, cells in seeds_of(kept.cells):
        minutes = _minutes(sum(cell.seconds for cell in cells) / len(cells))
        yield _line((
            kept.row.data, f"{name} (`{cells[0].network}`)", f"{cells[0].parameters:,}",
            _accuracy(kept.answers, "", name), f"{len(cells)}", _each(kept.answers, "", name), minutes,
            hardware, command,
        ))  # fmt: skip
    if (svc := kept.measured("svc")) is not None:
        yield _line((
            kept.row.data, "support vector machine (scikit-learn's `SVC`)", "",
            _accuracy(svc, "", "SVC", is_random=False), "", "nothing is random", _minutes(svc.facts["seconds"]),
            svc.facts["machine"], command,
        ))  # fmt: skip


def _minutes(seconds: float) -> str:
    return "< 0.1" if seconds < 6 else f"{seconds / 60:.1f}"


def _compared_on_board(kept: Kept) -> Iterator[str]:
    """Every pair of networks of a row, and each of them with the support vector machine."""
    answers, names = dict(kept.answers.correct[""]), list(kept.answers.correct[""])
    if (svc := kept.measured("svc")) is not None:
        answers, names = {**answers, **svc.correct[""]}, [*names, "SVC"]
    pairs = [(first, second) for place, first in enumerate(names) for second in names[place + 1 :]]
    yield from differences(Answers(kept.answers.num_images, {"": answers}), pairs)


def claims_page(kept: Mapping[str, Kept], rows: Mapping[str, Row], claims: Sequence[Claim]) -> str:
    """The text of docs/claims.md."""
    lines = ["# Claims", "", NOTE, ""]
    lines += [
        "What is said of Vision Transformers, measured with small networks. Each section has a command, a figure and "
        "sentences with 95 % intervals. The intervals cover other seeds and other test images, and p is corrected for "
        "all comparisons of a section ([how](results.md#do-the-intervals-hold)). The intervals are not corrected. A "
        "small network on small images does not speak for a large one on photographs.",
        "",
    ]
    for claim in claims:
        lines += [f"## {claim.title}", "", claim.text, ""]
        answers, measured = answers_of(kept, claim), lines_of(rows, claim)
        if measured is not None:
            lines += [*_lines_section(claim, measured, rows[claim.row]), ""]
            continue
        if answers is None:
            lines += [f"Not measured yet: `make results ROW={claim.row}`.", ""]
            continue
        one = kept[claim.row]
        lines += [f"![{claim.title}](figures/claims/{claim.name}.png)", ""]
        if claim.measured:
            lines += [*_condition_table(answers, claim)]
        else:
            lines += [*differences(answers, claim.compare), "", *_series_table(answers), ""]
        lines += [
            f"{_conditions(one)} {_progress(one)}",
            "",
            f"`make results ROW={claim.row}`: `{one.row.command}`",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _lines_section(claim: Claim, measured: Lines, row: Row) -> Iterator[str]:
    yield from (f"![{claim.title}](figures/claims/{claim.name}.png)", "")
    yield from measured.sentences(claim.compare)
    yield ""
    yield from map(_line, measured.table())
    count = len(next(iter(measured.values.values())))
    yield from ("", f"Means of {count} {measured.repetitions} with 95 % t intervals. Machine: {measured.machine}.", "")
    yield f"`make results ROW={row.name}`: `{measured.command}`"


def differences(answers: Answers, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A sentence for each pair of series."""
    known = [names for names in pairs if answers.has_pair("", *names)]
    shared = [answers.pair("", *names) for names in known]
    found = [difference(pair) for pair in shared]
    tested = hochberg([one.p for one in found])
    for (first, second), pair, one, p in zip(known, shared, found, tested, strict=True):
        errors = f"{100 * pair.first.mean():.2f} % and {100 * pair.second.mean():.2f} % error"  # of the common seeds
        yield f"- **{first}** against **{second}**: {errors}, {_gap_words(one, p)}."


def _gap_words(one: Difference, p: float) -> str:
    if not one.is_tested:
        return f"{100 * one.gap.value:+.2f} points, with one seed and so without an interval"
    sides = f"{100 * one.gap.value:+.2f} points ({_ends(one.gap)}, {len(one.seeds)} seeds)"
    return f"{sides}, " + (f"p {p_words(p)}" if p < ALPHA else f"which cannot be told from zero (p {p_words(p)})")


def p_words(p: float) -> str:
    """A p value with two digits, and never as zero."""
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def _ends(interval: Interval) -> str:
    assert interval.low is not None
    assert interval.high is not None
    return f"{100 * interval.low:+.2f} to {100 * interval.high:+.2f}"


def _accuracy(answers: Answers, condition: str, series: str, *, is_random: bool = True) -> str:
    """Mean accuracy with its interval: over seeds and test images, or over test images where nothing is random."""
    wrong = answers.wrong(condition, series)
    found = mean_error(wrong) if is_random else wilson(float(wrong.mean()), answers.num_images, NORMAL_QUANTILE)
    words = f"{100 - 100 * found.value:.2f} %"
    if found.low is None or found.high is None:
        return words
    return f"{words} ({100 - 100 * found.high:.2f} to {100 - 100 * found.low:.2f})"


def _each(answers: Answers, condition: str, series: str) -> str:
    return ", ".join(f"{100 - 100 * wrong.mean():.2f}" for wrong in answers.wrong(condition, series))


def _series_table(answers: Answers) -> Iterator[str]:
    yield _line(("series", "test accuracy (95 % interval)", "each seed"))
    yield _line(["---"] * 3)
    for series in answers.correct[""]:
        yield _line((series, _accuracy(answers, "", series), _each(answers, "", series)))


def _condition_table(answers: Answers, claim: Claim) -> Iterator[str]:
    """Accuracies of the compared series under each condition, with their gap and its corrected p."""
    for first, second in claim.compare:
        shown = [name for name in answers.correct if answers.has_pair(name, first, second)]
        gaps = [difference(answers.pair(name, second, first)) for name in shown]  # errors of the second minus the first
        tested = hochberg([gap.p for gap in gaps])
        apart = [
            f"{name} ({100 * gap.gap.value:+.2f} points, {_ends(gap.gap)})"
            for name, gap, p in zip(shown, gaps, tested, strict=True)
            if p < ALPHA
        ]
        words = f"of {len(shown)} kinds of test images, {len(apart)} tell the two apart"
        yield f"**{first}** minus **{second}**: {words}{':' * bool(apart)}{'.' * (not apart)}"
        yield ""
        if apart:
            yield from (*(f"- {one}" for one in apart), "")
        yield _line(("test images", f"{first} (%)", f"{second} (%)", "difference (points)", "p"))
        yield _line(["---"] * 5)
        for name, gap, p in zip(shown, gaps, tested, strict=True):
            values = [_accuracy(answers, name, series).replace(" %", "") for series in (first, second)]
            ends = f" ({_ends(gap.gap)})" if gap.is_tested else ""
            yield _line((name, *values, f"{100 * gap.gap.value:+.2f}{ends}", p_words(p).removeprefix("= ")))
        yield ""


def _conditions(kept: Kept) -> str:
    seeds = max(len(cells) for _, cells in seeds_of(kept.cells))
    images = kept.protocol["images"]
    assert isinstance(images, dict)
    budget = kept.protocol.get("budget_words")
    return (
        f"Data: {kept.row.data}, {images['train']:,} training and {images['test']:,} test images, {seeds} seeds. "
        f"Length: {budget}."
    )


def _progress(kept: Kept) -> str:
    hours = sum(cell.seconds for cell in kept.cells) / 3600
    words = f"{len(kept.cells):,} of {kept.num_listed:,} runs are finished, in {hours:.2f} hours"
    failed = f", and {len(kept.failed):,} failed" if kept.failed else ""
    return f"{words}{failed} ({_hardware(kept)})."


def _hardware(kept: Kept) -> str:
    """Machines, and what of them a run used."""
    return f"{'; '.join(kept.machines)}; each run: {kept.protocol['device']}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
