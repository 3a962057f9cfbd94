"""`vit data check|next|pack|index`: problems of a data set; images to label next; images in shards"""

import os
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.atomic_files import free_name
from vit.commands.cli.arguments import StrPath, new_file, new_page, path_text, shell_command
from vit.commands.measuring.next_labels import next_labels
from vit.commands.measuring.shards import index, pack
from vit.console import ProgressReport, Reporter, count_of
from vit.csv_files import describe_escapes, new_output
from vit.data.core.dataset_names import TableColumns
from vit.errors import BadInputsError, UsageError
from vit.layout import CrossvalLayout, RunLayout

if TYPE_CHECKING:
    from vit.data.checks.check import CheckResult, Finding
    from vit.data.core.samples import Source

SHOWN_CLASSES = 20
SHOWN_EXAMPLES = 3


def check(
    data: StrPath,
    *,
    labels: StrPath | None = None,
    groups: str | None = None,
    root: StrPath | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    output: StrPath | None = None,
    page: StrPath | None = None,
    strict: bool = False,
) -> "CheckResult":
    """Check a data set for broken, odd, duplicate and mislabeled images, and for test images among training images.

    The exit code is 5 if there is an error, so that the command can guard a data set in CI.

    Args:
        data: DATA as for 'vit train'
        labels: a folder of 'vit crossval DATA', whose predictions show labels that are probably wrong; or a run, for
            its validation and test images. Two more files stand beside the list: a page with pictures, and a table of
            all images to correct, which 'vit train' reads
        groups: regular expression that finds the group in each path, as data.groups of 'vit train'
        root: folder of torchvision data sets
        image_column: column of images (parquet) or of paths (CSV); null: the only one, or one with a usual name
        label_column: column of labels in a parquet table or a CSV; null: the only one, or the one with a usual name
        output: list of what to fix; null: data_check.csv, or data_check-2.csv, ...
        page: new HTML page with counts, sizes, equal images side by side, and pictures of other problems; null: none
        strict: exit code 5 for warnings too

    Returns:
        Counts, sizes and findings.

    Raises:
        BadInputsError: there is an error; or a warning, and `strict` is set.

    Example:
        vit data check photos/ --output photos_to_fix.csv
    """
    list_file = free_name(Path("data_check.csv")) if output is None else new_file(output)
    page_file = new_page(page, list_file)
    name, root = os.fspath(data), path_text(root)
    folder = None if labels is None else Path(labels).expanduser()
    columns = TableColumns(image_column, label_column)
    made = () if folder is None else (CrossvalLayout(folder).description_path, RunLayout(folder).config_path)
    if made and not any(file.is_file() for file in made):
        problem = f"--labels {folder} is not the folder of a cross-validation or a run"
        raise UsageError(problem, "make one with 'vit crossval DATA', and give its folder")

    from vit.data.core.groups import group_notes, with_groups
    from vit.data.sources.sources import open_source

    source = with_groups(open_source(name, root, allow_empty=True, columns=columns), groups, "--groups")

    from vit.data.checks.check import Finding  # imports torch, which a wrong DATA does not need
    from vit.data.checks.check import check as find_problems

    source, reporter = replace(source, notes=[*source.notes, *group_notes(source)]), Reporter()
    reporter.notice(
        f"{sum(map(len, source.splits.values())):,} images of {source.name} ({', '.join(source.splits)}), "
        f"{len(source.class_names):,} {source.task.kinds}"
    )
    with ProgressReport(reporter, "image") as progress:
        checked = find_problems(source, progress.update)
    _show(reporter, source, checked)
    if checked.findings or output is not None:
        with new_output(list_file, [field.name for field in fields(Finding)]) as table:
            for finding in checked.findings:
                table.row(astuple(finding))
        reporter.notice(describe_escapes(source.class_names, f"{list_file} has"))
    totals = f"{count_of(checked.errors, 'error')} and {count_of(len(checked.findings) - checked.errors, 'warning')}"
    nothing = "nothing found" + " in files and classes" * (folder is not None)
    reporter.line(f"\n{totals}, listed with what to do in {list_file}" if checked.findings else f"\n{nothing}")
    failed = checked.errors > 0 or (strict and bool(checked.findings))
    if page_file is not None:
        from vit.report.check_page import write_check_page

        write_check_page(page_file, source, checked, list_file.name)
        reporter.line(f"\npage in {page_file}")
    elif any(finding.other_path for finding in checked.findings):
        reporter.line("--page FILE shows the images of each pair side by side")
    of_data = {"root": root, "groups": groups, "image_column": image_column, "label_column": label_column}
    following = shell_command("vit", "train", name, options={f"data.{key}": value for key, value in of_data.items()})
    if folder is not None:
        from vit.commands.measuring.label_check import check_labels  # imports torch

        if (corrected := check_labels(source, folder, list_file, reporter)) is not None:
            following = shell_command("vit", "train", corrected, options={})
    if failed:
        following = shell_command("vit", "data", "check", name, options={"labels": folder, **of_data, "strict": strict})
    reporter.next_command(following)
    if failed:
        raise BadInputsError(f"{name} has {totals}", f"see {list_file}")
    return checked


data = {"check": check, "next": next_labels, "pack": pack, "index": index}


def _show(reporter: Reporter, source: "Source", checked: "CheckResult") -> None:
    rows = []
    for split, ratio in checked.ratios.items():
        sizes = checked.sizes[split]
        images, readable = f"{checked.num_images[split]:,}", f"{sizes.readable:,}"
        typical = f"{sizes.median_width}x{sizes.median_height}"
        rows.append((split, images, readable, ratio, typical, sizes.smallest, sizes.largest))
    kind, sides = source.task.kind, ("median pixels", "least side", "greatest side")
    reporter.table(("split", "images", "readable", f"largest to smallest {kind}", *sides), rows)
    order = sorted(range(len(source.class_names)), key=lambda number: int(checked.counts["train"][number]))
    title = f", the {SHOWN_CLASSES} smallest of {len(order):,}" if len(order) > SHOWN_CLASSES else ""
    reporter.line(f"\nimages {source.task.of} a {kind}{title}")
    of_classes = []
    for number in order[:SHOWN_CLASSES]:
        of_classes.append((source.class_names[number], *(f"{counts[number]:,}" for counts in checked.counts.values())))
    reporter.table((kind, *checked.counts), of_classes)
    if not checked.findings:
        return
    by_kind: dict[tuple[str, str], list[Finding]] = {}
    for finding in checked.findings:
        by_kind.setdefault((finding.severity, finding.kind.replace("_", " ")), []).append(finding)
    reporter.line("\nfindings")
    reporter.table(("severity", "kind", "count"), ((*kind, f"{len(same):,}") for kind, same in by_kind.items()))
    for (severity, kind), same in by_kind.items():
        reporter.line(f"\n{severity}: {kind}; {same[0].suggestion}")
        for finding in same[:SHOWN_EXAMPLES]:
            here = finding.path or " ".join(part for part in (finding.split, finding.label) if part)
            there = f" and {finding.other_path}" if finding.other_path else ""
            if finding.other_label != finding.label and there:
                there += f" ({finding.label} and {finding.other_label})"
            reporter.line(f"  {here}{there}: {finding.detail}" if here else f"  {finding.detail}")
        if len(same) > SHOWN_EXAMPLES:
            reporter.line(f"  ... and {len(same) - SHOWN_EXAMPLES:,} more")
