"""Which images of a pool to label next: `vit data next RUN POOL`"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vit.atomic_files import free_name
from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import Model, Paths, PositiveInt, StrPath, new_file, path_list, shell_command
from vit.commands.cli.recipe_options import read_recipe
from vit.console import Reporter, count_of, percent, tracked
from vit.csv_files import new_output
from vit.errors import DataError, UsageError
from vit.inference.files import TABLES, list_images
from vit.ranges import Seed

if TYPE_CHECKING:
    from torch import Tensor

    from vit.data.core.image_bytes import ImageError
    from vit.inference.predictor import Predictor

    HashedImage = tuple[str, str, Tensor | ImageError]  # path, content hash, and input of the network

SHOWN = 10
BY = {  # what is known of each way to choose (docs/guides/few_images.md)
    "random": "Random images are also fit to measure an accuracy with. They need more labels than doubtful ones.",
    "doubt": "On four sets of images, 300 labels chosen so were as good as 344 to 647 random ones (linear probes, 5 "
    "seeds; on two of the sets beyond chance). They are harder than the pool, so measure no accuracy with them.",
}


@dataclass(frozen=True)
class ImageToLabel:
    """An image that was chosen: its path, its most probable class, and the probability of that class."""

    path: str
    suggested: str
    probability: float


@dataclass(frozen=True)
class NextLabels:
    """What `vit data next` chose."""

    images: list[ImageToLabel]  # chosen images, in the order of their choice
    table: Path  # CSV to fill in, which `vit train` reads then
    page: Path  # page with pictures
    known: int  # number of images of the pool that the run knows already
    unreadable: dict[str, str]  # reason for each image that cannot be read


def next_labels(
    run: Model,
    pool: Paths,
    *,
    count: PositiveInt = 100,
    by: Literal["doubt", "random"] = "doubt",
    recursive: bool = False,
    seed: Seed = 0,
    output: StrPath | None = None,
    device: str = "auto",
) -> NextLabels:
    """Choose the images of a pool to label next, for a table that 'vit train' reads when the labels are filled in.

    The table has the chosen images first, with an empty label, and then all images of the run with their labels and
    splits. Images that the run knows, and copies in the pool, are left out by their bytes.

    Args:
        run: the run that the labels are for
        pool: files, folders or patterns of images without labels
        count: number of images to choose
        by: doubt: images with a small margin between two classes, which differ from one another (k-means++ on features,
            weighted by the doubt). random: equal chances
        recursive: also read the folders inside folders
        seed: number that decides the draws
        output: new CSV file; null: to_label.csv, or to_label-2.csv, ...; a page with pictures stands beside it
        device: cpu, cuda or mps; auto: an accelerator if there is one

    Returns:
        The chosen images, the table and the page.

    Example:
        vit data next runs/photos/vit_tiny_patch16_224/20260101-120000 unlabeled/ --count 100
    """
    name = os.fspath(run)
    table = free_name(Path("to_label.csv"), [".html"]) if output is None else new_file(output)
    if table.suffix.lower() not in TABLES:
        raise UsageError(f"--output {table} is not a table that 'vit train' reads", "give a name that ends in .csv")
    check_model(name)
    page = new_file(table.with_suffix(".html"), "--output: the page")
    listed = list_images(path_list(pool), recursive)
    if listed.reader is not None:
        raise UsageError("POOL has images of a table, of shards or of other machines", "give folders or files")

    import numpy as np

    from vit.checkpoints.run import RunDirectory
    from vit.inference.answers.nearest import choose_doubtful
    from vit.inference.predictor import load
    from vit.report.picture_page import PictureRow, picture_of, write_picture_page
    from vit.training.running.run_images import images_of_run, splits_of_run

    directory, reporter = RunDirectory.around(Path(name)), Reporter()
    if directory is None:
        raise UsageError(f"{name} is not in a run folder, so the images that it knows are unknown", "give a run folder")
    reporter.notice(listed.remarks)
    predictor = load(name, device)
    if not predictor.task.is_exclusive:
        fix = "choose by the probabilities of 'vit predict --probabilities'"
        raise UsageError("vit data next takes a run of one class for an image, and this one gives several", fix)
    rows = splits_of_run(directory)
    if aside := len(rows.get("calibration", ())):
        reporter.notice(f"the table lacks {count_of(aside, 'image')} that the run has set aside for calibration")
    has_files = all(Path(row.path).is_absolute() for part in rows.values() for row in part[:1])
    own = images_of_run(directory, read_recipe(directory.config_path)).splits if has_files else {}
    if not has_files:
        reporter.notice("the images of the run are not files, so the table lists the new images alone")
    of_run = [row for part in rows.values() for row in part]
    hashes = {row.content_hash for row in of_run}
    unknown, unreadable = _read(predictor, listed.paths, hashes, reporter)
    total, num_known = len(unknown), len(listed.paths) - len(unknown) - len(unreadable)
    if total < count:
        reporter.warn(f"the pool has {count_of(total, 'image')} to label, and {count:,} were asked for")
    count = min(count, total)
    probabilities, vectors = (np.stack([one[place].numpy() for one in unknown.values()]) for place in range(2))
    if by == "random":
        places, how = np.random.default_rng(seed).permutation(total)[:count], "drawn with equal chances"
    else:
        places, how = choose_doubtful(probabilities, vectors, count, seed), "chosen by doubt and diversity"
    to_label, paths = list[ImageToLabel](), list(unknown)
    for place, values in zip(places.tolist(), probabilities[places], strict=True):
        to_label.append(ImageToLabel(paths[place], predictor.class_names[values.argmax()], float(values.max())))
    names = {Path(row.path).name for row in of_run}
    has_groups = any(row.group and Path(row.group).name not in names for row in of_run)  # bursts are named by a file
    columns = ("path", "label", "suggested", "probability", "split", *["group"] * has_groups)
    with new_output(table, columns, digits=6) as writer:  # the chosen images without a label, then those of the run
        for one in to_label:
            writer.row((one.path, None, one.suggested, one.probability, "train", *[None] * has_groups))
        for split, samples in own.items():
            for at, row in enumerate(rows[split] if split != "calibration" else ()):
                writer.row((str(samples.file(at).absolute()), row.label, None, None, split, *[row.group] * has_groups))
    shown = [(rank, one.path, one.suggested, percent(one.probability, 1)) for rank, one in enumerate(to_label, 1)]
    about = f"{count:,} of {total:,} images, {how}. The class is a suggestion of the network, with its probability."
    preprocess = predictor.preprocess
    pictures = [picture_of(path, f"{rank}. {label} {sure}", page, preprocess) for rank, path, label, sure in shown]
    write_picture_page(page, "Images to label next", [about, BY[by]], [PictureRow("", "", pictures)])
    reporter.notice(f"{count_of(total, 'image')} to choose from; left out: {num_known:,} known ones or copies")
    if unreadable:
        reporter.warn(f"{count_of(len(unreadable), 'image')} cannot be read")
        reporter.some([f"{path}: {reason}" for path, reason in unreadable.items()])
    reporter.notice(predictor.first_frames.warning)
    reporter.table(("rank", "image", "suggested", "probability"), shown[:SHOWN])
    reporter.line(f"\n{BY[by]}")
    reporter.facts([("look", str(page)), ("fill in", str(table))])
    empty = "columns label and group" if has_groups else "column label"
    reporter.line(f"fill in the {empty} of the first {count_of(count, 'line')}, or remove the line, and train")
    reporter.next_command(shell_command("vit", "train", table, options={}))
    return NextLabels(to_label, table, page, num_known, unreadable)


def _read(
    predictor: "Predictor", paths: Sequence[str], known: set[str], reporter: Reporter
) -> "tuple[dict[str, tuple[Tensor, Tensor]], dict[str, str]]":
    """{path: (probabilities (C,), features (D,))} of contents that the run does not know, and {path: reason}."""
    import torch

    from vit.inference.engine import Engine
    from vit.inference.prediction import read_hashed, rows_of

    engine = predictor.engine
    if not isinstance(engine, Engine) or not engine.keep_features():
        raise UsageError("the last layer of this network is not known, so it has no features", "give another run")

    def compute(part: "list[HashedImage]") -> "list[tuple[str, str, tuple[Tensor, Tensor] | str]]":
        images = [image for *_, image in part if isinstance(image, torch.Tensor)]
        pairs = iter(zip(*engine.probabilities_and_features(torch.stack(images)), strict=True)) if images else iter(())
        answers = [next(pairs) if isinstance(image, torch.Tensor) else image.reason for *_, image in part]
        return [(path, content_hash, answer) for (path, content_hash, _), answer in zip(part, answers, strict=True)]

    read = partial(read_hashed, preprocess=predictor.preprocess, reader=None, frames=predictor.first_frames)
    seen, unreadable = set(known), dict[str, str]()
    unknown: dict[str, tuple[Tensor, Tensor]] = {}
    for path, content_hash, answer in tracked(rows_of(engine, paths, 64, read, compute), len(paths), reporter, "image"):
        if isinstance(answer, str):
            unreadable[path] = answer
        elif content_hash not in seen:
            seen.add(content_hash)
            unknown[str(Path(path).resolve())] = answer
    if not unknown:
        known_ones = f"the run knows {len(paths) - len(unreadable):,} of {len(paths):,} files"
        problem = f"the pool has no image to label: {known_ones}, and {len(unreadable):,} cannot be read"
        raise DataError(problem, "give other images")
    return unknown, unreadable
