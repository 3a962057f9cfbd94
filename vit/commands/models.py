"""`vit models [PATTERN]`: networks with parameters and FLOPs"""

from fnmatch import fnmatch

from vit.commands.cli.arguments import PositiveInt
from vit.console import Reporter
from vit.errors import UsageError
from vit.models.catalog import CATALOG, names, own_networks, suggestion
from vit.models.network_names import timm_names
from vit.models.spec import describe


def models(pattern: str | None = None, *, limit: PositiveInt = 40) -> None:
    """List networks: the catalog and your own of VIT_OWN_CODE, or all that match a pattern, those of timm too.

    Args:
        pattern: a shell pattern; null: the catalog and your own
        limit: largest number of lines

    Example:
        vit models 'convnext*'
    """
    reporter, (own, problems) = Reporter(), own_networks()
    for problem in problems:
        reporter.notice(f"WARNING: {problem}")
    matching = [*own, *CATALOG]
    if pattern is not None:
        theirs = timm_names()  # read without torch, which a pattern that matches nothing does not need
        may_match = not theirs or any(fnmatch(name, pattern) for name in (*CATALOG, *theirs))
        matching = [name for name in own if fnmatch(name, pattern)] + (names(pattern) if may_match else [])
        if not matching:
            raise UsageError(f"no network matches {pattern!r}", suggestion(pattern.strip("*")))

    rows = []
    for name, size, cost, about in describe(matching[:limit], reporter.notice):
        rows.append((name, size, f"{cost.parameters:,}", f"{cost.flops / 1e9:.2f}", about))
    reporter.table(("name", "pixels", "parameters", "GFLOPs", "about"), rows)
    if len(matching) > limit:
        reporter.line(f"... and {len(matching) - limit} more; narrow the pattern or raise --limit")
    if pattern is None:
        reporter.line("\nEvery model of timm can be used as well: vit models 'convnext*'")
    reporter.line("GFLOPs: of one image's forward pass, a multiply-add counted as two; parameters: with 1,000 classes")
    reporter.next_command(f"vit train DATA --network {rows[0][0] if rows else matching[0]}")
