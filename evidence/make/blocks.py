"""docs/results.md: sections of rows, each with a table, how far its networks differ, and its runs and hours."""

from collections.abc import Iterator, Mapping, Sequence

from definitions import Row, Section
from kept import Kept, seeds_of
from sentences import (
    OF_P,
    accuracy_text,
    compared,
    each_seed,
    error_of,
    hardware,
    minutes_a_run,
    progress,
    seeds_text,
    table_line,
)
from sizes import size_lines

from vit.study.answer.answer_warnings import end_of_tuning_warning
from vit.study.folder import StudyDirectory


def results_page(kept: Mapping[str, Kept], rows: Mapping[str, Row], sections: Sequence[Section], note: str) -> str:
    """The text of docs/results.md."""
    lines = ["# Results", "", note, ""]
    lines += [
        "Every number on this page is computed from the kept files of `evidence/`, or it is a citation that names its "
        "source. `make results ROW=NAME` makes a row again. [Claims](claims.md) has the rows about what is said of "
        "ViTs.",
        "",
        "Accuracies are on the test images. The numbers in parentheses are 95 % intervals about other seeds and other "
        "test images ([how](measurements.md#do-the-intervals-hold)). Unless a row names another choice, a "
        f"checkpoint has the lowest validation loss. {OF_P} A table without seeds is of one seed, and its intervals "
        "are about other test images alone. Bold: the corrected test tells the two apart. Minutes are by the clock, "
        "also where other work slowed the machine.",
        "",
    ]
    for section in sections:
        lines += [f"## {section.title}", "", section.text, ""]
        for name in section.rows:
            if len(section.rows) > 1:
                lines += [f"### {rows[name].title}", ""]
            lines += [*(block(kept[name]) if name in kept else [f"Not measured yet: `make results ROW={name}`."]), ""]
    return "\n".join(lines).rstrip() + "\n"


def block(kept: Kept) -> Iterator[str]:
    """Numbers of each network, how far the networks differ, chosen values, runs, hours and commands of a row."""
    chosen = kept.protocol.get("chosen")
    if kept.has_sizes or not chosen:
        yield from (size_lines(kept) if kept.has_sizes else _one_size(kept))
        yield ""
    if isinstance(chosen, dict):
        tried = _tried(kept)
        by_group = (f"{group}: {choice} of {', '.join(tried[group])}" for group, choice in chosen.items())
        yield from (f"Chosen by the {_chosen_by(kept)}; validation accuracies stand in parentheses:", "")
        yield from (f"- {line}" for line in by_group)
        if not kept.has_sizes and (warning := end_of_tuning_warning(kept.protocol)):
            yield from ("", warning)
        yield ""
    yield f"{progress(kept, hardware(kept))} `make results ROW={kept.row.name}`."


def _chosen_by(kept: Kept) -> str:
    """What tuning compared: the metric that chose the checkpoints, and the validation loss where that was none."""
    rule = str(kept.protocol["checkpoints"])
    return rule if rule.startswith("highest") else "lowest val/loss"


def _tried(kept: Kept) -> dict[str, list[str]]:
    """{"NETWORK, 5,000 images": what tuning tried, each value with its validation accuracy}."""
    study, found = StudyDirectory(kept.row.folder), dict[str, list[str]]()
    for cell in study.read()[1]:
        result = study.run(cell).read_result()
        accuracy = "failed" if result is None else f"{100 * result.validation[f'val/{result.accuracy_metric}']:.2f} %"
        found.setdefault(f"{cell.series}, {cell.num_images:,} images", []).append(f"{cell.choice} ({accuracy})")
    return found


def reference(name: str, names: Sequence[str]) -> str:
    """The series that another one is compared with: "ViT, long" for "ViT, long, stem", or else the first one."""
    before = name.rpartition(", ")[0]
    return before if before in names and before != name else names[0]


def network_lines(kept: Kept) -> Iterator[tuple[str, ...]]:
    """Cells of a table: network, parameters, accuracy, seeds, each seed, and minutes, at the largest size."""
    largest = max(cell.num_images for cell in kept.cells)
    points = {one.name: point for one in kept.findings.series for point in one.points if point.num_images == largest}
    for name, cells in seeds_of(kept.cells):
        if not cells:
            yield name, "", "no finished run", "0", "", ""
            continue
        yield (
            f"{name} (`{cells[0].network}`)", f"{cells[0].parameters:,}", accuracy_text(error_of(kept, points[name])),
            seeds_text(kept, len(cells)), each_seed(kept.answers, "", name), minutes_a_run(kept, cells),
        )  # fmt: skip


def _one_size(kept: Kept) -> Iterator[str]:
    """A line for each network, with its difference to the network that it is compared with."""
    names = list(dict.fromkeys(cell.series for cell in kept.cells))
    pairs = [(name, reference(name, names)) for name in names if name != names[0]]
    found = {one.first: (one.second, *one.cells()) for one in compared(kept.answers, pairs)}
    heads: tuple[str, ...] = (
        "network", "parameters", "test accuracy (95 % interval)", "seeds", "each seed", "minutes a run",
    )  # fmt: skip
    heads += ("beside", "errors, difference (points)", "p")
    has_seeds = len({cell.seed for cell in kept.cells}) > 1
    shown = [place for place, head in enumerate(heads) if has_seeds or head not in ("seeds", "each seed", "p")]
    yield table_line([heads[place] for place in shown])
    yield table_line(["---"] * len(shown))
    for name, cells in zip(names, network_lines(kept), strict=True):
        line: tuple[str, ...] = (*cells, *found.get(name, ("", "", "")))
        yield table_line([line[place] for place in shown])
