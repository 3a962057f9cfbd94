"""docs/results.md: sections of rows, each with a table, how far its networks differ, and its runs and hours."""

from collections.abc import Iterator, Mapping, Sequence

from results_kept import Answers, Kept, seeds_of
from results_rows import Row, Section
from results_sizes import size_lines
from results_words import OF_P, accuracy_words, differences, each_seed, minutes_a_run, progress, seeds_words, table_line

from vit.study.answer_warnings import end_of_tuning_warning
from vit.study.folder import StudyDirectory


def results_page(kept: Mapping[str, Kept], rows: Mapping[str, Row], sections: Sequence[Section], note: str) -> str:
    """The text of docs/results.md."""
    lines = ["# Results", "", note, ""]
    lines += [
        "Every number on this page is computed from the kept files of `evidence/`, or it is a citation that names its "
        "source. `make results` writes the page, and `make results ROW=NAME` makes a row again. "
        "[Claims](claims.md) has the rows about what is said of ViTs, and [Measurements](measurements.md) has numbers "
        "whose files were not kept.",
        "",
        "Accuracies are on the test images. The numbers in parentheses are 95 % intervals about other seeds and other "
        "test images ([how](measurements.md#do-the-intervals-hold)). Unless a row names another choice, a "
        f"checkpoint has the lowest validation loss. {OF_P} "
        "Minutes and hours of runs are by the clock, also where several shared a machine or other work slowed it.",
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
    """Numbers of each network, how far the networks differ from the first, runs, hours and commands of a row."""
    yield from (size_lines(kept) if kept.has_sizes else _one_size(kept))
    if isinstance(chosen := kept.protocol.get("chosen"), dict):
        yield from ("", f"Chosen by the {_chosen_by(kept)}; validation accuracies stand in parentheses:", "")
        tried = _tried(kept)
        yield from (f"- {group}: {choice} of {', '.join(tried[group])}" for group, choice in chosen.items())
        if warning := end_of_tuning_warning(kept.protocol):
            yield from ("", warning)
    seeds = kept.protocol["seeds"]
    if isinstance(seeds, list) and len(seeds) == 1:
        yield from ("", "One seed: the intervals are about other test images alone. Other seeds would scatter more.")
    yield from ("", f"{progress(kept)} `make results ROW={kept.row.name}` runs `{kept.row.command}`.")


def _chosen_by(kept: Kept) -> str:
    """What tuning compared: the metric that chose the checkpoints, and the validation loss where that was none."""
    rule = str(kept.protocol["checkpoints"])
    return rule if rule.startswith("highest") else "lowest val/loss"


def _tried(kept: Kept) -> dict[str, list[str]]:
    """{"NETWORK, 5,000 images": what tuning tried, each value with its validation accuracy}."""
    study, found = StudyDirectory(kept.row.folder), dict[str, list[str]]()
    for cell in study.listed():
        result = study.run(cell).read_result()
        told = "failed" if result is None else f"{100 * result.validation[f'val/{result.accuracy_metric}']:.2f} %"
        found.setdefault(f"{cell.series}, {cell.num_images:,} images", []).append(f"{cell.choice} ({told})")
    return found


def reference(name: str, names: Sequence[str]) -> str:
    """The series that another one is compared with: "ViT, long" for "ViT, long, stem", or else the first one."""
    before = name.rpartition(", ")[0]
    return before if before in names and before != name else names[0]


def network_lines(kept: Kept, answers: Answers) -> Iterator[tuple[str, ...]]:
    """Cells of a table: network, parameters, accuracy, seeds, each seed, and minutes, at the largest size."""
    for name, cells in seeds_of(kept.cells):
        if not cells:
            yield name, "", "no finished run", "0", "", ""
            continue
        yield (
            f"{name} (`{cells[0].network}`)", f"{cells[0].parameters:,}", accuracy_words(answers, "", name),
            seeds_words(kept, len(cells)), each_seed(answers, "", name), minutes_a_run(kept, cells),
        )  # fmt: skip


def _one_size(kept: Kept) -> Iterator[str]:
    heads = ("network", "parameters", "test accuracy (95 % interval)", "seeds", "each seed", "minutes a run")
    yield table_line(heads)
    yield table_line(["---"] * len(heads))
    yield from map(table_line, network_lines(kept, kept.answers))
    yield ""
    names = list(dict.fromkeys(cell.series for cell in kept.cells))
    yield from differences(kept.answers, [(name, reference(name, names)) for name in names if name != names[0]])
