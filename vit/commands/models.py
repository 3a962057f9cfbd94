"""`vit models [PATTERN]`: networks with parameters and FLOPs."""

from collections.abc import Sequence
from fnmatch import fnmatch

from jsonargparse.typing import PositiveInt

from vit.commands.arguments import Parser, parse
from vit.console import Reporter
from vit.errors import UsageError
from vit.models.names import OWN, suggestion, timm_names


def models(arguments: Sequence[str]) -> int:
    """List the catalog, or every network, timm's too, whose name matches a pattern."""
    parser = Parser(
        "models",
        "List networks: the catalog, or all of ours and timm's that match a pattern.",
        "vit models 'convnext*'",
    )
    parser.add_argument(
        "pattern",
        metavar="PATTERN",
        type=str | None,
        nargs="?",
        default=None,
        help="a shell pattern; null: the catalog",
    )
    parser.add_argument("--limit", type=PositiveInt, default=40, help="lines at most")
    given = parse(parser, arguments)
    if given.pattern is not None and timm_names() and not any(fnmatch(n, given.pattern) for n in (*OWN, *timm_names())):
        raise UsageError(f"no network matches {given.pattern!r}", suggestion(given.pattern.strip("*")))

    from vit.models.catalog import CATALOG, names
    from vit.models.spec import describe

    reporter = Reporter()
    matching = list(CATALOG) if given.pattern is None else names(given.pattern)
    if not matching:
        raise UsageError(f"no network matches {given.pattern!r}", suggestion(given.pattern.strip("*")))
    rows = [
        (name, size, f"{cost.parameters:,}", f"{cost.flops / 1e9:.2f}", about)
        for name, size, cost, about in describe(matching[: given.limit])
    ]
    reporter.table(("name", "pixels", "parameters", "GFLOPs", "about"), rows)
    if len(matching) > given.limit:
        reporter.line(f"... and {len(matching) - given.limit} more; narrow the pattern or raise --limit")
    if given.pattern is None:
        reporter.line("\nEvery model of timm can be used as well: vit models 'convnext*'")
    reporter.line("GFLOPs: of one image's forward pass, a multiply-add counted as two; parameters: with 1,000 classes")
    reporter.next_command(f"vit train DATA --network {rows[0][0] if rows else matching[0]}")
    return 0
