"""docs/leaderboard.md, docs/claims.md, docs/results.md and docs/atlas.md; their numbers come from evidence/ alone."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from atlas_figure import FIGURE, PAGE, write_atlas
from blocks import network_lines, results_page
from claims import answers_of, claims_page, lines_of
from definitions import ROOT, Row, read_evidence
from figures import FIGURES, draw, draw_lines
from kept import Answers, Kept, seeds_of
from sentences import OF_P, accuracy_text, differences, hardware, minutes_text, over_images, progress, table_line
from sizes import draw_curve

README = ROOT / "README.md"
BOARD, CLAIMS, RESULTS = (ROOT / "docs" / f"{name}.md" for name in ("leaderboard", "claims", "results"))
HEADS = (
    "data", "network", "parameters", "test accuracy (95 % interval)", "seeds", "each seed", "minutes a run",
    "hardware", "command",
)  # fmt: skip
MAIN, HARDWARE = (0, 1, 2, 3, 4, 5, 8), (0, 1, 6, 7)  # columns of the two tables of the leaderboard
SHORT = (0, 1, 3, 4, 8)  # and of that in the README
SHORT_BOARD = re.compile(r"(<!-- written by `make results` -->\n).*?(\n<!-- end -->)", re.DOTALL)
NOTE = "<!-- written by `make results` from evidence/; edit evidence/make/rows.toml or evidence/make/*.py -->"


def write_pages() -> list[Path]:
    """Write the pages and the figures; returns their paths."""
    evidence = read_evidence()
    rows = evidence.rows
    kept = {name: found for name, row in rows.items() if (found := Kept.of(row)) is not None}
    BOARD.write_text(leaderboard(kept, rows), encoding="utf-8")
    CLAIMS.write_text(claims_page(kept, rows, evidence.claims, NOTE), encoding="utf-8")
    RESULTS.write_text(results_page(kept, rows, evidence.sections, NOTE), encoding="utf-8")
    FIGURES.mkdir(parents=True, exist_ok=True)
    figures = []
    for claim in evidence.claims:
        path = FIGURES / f"{claim.name}.png"
        answers, lines = answers_of(kept, claim), lines_of(rows, claim)
        if answers is not None:
            draw(claim, answers, path)
        if lines is not None:
            draw_lines(claim, lines, path)
        if answers is not None or lines is not None:
            figures.append(path)
    shown = [kept[name] for section in evidence.sections for name in section.rows if name in kept]
    figures += [draw_curve(one) for one in shown if one.has_sizes]
    README.write_text(short_board(README.read_text(encoding="utf-8"), kept), encoding="utf-8")
    write_atlas()
    return [BOARD, CLAIMS, RESULTS, README, PAGE, *figures, FIGURE]


def leaderboard(kept: Mapping[str, Kept], rows: Mapping[str, Row]) -> str:
    """The text of docs/leaderboard.md."""
    lines = ["# Leaderboard", "", NOTE, ""]
    lines += [
        "Each row is made again by `make results ROW=NAME`. The folder `evidence/NAME` of the repository keeps the "
        "`result.json` of each run. Accuracies are on the test images, by the checkpoint of the lowest validation "
        "loss, unless a row names another choice. The intervals cover other seeds and other test images; where "
        "nothing is random, other test images. "
        f"{OF_P} Minutes are means of the runs, and hours are sums. Runs of a row often share a machine, and other "
        "work may have slowed them.",
        "",
    ]
    board = {name: shown for name, one in kept.items() if (shown := one.on_board) is not None}
    cells = [line for one in board.values() for line in _board_lines(one)]
    lines += [*_table(MAIN, cells), "", "## Hardware", "", *_table(HARDWARE, cells), ""]
    for name, one in board.items():
        lines += [f"## `{name}`", "", f"{one.row.title}. {progress(one)}", ""]
        lines += [f"`make results ROW={name}` runs `{one.row.command}`.", ""]
        if one.measured("svc") is not None:  # docs/results.md compares the networks of every row
            lines += [*_compared_on_board(one), ""]
    lines += [
        "## Hours of every row",
        "",
        "Rows that are not on the board belong to [Claims](claims.md) and [Results](results.md). Hours are times "
        "by the clock, also while other work slowed the machine.",
        "",
    ]
    lines += [table_line(("row", "data", "runs", "hours", "hardware")), table_line(["---"] * 5)]
    lines += [_hours(row, kept.get(name)) for name, row in rows.items() if row.study]
    return "\n".join(lines).rstrip() + "\n"


def short_board(text: str, kept: Mapping[str, Kept]) -> str:
    """The text of the README with its short form of the leaderboard written again."""
    cells = [
        line
        for one in kept.values()
        if (shown := one.on_board) is not None
        for line in _board_lines(shown)
        if line[1].partition(" (")[0] in one.row.front
    ]
    lines = _table(SHORT, cells)
    return SHORT_BOARD.sub(lambda found: "\n".join((found[1], *lines, found[2])), text)


def _table(columns: Sequence[int], cells: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table of some of the columns of the leaderboard."""
    return [table_line([line[place] for place in columns]) for line in (HEADS, ["---"] * len(HEADS), *cells)]


def _board_lines(kept: Kept) -> Iterator[tuple[str, ...]]:
    command = f"`make results ROW={kept.row.name}`"
    for (_, trained), cells in zip(seeds_of(kept.cells), network_lines(kept), strict=True):
        yield (_board_data(kept), *cells, hardware(kept, trained), command)
    if (svc := kept.measured("svc")) is not None:
        yield (
            kept.row.data, "support vector machine (scikit-learn's `SVC`)", "",
            accuracy_text(over_images(float(svc.wrong("", "SVC").mean()), svc.num_images)), "", "nothing is random",
            minutes_text(svc.facts["seconds"]), svc.facts["machine"], command,
        )  # fmt: skip


def _board_data(kept: Kept) -> str:
    """The data of a row, with what makes its accuracy another one than that of all images from random weights."""
    images, largest = kept.protocol["images"], max(cell.num_images for cell in kept.cells)
    assert isinstance(images, dict)
    part = "" if largest == images["train"] else f", {largest:,} of {images['train']:,} training images"
    return f"{kept.row.data}{part}{'; from published weights' * (kept.row.starts == 'published_weights.py')}"


def _hours(row: Row, kept: Kept | None) -> str:
    """How far a row is, and the hours of its finished runs."""
    if kept is None:
        return table_line((f"`{row.name}`", row.data, "none yet", "", ""))
    runs, hours = f"{kept.num_done} of {kept.num_listed}", f"{kept.seconds / 3600:.2f}"
    return table_line((f"`{row.name}`", row.data, runs, hours, "; ".join(kept.machines)))


def _compared_on_board(kept: Kept) -> Iterator[str]:
    """Every pair of networks of a row, and each of them with the support vector machine."""
    correct = dict(kept.answers.correct[""])
    names, seedless = list(correct), frozenset[str]()
    if (svc := kept.measured("svc")) is not None:
        correct, names, seedless = {**correct, **svc.correct[""]}, [*names, "SVC"], frozenset({"SVC"})
    pairs = [(first, second) for place, first in enumerate(names) for second in names[place + 1 :]]
    yield from differences(Answers(kept.answers.num_images, {"": correct}, seedless=seedless), pairs)
