"""`vit data check DATA`: what is wrong with a data set, before it is trained on."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.commands.arguments import new_file, parse
from vit.commands.parser import Parser
from vit.console import ProgressReport, Reporter
from vit.csv_files import new_table
from vit.errors import BadInputsError, ResourceError, UsageError, nearest

if TYPE_CHECKING:
    from vit.data.check import Checked, Finding
    from vit.data.samples import Source

ACTIONS = ("check",)
SHOWN_CLASSES = 20
SHOWN_EXAMPLES = 3


def data(arguments: Sequence[str]) -> int:
    """Run what the first word asks for."""
    action, *rest = arguments or [""]
    if action in ("--help", "-h"):
        return check_data(["--help"])
    if action not in ACTIONS:
        problem = f"vit data cannot {action!r}" if action else "vit data needs to be told what to do"
        raise UsageError(problem, f"{nearest(action, ACTIONS)}, as in 'vit data check photos/'")
    return check_data(rest)


def check_data(arguments: Sequence[str]) -> int:
    """Open every image once, print what is wrong, and write the list of what to fix."""
    parser = Parser(
        "data check",
        "Check a data set for broken, odd, duplicate and mislabeled images, and for test images that were trained on. "
        "Exit code 5 where there is an error, so that it can guard a data set in CI.",
        "vit data check photos/ --output photos_to_mend.csv",
    )
    parser.add_argument("data", metavar="DATA", type=str, help="as for vit train")
    parser.add_argument("--root", type=str | None, default=None, help="folder of torchvision data sets")
    parser.add_argument(
        "--output",
        type=str | None,
        default=None,
        help="the list of what to fix; null: data_check.csv, or data_check-2.csv, ...",
    )
    parser.add_argument("--strict", action="store_true", help="exit code 5 for warnings too")
    given = parse(parser, arguments)
    output = _output(given.output)

    from vit.data.sources import open_source

    source = open_source(given.data, given.root, allow_empty=True)

    from vit.data.check import check

    reporter = Reporter()
    reporter.notice(
        f"{sum(map(len, source.splits.values())):,} images of {source.name} ({', '.join(source.splits)}), "
        f"{len(source.class_names):,} classes"
    )
    progress = ProgressReport(reporter, "image")
    try:
        checked = check(source, progress.update)
    finally:
        progress.close()
    _show(reporter, source, checked)
    return _conclude(reporter, given, output, checked)


def _output(wanted: str | None) -> Path:
    from vit.inference.files import free_name

    return free_name(Path("data_check.csv")) if wanted is None else new_file(wanted)


def _show(reporter: Reporter, source: "Source", checked: "Checked") -> None:
    rows = []
    for split, counts in checked.counts.items():
        sizes = checked.sizes[split]
        images, present = int(counts.sum()), counts[counts > 0]
        ratio = f"{present.max() / present.min():.1f}" if len(present) else ""
        typical = f"{sizes.median_width}x{sizes.median_height}"
        rows.append((split, f"{images:,}", f"{sizes.readable:,}", ratio, typical, sizes.smallest, sizes.largest))
    names = ("split", "images", "readable", "largest to smallest class", "median pixels", "least side", "greatest side")
    reporter.table(names, rows)
    order = sorted(range(len(source.class_names)), key=lambda number: int(checked.counts["train"][number]))
    title = f", the {SHOWN_CLASSES} smallest of {len(order):,}" if len(order) > SHOWN_CLASSES else ""
    reporter.line(f"\nimages of a class{title}")
    reporter.table(
        ("class", *checked.counts),
        (
            (source.class_names[number], *(f"{counts[number]:,}" for counts in checked.counts.values()))
            for number in order[:SHOWN_CLASSES]
        ),
    )
    if checked.findings:
        _show_findings(reporter, checked.findings)


def _show_findings(reporter: Reporter, findings: "list[Finding]") -> None:
    counts = Counter((finding.severity, finding.kind) for finding in findings)
    reporter.line("\nfindings")
    reporter.table(
        ("severity", "kind", "count"),
        ((severity, kind.replace("_", " "), f"{count:,}") for (severity, kind), count in counts.items()),
    )
    for (severity, kind), count in counts.items():
        some = [finding for finding in findings if (finding.severity, finding.kind) == (severity, kind)]
        reporter.line(f"\n{severity}: {kind.replace('_', ' ')}; {some[0].suggestion}")
        for finding in some[:SHOWN_EXAMPLES]:
            reporter.line(f"  {_words(finding)}")
        if count > SHOWN_EXAMPLES:
            reporter.line(f"  ... and {count - SHOWN_EXAMPLES:,} more")


def _words(finding: "Finding") -> str:
    """A finding in a line."""
    here = finding.path or " ".join(part for part in (finding.split, finding.label) if part)
    there = f" and {finding.other_path}" if finding.other_path else ""
    if finding.other_label != finding.label and there:
        there += f" ({finding.label} and {finding.other_label})"
    return f"{here}{there}: {finding.detail}" if here else finding.detail


def _conclude(reporter: Reporter, given: Any, output: Path, checked: "Checked") -> int:
    """Write the list, say the verdict and the next command; raise BadInputsError where the check failed."""
    errors = checked.errors
    warnings = len(checked.findings) - errors
    if checked.findings or given.output is not None:
        _write(output, checked.findings)
    found = f"{_count(errors, 'error')} and {_count(warnings, 'warning')}"
    reporter.line(f"\n{found}, listed with what to do in {output}" if checked.findings else "\nnothing found")
    failed = errors > 0 or (given.strict and warnings > 0)
    named = shlex.quote(given.data)
    if failed:
        reporter.next_command(f"vit data check {named}" + (f" --root {shlex.quote(given.root)}" if given.root else ""))
        raise BadInputsError(f"{given.data} has {found}", f"see {output}")
    reporter.next_command(f"vit train {named}" + (f" --data.root {shlex.quote(given.root)}" if given.root else ""))
    return 0


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'s' * (number != 1)}"


def _write(output: Path, findings: "Iterable[Finding]") -> None:
    """The findings as a CSV; it never takes the place of a file."""
    from vit.data.check import Finding

    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with new_table(output, [field.name for field in fields(Finding)], mode="x") as table:
            for finding in findings:
                table.row(astuple(finding))
    except OSError as error:
        raise ResourceError(f"cannot write {output}: {error.strerror}", "choose another --output") from error
