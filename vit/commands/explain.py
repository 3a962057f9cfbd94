"""`vit explain RUN|CKPT IMAGES...`: which parts of an image spoke for a class, and whether that is true."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.checkpoints.model_path import check_model
from vit.commands.arguments import new_file, parse
from vit.commands.parser import Parser
from vit.console import ProgressReport, Reporter
from vit.csv_files import Cell, new_table
from vit.errors import DataError, ResourceError
from vit.inference.files import free_name, list_files

if TYPE_CHECKING:
    from vit.explain.explainer import Explanation
    from vit.report.explain_page import Score

COLUMNS = (
    "path", "label", "explained", "probability", "method", "deletion", "insertion", "random", "picture"
)  # fmt: skip


def explain(arguments: Sequence[str]) -> int:
    """Explain images one by one; a picture of each, a page of all, a row for each map."""
    parser = Parser(
        "explain",
        "Show which parts of an image spoke for its class, by several methods side by side, and measure whether each "
        "one beats chance.",
        "vit explain runs/photos/vit_tiny_patch16_224/20260101-120000 holiday/beach.jpg --method rollout,gradcam",
    )
    parser.add_argument("model", metavar="RUN|CKPT", type=str, help="a run folder or a checkpoint")
    parser.add_argument("images", metavar="IMAGES", type=str, nargs="+", help="files, folders, patterns")
    parser.add_argument(
        "--method",
        type=str,
        default="all",
        help="attention, rollout, relevance, gradcam, several with commas, all that the network has (a CNN: gradcam, "
        "which needs the extra 'explain'), or best: relevance for a ViT, gradcam for a CNN",
    )
    parser.add_argument(
        "--label", type=str | None, default=None, help="explain this class; null: the most probable one of each image"
    )
    parser.add_argument(
        "--layers",
        type=str,
        default="",
        help="also show every attention head of these blocks: all, or numbers from 0 with commas",
    )
    parser.add_argument(
        "--faithfulness",
        type=bool,
        default=True,
        help="measure deletion and insertion, about a hundred predictions for each image",
    )
    parser.add_argument("--recursive", action="store_true", help="read folders in folders")
    parser.add_argument(
        "--output", type=str | None, default=None, help="a new folder; null: explanations, or explanations-2, ..."
    )
    parser.add_argument("--device", type=str, default="auto", help="cpu, cuda, mps")
    given = parse(parser, arguments)
    wanted = None if given.output is None else new_file(given.output)
    check_model(given.model)
    files = list_files(given.images, given.recursive)

    from vit.data.decode import ImageError
    from vit.explain.explainer import Explainer
    from vit.inference.predictor import load
    from vit.models.vision_transformer import VisionTransformer
    from vit.report.explain_page import ExplainPage
    from vit.report.overlay import head_grid, strip
    from vit.report.style import rendered

    reporter = Reporter()
    explainer = Explainer(load(given.model, given.device), given.method, given.label, given.layers, given.faithfulness)
    folder = wanted or free_name(Path("explanations"))
    reporter.notice(f"{len(files):,} files, {', '.join(explainer.methods)}, {explainer.predictor.engine.device.type}")

    page = ExplainPage(f"Explanations of {len(files)} file{'s' * (len(files) != 1)}", list(explainer.methods))
    unreadable: list[tuple[str, str]] = []
    progress = ProgressReport(reporter, "image")
    _make(folder)
    with new_table(folder / "explanations.csv", COLUMNS, digits=6) as table:
        progress.update(0, len(files))
        for place, path in enumerate(files, start=1):
            try:
                found = explainer.explain(path)
            except ImageError as error:
                unreadable.append((path, error.reason))
                continue
            finally:
                progress.update(place, len(files))
            picture = folder / f"{place:04}-{_slug(path)}.png"
            picture.write_bytes(rendered(strip(found), "png"))
            heads = rendered(head_grid(found, list(explainer.layers)), "png") if found.heads is not None else None
            if heads is not None:
                picture.with_name(f"{picture.stem}-heads.png").write_bytes(heads)
            page.add(found, heads)
            for row in _rows(found, picture.name):
                table.row(row)
            table.flush()
    progress.close()
    page.write(folder / "explanations.html", unreadable)
    _summarize(reporter, page.scores(), unreadable)
    if not page.cards:
        raise DataError(f"none of {len(files)} files is an image that can be read", f"see {folder}/explanations.html")
    reporter.line(f"\n{len(page.cards):,} images explained in {folder}, page in {folder}/explanations.html")
    model, images = shlex.quote(given.model), " ".join(map(shlex.quote, given.images))
    is_vit = isinstance(explainer.network, VisionTransformer)
    reporter.next_command(f"vit inspect {model} {images}" if is_vit else f"vit predict {model} {images} --gallery")
    return 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ResourceError(f"cannot make {folder}: {error.strerror}", "choose another --output") from error


def _slug(path: str) -> str:
    """A file's name without its ending, as part of a file name of ours."""
    from vit.checkpoints.run import slug

    return slug(Path(path).stem)[:60]


def _rows(found: "Explanation", picture: str) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for method in found.maps:
        one = found.faithfulness.get(method)
        areas = [one.deletion, one.insertion, one.random] if one else [None, None, None]
        rows.append([found.path, found.label, found.explained, found.probability, method, *areas, picture])
    return rows


def _summarize(reporter: Reporter, scores: "list[Score]", unreadable: list[tuple[str, str]]) -> None:
    if scores:
        reporter.table(
            ("method", "deletion", "better than random on", "insertion", "better than random on", "random"),
            [
                (
                    one.method,
                    f"{one.deletion:.3f}",
                    f"{one.deletion_better} of {one.images}",
                    f"{one.insertion:.3f}",
                    f"{one.insertion_better} of {one.images}",
                    f"{one.random:.3f}",
                )
                for one in scores
            ],
        )
        reporter.line(
            "areas under the curve of the class's probability while the most important squares go first (deletion: "
            "lower is better) or come first (insertion: higher is better)"
        )
    if unreadable:
        reporter.notice(f"\nWARNING: {len(unreadable):,} files could not be read")
        for path, reason in unreadable[:10]:
            reporter.notice(f"  {path}: {reason}")
