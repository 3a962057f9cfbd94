"""The parts of docs/results.md that `make results` writes: a table of a row of evidence/ between two comments."""

import re
from collections.abc import Iterator, Mapping, Sequence

from results_rows import Answers, Kept, seeds_of
from results_words import accuracy_words, differences, each_seed, minutes_words, progress, seeds_words, table_line

from vit.study.findings import CellResult
from vit.study.folder import StudyDirectory

BLOCK = re.compile(r"<!-- row (\w+), written by `make results` -->\n.*?<!-- end of row -->", re.DOTALL)


def with_blocks(text: str, kept: Mapping[str, Kept]) -> str:
    """The text of a page with each of its blocks written again."""

    def written(found: re.Match[str]) -> str:
        missing = [f"Not measured yet: `make results ROW={found[1]}`."]
        lines = "\n".join(block(kept[found[1]]) if found[1] in kept else missing)
        return f"<!-- row {found[1]}, written by `make results` -->\n\n{lines}\n\n<!-- end of row -->"

    return BLOCK.sub(written, text)


def block(kept: Kept) -> Iterator[str]:
    """Numbers of each network, how far the networks differ from the first, runs, hours and commands of a row."""
    sizes = sorted({cell.num_images for cell in kept.cells})
    yield from (_one_size(kept) if len(sizes) == 1 else _several_sizes(kept, sizes))
    yield ""
    names = list(dict.fromkeys(cell.series for cell in kept.cells))
    if len(sizes) == 1:
        yield from differences(kept.answers, [(name, reference(name, names)) for name in names if name != names[0]])
    else:
        pairs = [(_at(names[0], size), _at(name, size)) for size in sizes for name in names[1:]]
        words = {_at(name, size): f"{name}, {size:,} images" for size in sizes for name in names}
        yield from differences(kept.answers_by_size, pairs, words)
    if isinstance(chosen := kept.protocol.get("chosen"), dict):
        words = [f"{group}: {choice} of {_tried(kept, group)}" for group, choice in chosen.items()]
        yield from ("", f"Chosen on the validation images: {'; '.join(words)}.")
    seeds = kept.protocol["seeds"]
    if isinstance(seeds, list) and len(seeds) == 1:
        yield from ("", "One seed: the intervals are about other test images alone. Other seeds would scatter more.")
    yield from ("", f"{progress(kept)} `make results ROW={kept.row.name}` runs `{kept.row.command}`.")


def _tried(kept: Kept, group: str) -> str:
    """What was tried for a network and a number of images, "NETWORK, 5,000 images"."""
    cells = StudyDirectory(kept.row.folder).listed()
    found = [cell.choice for cell in cells if f"{cell.series}, {cell.num_images:,} images" == group]
    return ", ".join(dict.fromkeys(found))


def reference(name: str, names: Sequence[str]) -> str:
    """The series that another one is compared with: "ViT" for "ViT, stem", or else the first one."""
    before = name.partition(", ")[0]
    return before if before in names and before != name else names[0]


def network_lines(kept: Kept, answers: Answers) -> Iterator[tuple[str, ...]]:
    """Cells of a table: network, parameters, accuracy, seeds, each seed, and minutes, at the largest size."""
    for name, cells in seeds_of(kept.cells):
        yield (
            f"{name} (`{cells[0].network}`)", f"{cells[0].parameters:,}", accuracy_words(answers, "", name),
            seeds_words(kept, len(cells)), each_seed(answers, "", name), _minutes(cells),
        )  # fmt: skip


def _minutes(cells: list[CellResult]) -> str:
    return minutes_words(sum(cell.seconds for cell in cells) / len(cells))


def _one_size(kept: Kept) -> Iterator[str]:
    heads = ("network", "parameters", "test accuracy (95 % interval)", "seeds", "each seed", "minutes a run")
    yield table_line(heads)
    yield table_line(["---"] * len(heads))
    yield from map(table_line, network_lines(kept, kept.answers))


def _several_sizes(kept: Kept, sizes: list[int]) -> Iterator[str]:
    names = list(dict.fromkeys(cell.series for cell in kept.cells))
    answers = kept.answers_by_size
    yield table_line(("training images", *(f"{name}: test accuracy (95 % interval)" for name in names)))
    yield table_line(["---"] * (1 + len(names)))
    for size in sizes:
        found = [
            accuracy_words(answers, "", _at(name, size)) if _at(name, size) in answers.correct[""] else ""
            for name in names
        ]
        yield table_line((f"{size:,}", *found))


def _at(series: str, size: int) -> str:
    return f"{series} (images={size})"
