"""`vit explain RUN|CKPT IMAGES...`: parts of an image that speak for its class, and tests of the maps"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import (
    Model,
    Paths,
    StrPath,
    new_file,
    new_folder,
    path_list,
    shell_command,
    warn_of_unfinished,
)
from vit.console import ProgressReport, Reporter, count_of
from vit.csv_files import CsvValue, new_table
from vit.errors import DataError
from vit.inference.files import list_files
from vit.layout import ExplanationsLayout

if TYPE_CHECKING:
    from vit.explain.explainer import Explainer, Explanation, MethodScore
    from vit.report.explain_page import ExplainPage

COLUMNS = (
    "path", "label", "explained", "probability", "method", "deletion", "insertion", "random", "picture"
)  # fmt: skip
SHOWN_UNREADABLE = 10
Unreadable = list[tuple[str, str]]  # (path, reason)


@dataclass(frozen=True)
class ExplanationSummary:
    """Files and scores of `vit.explain`.

    Attributes:
        folder: folder with explanations.csv and a picture of each image.
        page: page with all explanations.
        num_images: number of explained images.
        unreadable: reason for each file that could not be read.
        scores: scores of each method over all images; empty without faithfulness.
    """

    folder: Path
    page: Path
    num_images: int
    unreadable: dict[str, str]
    scores: "list[MethodScore]"


def explain(
    model: Model,
    images: Paths,
    *,
    method: str = "all",
    label: str | None = None,
    layers: str = "",
    faithfulness: bool = True,
    recursive: bool = False,
    output: StrPath | None = None,
    device: str = "auto",
    unfinished: bool = False,
) -> ExplanationSummary:
    """Show which parts of an image speak for its class, by several methods, and measure whether each one beats chance.

    Args:
        model: a run folder or a checkpoint
        images: files, folders, patterns
        method: attention, rollout, relevance, gradcam; several with commas; all: all that the network has (a CNN has
            gradcam, which needs the extra 'explain'); best: relevance for a ViT, gradcam for a CNN
        label: the class or label to explain; null: the most probable one of each image
        layers: also show every attention head of these blocks: all, or numbers from 0 with commas
        faithfulness: measure deletion and insertion, which takes about a hundred predictions for each image
        recursive: also read the folders inside folders
        output: a new folder; null: explanations, or explanations-2, ...
        device: cpu, cuda or mps; auto: an accelerator if there is one
        unfinished: whether a model whose training is not finished may be used, as it is

    Returns:
        The folder, and the scores of each method.

    Raises:
        VitError: the model, a method or a class does not exist, or none of the files is a readable image.

    Example:
        vit explain runs/photos/vit_tiny_patch16_224/20260101-120000 holiday/beach.jpg --method rollout,gradcam
    """
    model = os.fspath(model)
    wanted = None if output is None else new_file(output)
    check_model(model, unfinished)
    listed = list_files(path_list(images), recursive)
    files = listed.paths

    from vit.explain.explainer import Explainer
    from vit.inference.predictor import load
    from vit.report.explain_page import ExplainPage

    predictor, reporter = load(model, device, unfinished=unfinished), Reporter()
    warn_of_unfinished(predictor.lacks, reporter)
    explainer = Explainer(predictor, method, label, layers, faithfulness)
    folder = new_folder(wanted, Path("explanations"))
    reporter.notice(
        f"{count_of(len(files), 'file')}, {', '.join(explainer.methods)}, {explainer.predictor.engine.device.type}"
    )
    if listed.not_read:
        reporter.notice(listed.not_read)
    page = ExplainPage(
        f"Explanations of {count_of(len(files), 'file')}", list(explainer.methods), lacks=predictor.lacks
    )
    unreadable = _explain_all(explainer, files, folder, page, reporter)
    page_file = ExplanationsLayout(folder).page_path
    page.write(page_file, unreadable)
    _show(reporter, page.scores(), unreadable)
    if not page.cards:
        raise DataError(f"none of {len(files)} files is an image that can be read", f"see {page_file}")
    reporter.line(f"\n{count_of(len(page.cards), 'image')} explained in {folder}, page in {page_file}")
    reporter.next_command(_next(explainer, model, path_list(images), recursive))
    return ExplanationSummary(folder, page_file, len(page.cards), dict(unreadable), page.scores())


def _explain_all(
    explainer: "Explainer", files: Sequence[str], folder: Path, page: "ExplainPage", reporter: Reporter
) -> Unreadable:
    """Write rows and pictures of all files, and add them to the page; returns the files that cannot be read."""
    from vit.data.pixels.decode import ImageError

    unreadable: Unreadable = []
    with (
        ProgressReport(reporter, "image") as progress,
        new_table(ExplanationsLayout(folder).table_path, COLUMNS, digits=6) as table,
    ):
        progress.update(0, len(files))
        for number, path in enumerate(files, start=1):
            try:
                found = explainer.explain(path)
            except ImageError as error:
                unreadable.append((path, error.reason))
                continue
            finally:
                progress.update(number, len(files))
            picture = folder / f"{number:04}-{_file_name(path)}.png"
            page.add(found, _draw(found, picture, list(explainer.layers)))
            for row in _rows(found, picture.name):
                table.row(row)
            table.flush()
    return unreadable


def _draw(found: "Explanation", picture: Path, layers: list[int]) -> bytes | None:
    """Write the maps of an image side by side; returns the figure of its attention heads, if they were asked for."""
    from vit.report.page.overlay import head_grid, strip
    from vit.report.page.style import rendered

    picture.write_bytes(rendered(strip(found), "png"))
    if found.heads is None:
        return None
    heads = rendered(head_grid(found, layers), "png")
    picture.with_name(f"{picture.stem}-heads.png").write_bytes(heads)
    return heads


def _file_name(path: str) -> str:
    """The name of a file without its ending, as part of a new file name."""
    from vit.checkpoints.run import slug

    return slug(Path(path).stem)[:60]


def _rows(found: "Explanation", picture: str) -> list[list[CsvValue]]:
    rows: list[list[CsvValue]] = []
    for method in found.maps:
        one = found.faithfulness.get(method)
        areas = [one.deletion, one.insertion, one.random] if one else [None, None, None]
        rows.append([found.path, found.label, found.explained, found.probability, method, *areas, picture])
    return rows


def _show(reporter: Reporter, scores: "list[MethodScore]", unreadable: Unreadable) -> None:
    if scores:
        columns = ("method", "deletion", "better than random on", "insertion", "better than random on", "random")
        reporter.table(columns, [_score_row(score) for score in scores])
        reporter.line(
            "areas under the curve of the class's probability while the most important squares go first (deletion: "
            "lower is better) or come first (insertion: higher is better)"
        )
    if unreadable:
        reporter.notice(f"\nWARNING: {len(unreadable):,} files could not be read")
        for path, reason in unreadable[:SHOWN_UNREADABLE]:
            reporter.notice(f"  {path}: {reason}")


def _score_row(score: "MethodScore") -> tuple[str, ...]:
    return (
        score.method,
        f"{score.deletion:.3f}",
        f"{score.deletion_better} of {score.num_images}",
        f"{score.insertion:.3f}",
        f"{score.insertion_better} of {score.num_images}",
        f"{score.random:.3f}",
    )


def _next(explainer: "Explainer", model: str, images: Sequence[StrPath], recursive: bool) -> str:
    from vit.models.vision_transformer import VisionTransformer

    is_vit = isinstance(explainer.network, VisionTransformer)
    options = {
        "recursive": recursive, "gallery": not is_vit, "unfinished": not is_vit and bool(explainer.predictor.lacks)
    }  # fmt: skip
    return shell_command("vit", "inspect" if is_vit else "predict", model, *images, options=options)
