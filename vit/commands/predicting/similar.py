"""`vit similar EMBEDDINGS IMAGES...`: the images of a file of embeddings that are most like others"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vit.atomic_files import free_name
from vit.checkpoints.model_path import check_weights
from vit.commands.cli.arguments import Paths, PositiveInt, StrPath, new_file, path_list
from vit.console import Reporter, count_of
from vit.errors import BadInputsError, DataError, UsageError
from vit.inference.files import list_images

if TYPE_CHECKING:
    from vit.inference.embeddings import Embedding, Embeddings

SHOWN_IMAGES = 10  # of which the terminal lists the neighbors; the page has all


@dataclass(frozen=True)
class SimilarImages:
    """The nearest images of one image."""

    path: str  # path of the image
    neighbors: tuple[tuple[str, float], ...] = ()  # path and cosine similarity of each neighbor, the most similar first
    copies: tuple[str, ...] = ()  # paths of files with the same bytes, which do not count as neighbors
    error: str = ""  # reason why the image has no neighbors; "" otherwise


@dataclass(frozen=True)
class SimilarSummary:
    """What `vit.similar` found: the neighbors of each image in its order, and a page with pictures."""

    images: list[SimilarImages]
    page: Path


def similar(
    embeddings: StrPath,
    images: Paths,
    *,
    neighbors: PositiveInt = 5,
    recursive: bool = False,
    model: StrPath | None = None,
    page: StrPath | None = None,
    device: str = "auto",
) -> SimilarSummary:
    """Find the most similar images of a file of embeddings, by the cosine of their vectors.

    Args:
        embeddings: a file of 'vit embed'
        images: files, folders or patterns, whose neighbors are searched
        neighbors: number of neighbors of an image
        recursive: also read the folders inside folders
        model: the model of the file, where it has moved; null: the one that the file names. Another model is refused
        page: new HTML page with pictures; null: similar.html, or similar-2.html, ...
        device: cpu, cuda or mps; auto: an accelerator if there is one

    Returns:
        The neighbors of each image, and the page.

    Raises:
        BadInputsError: none of the images can be read.

    Example:
        vit similar embeddings.parquet new.jpg --neighbors 10
    """
    file = Path(embeddings).expanduser()
    if not file.is_file():
        raise DataError(f"there is no file {file}", "make one with 'vit embed RUN photos/'")
    page_file = free_name(Path("similar.html")) if page is None else new_file(page, "--page")
    listed = list_images(path_list(images), recursive)
    if model is not None:
        check_weights(os.fspath(model))

    from vit.inference.embeddings import Embeddings
    from vit.report.picture_page import PictureRow, picture_of, write_picture_page
    from vit.study.frozen.embedder import Embedder

    reporter = Reporter()
    known = Embeddings.read(file)
    source = known.model.source if model is None else os.fspath(model)
    if model is None and source.startswith("hf:"):  # anyone may have made the file
        raise UsageError(f"{file} names the model {source}, which would be fetched", f"give --model {source} to agree")
    reporter.notice(f"{count_of(len(known.paths), 'vector')} of {known.model.network}, which {source} computes")
    check_weights(source)
    embedder = Embedder(source, device)
    embedder.model.check_same(known.model, file)
    results = _similar(known, list(embedder.embed(listed.paths, listed.reader)), neighbors)
    reporter.notice(embedder.first_frames.warning)
    for one in results[:SHOWN_IMAGES]:
        reporter.line(f"\n{one.path}" + (f": {one.error}" if one.error else ""))
        for copy in one.copies:
            reporter.line(f"  the same file as {copy}")
        reporter.table(("cosine", "image"), [(f"{cosine:.3f}", path) for path, cosine in one.neighbors])
    if len(results) > SHOWN_IMAGES:
        reporter.line(f"\n... and {count_of(len(results) - SHOWN_IMAGES, 'more image')} on the page")
    readable, preprocess = [one for one in results if not one.error], embedder.engine.preprocess
    rows = []
    for one in results:
        words = "; ".join(filter(None, (one.error, *(f"the same file as {copy}" for copy in one.copies))))
        pictures = [picture_of(one.path, "", page_file, preprocess, listed.reader)]
        pictures += [picture_of(path, f"{cosine:.3f}", page_file, preprocess) for path, cosine in one.neighbors]
        rows.append(PictureRow(one.path, words, pictures))
    about = (
        f"{file.name}: {count_of(len(known.paths), 'image')}, {known.model.network}. The number is the cosine of two "
        "vectors: 1 is the same direction. What counts as similar depends on what the network has learned."
    )
    title = readable[0].path if len(readable) == 1 else count_of(len(results), "image")
    write_picture_page(page_file, f"Images similar to {title}", [about], rows)
    reporter.line(f"\npage in {page_file}")
    if not readable:
        raise BadInputsError(f"none of {count_of(len(results), 'image')} can be read", f"see {page_file}")
    return SimilarSummary(results, page_file)


def _similar(known: "Embeddings", queries: "Sequence[Embedding]", count: int) -> list[SimilarImages]:
    """The neighbors of each query in a file, without copies of the query."""
    import numpy as np

    from vit.inference.answers.nearest import nearest

    copies = [[place for place, own in enumerate(known.content_hashes) if own == one.content_hash] for one in queries]
    vectors = [one.vector for one in queries if one.vector is not None]
    most = min(count + max(map(len, copies)), len(known.paths))
    ranked = iter(zip(*nearest(known.vectors, np.stack(vectors), most), strict=True)) if vectors else iter(())
    results = []
    for one, own in zip(queries, copies, strict=True):
        if one.vector is None:
            results.append(SimilarImages(one.path, error=one.error))
            continue
        rows, cosines = next(ranked)
        pairs = zip(rows.tolist(), cosines.tolist(), strict=True)
        others = [(known.paths[row], cosine) for row, cosine in pairs if row not in own]
        results.append(SimilarImages(one.path, tuple(others[:count]), tuple(known.paths[row] for row in own)))
    return results
