"""`vit explain RUN|CKPT IMAGES...`: parts of an image that speak for its class, and tests of the maps"""

import os
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
from vit.console import Reporter, count_of, tracked
from vit.csv_files import new_table
from vit.errors import DataError
from vit.inference.files import list_files
from vit.layout import ExplanationsLayout

if TYPE_CHECKING:
    from vit.explain.explainer import MethodScore

COLUMNS = ("path", "label", "explained", "probability", "method", "deletion", "insertion", "random", "picture")
AREAS = (
    "areas under the curve of the class's probability while the most important squares go first (deletion: lower is "
    "better) or come first (insertion: higher is better)"
)


@dataclass(frozen=True)
class ExplanationSummary:
    """Files and scores of `vit.explain`."""

    folder: Path  # folder with explanations.csv and a picture of each image
    page: Path  # page with all explanations
    num_images: int  # number of explained images
    unreadable: dict[str, str]  # reason for each file that could not be read
    scores: "list[MethodScore]"  # scores of each method over all images; empty without faithfulness


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

    Example:
        vit explain runs/photos/vit_tiny_patch16_224/20260101-120000 holiday/beach.jpg --method rollout,gradcam
    """
    model, inputs = os.fspath(model), path_list(images)
    wanted = None if output is None else new_file(output)
    check_model(model, unfinished)
    listed = list_files(inputs, recursive)
    files = count_of(len(listed.paths), "file")

    from vit.checkpoints.run import slug
    from vit.data.pixels.decode import ImageError
    from vit.explain.explainer import Explainer
    from vit.inference.predictor import load
    from vit.models.vision_transformer import VisionTransformer
    from vit.report.explain_page import ExplainPage
    from vit.report.page.image_figures import head_grid, strip
    from vit.report.page.style import rendered

    predictor, reporter = load(model, device, unfinished=unfinished), Reporter()
    warn_of_unfinished(predictor.lacks, reporter)
    explainer = Explainer(predictor, method, label, layers, faithfulness)
    folder = new_folder(wanted, Path("explanations"))
    reporter.notice(f"{files}, {', '.join(explainer.methods)}, {predictor.engine.device.type}, 32-true")
    reporter.notice(listed.remarks)
    page = ExplainPage(f"Explanations of {files}", list(explainer.methods), lacks=predictor.lacks)
    page_file, unreadable = ExplanationsLayout(folder).page_path, dict[str, str]()
    with new_table(ExplanationsLayout(folder).table_path, COLUMNS, digits=6) as table:
        for number, path in enumerate(tracked(listed.paths, len(listed.paths), reporter, "image"), start=1):
            try:
                result = explainer.explain(path)
            except ImageError as error:
                unreadable[path] = error.reason
                continue
            picture, heads = folder / f"{number:04}-{slug(Path(path).stem)[:60]}.png", None
            picture.write_bytes(rendered(strip(result), "png"))
            if result.heads is not None:
                heads = rendered(head_grid(result, list(explainer.layers)), "png")
                picture.with_name(f"{picture.stem}-heads.png").write_bytes(heads)
            page.add(result, heads)
            for name in result.maps:
                tested = result.faithfulness.get(name)
                areas = (tested.deletion, tested.insertion, tested.random) if tested else (None, None, None)
                table.row((path, result.label, result.explained, result.probability, name, *areas, picture.name))
            table.flush()
    page.write(page_file, list(unreadable.items()))
    if scores := page.scores():
        columns = ("method", "deletion", "better than random on", "insertion", "better than random on", "random")
        rows = []
        for score in scores:
            deletion = f"{score.deletion:.3f}", f"{score.deletion_better} of {score.num_images}"
            insertion = f"{score.insertion:.3f}", f"{score.insertion_better} of {score.num_images}"
            rows.append((score.method, *deletion, *insertion, f"{score.random:.3f}"))
        reporter.table(columns, rows)
        reporter.line(AREAS)
    if unreadable:
        reporter.notice(f"\nWARNING: {count_of(len(unreadable), 'file')} could not be read")
        reporter.some([f"{path}: {reason}" for path, reason in unreadable.items()])
    if not page.cards:
        raise DataError(f"no image can be read in {count_of(len(listed.paths), 'file')}", f"see {page_file}")
    reporter.line(f"\n{count_of(len(page.cards), 'image')} explained in {folder}, page in {page_file}")
    is_vit = isinstance(explainer.network, VisionTransformer)
    options = {"recursive": recursive, "gallery": not is_vit, "unfinished": not is_vit and bool(predictor.lacks)}
    reporter.next_command(shell_command("vit", "inspect" if is_vit else "predict", model, *inputs, options=options))
    return ExplanationSummary(folder, page_file, len(page.cards), unreadable, scores)
