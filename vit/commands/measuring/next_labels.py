"""Which images of a pool to label next: `vit data next RUN POOL`"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import Model, Paths, PositiveInt, StrPath, new_file, path_list, shell_command
from vit.console import ProgressReport, Reporter, count_of, percent
from vit.csv_files import new_table
from vit.errors import DataError, UsageError
from vit.inference.files import free_name, list_images

if TYPE_CHECKING:
    from torch import Tensor

    from vit.checkpoints.run import RunDirectory
    from vit.data.core.image_bytes import ImageError
    from vit.data.splits.split import SplitRow
    from vit.inference.answers.nearest import Floats
    from vit.inference.predictor import Predictor

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


@dataclass(frozen=True)
class _Pool:
    """What a network says of the images of a pool that it does not know."""

    paths: list[str]  # (n,) absolute paths
    probabilities: "Floats"  # (n, C)
    vectors: "Floats"  # (n, D) features
    known: int  # number of other images: those of the run, and copies
    unreadable: dict[str, str]  # reason for each image that cannot be read


def next_labels(
    run: Model,
    pool: Paths,
    *,
    count: PositiveInt = 100,
    by: Literal["doubt", "random"] = "doubt",
    recursive: bool = False,
    seed: int = 0,
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

    Raises:
        VitError: the run or the pool cannot be used, or the table cannot be written.

    Example:
        vit data next runs/photos/vit_tiny_patch16_224/20260101-120000 unlabeled/ --count 100
    """
    name, table = os.fspath(run), free_name(Path("to_label.csv"), [".html"]) if output is None else new_file(output)
    check_model(name)
    page = table.with_suffix(".html")
    if page.exists():
        raise UsageError(f"the page {page} exists", "give --output another name, or move the page elsewhere")
    listed = list_images(path_list(pool), recursive)
    if listed.reader is not None:
        raise UsageError("POOL has images that are not files of this machine", "give folders or files")

    from vit.checkpoints.run import RunDirectory
    from vit.inference.answers.nearest import choose_doubtful, choose_random
    from vit.inference.predictor import load

    of_run = RunDirectory.around(Path(name))
    if of_run is None:
        raise UsageError(f"{name} is not in a run folder, so the images that it knows are unknown", "give a run folder")
    reporter = Reporter()
    if listed.not_read:
        reporter.notice(listed.not_read)
    predictor = load(name, device)
    if not predictor.task.is_exclusive:
        fix = "choose by the probabilities of 'vit predict --probabilities'"
        raise UsageError("vit data next takes a run of one class for an image, and this one gives several", fix)
    rows = _rows_of_run(of_run, reporter)
    images = _read(predictor, listed.paths, {row.content_hash for part in rows.values() for row in part}, reporter)
    total = len(images.paths)
    if total < count:
        reporter.notice(f"WARNING: the pool has {count_of(total, 'image')} to label, and {count:,} were asked for")
    count = min(count, total)
    if by == "random":
        places = choose_random(total, count, seed)
    else:
        places = choose_doubtful(images.probabilities, images.vectors, count, seed)
    top, numbers = images.probabilities[places].max(axis=1), images.probabilities[places].argmax(axis=1)
    chosen = [
        ImageToLabel(images.paths[place], predictor.class_names[best], float(probability))
        for place, best, probability in zip(places.tolist(), numbers.tolist(), top.tolist(), strict=True)
    ]
    _write(table, chosen, rows)
    _write_page(page, predictor, chosen, by, total)
    _show(reporter, chosen, images, by)
    reporter.facts([("look", str(page)), ("fill in", str(table))])
    reporter.line(f"fill in the column label of the first {count_of(count, 'line')}, or remove the line, and train")
    reporter.next_command(shell_command("vit", "train", table, options={}))
    return NextLabels(chosen, table, page, images.known, images.unreadable)


def _rows_of_run(run: "RunDirectory", reporter: Reporter) -> "dict[str, list[SplitRow]]":
    """The images of a run by split; a table cannot hold those that were set aside for calibration."""
    from vit.training.running.run_images import splits_of_run

    rows = splits_of_run(run)
    if not all(row.content_hash for row in rows.get("train", ())[:1]):
        raise DataError(f"{run.splits_path} has no hashes, so known images cannot be left out", "train again")
    if aside := len(rows.get("calibration", ())):
        reporter.notice(f"the table lacks {count_of(aside, 'image')} that the run has set aside for calibration")
    if not all(Path(row.path).is_absolute() for part in rows.values() for row in part[:1]):
        reporter.notice("the images of the run are not files, so the table lists the new images alone")
    return rows


def _read(predictor: "Predictor", paths: Sequence[str], known: set[str], reporter: Reporter) -> _Pool:
    """Probabilities and features of the images that the run does not know, each content once."""
    import numpy as np
    import torch

    from vit.inference.engine import Engine
    from vit.inference.prediction import read_hashed, rows_of

    engine = predictor.engine
    if not isinstance(engine, Engine) or not engine.keep_features():
        raise UsageError("the last layer of this network is not known, so it has no features", "give another run")

    def read(path: str) -> "tuple[str, str, Tensor | ImageError]":
        return read_hashed(path, predictor.preprocess)

    def compute(
        part: "list[tuple[str, str, Tensor | ImageError]]",
    ) -> "list[tuple[str, str, str, Tensor | None, Tensor | None]]":
        images = [image for *_, image in part if isinstance(image, torch.Tensor)]
        found = iter(zip(*engine.probabilities_and_features(torch.stack(images)), strict=True)) if images else iter(())
        return [
            (path, own, "", *next(found)) if isinstance(image, torch.Tensor) else (path, own, image.reason, None, None)
            for path, own, image in part
        ]

    seen, unreadable, kept = set(known), dict[str, str](), list[tuple[str, torch.Tensor, torch.Tensor]]()
    with ProgressReport(reporter, "image") as progress:
        for done, (path, own, error, probabilities, vector) in enumerate(rows_of(engine, paths, 64, read, compute), 1):
            if probabilities is None or vector is None:
                unreadable[path] = error
            elif own not in seen:
                seen.add(own)
                kept.append((str(Path(path).resolve()), probabilities, vector))
            progress.update(done, len(paths))
    if not kept:
        raise DataError(
            f"the pool has no image to label: the run knows {len(paths) - len(unreadable):,} of {len(paths):,} files, "
            f"and {len(unreadable):,} cannot be read",
            "give other images",
        )
    names, of_classes, vectors = zip(*kept, strict=True)
    return _Pool(
        list(names),
        np.stack([one.numpy() for one in of_classes]),
        np.stack([one.numpy() for one in vectors]),
        len(paths) - len(kept) - len(unreadable),
        unreadable,
    )


def _write(path: Path, chosen: Sequence[ImageToLabel], rows: "dict[str, list[SplitRow]]") -> None:
    """The chosen images without a label, then those of the run, as a table that `vit train` reads."""
    listed = [row for part in rows.values() for row in part]
    files = {Path(row.path).name for row in listed}
    has_groups = any(row.group and Path(row.group).name not in files for row in listed)  # bursts are named by a file
    columns = ("path", "label", "suggested", "probability", "split", *["group"] * has_groups)
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_table(path, columns, digits=6, mode="x") as table:
        for one in chosen:
            table.row((one.path, None, one.suggested, one.probability, "train", *[None] * has_groups))
        for split, part in rows.items():
            for row in part if split != "calibration" and Path(part[0].path).is_absolute() else ():
                table.row((row.path, row.label, None, None, split, *[row.group] * has_groups))


def _write_page(page: Path, predictor: "Predictor", chosen: Sequence[ImageToLabel], by: str, total: int) -> None:
    from vit.report.picture_page import PictureRow, picture_of, write_picture_page

    how = "drawn with equal chances" if by == "random" else "chosen by doubt and diversity"
    pictures = [
        picture_of(one.path, f"{number}. {one.suggested} {percent(one.probability, 1)}", page, predictor.preprocess)
        for number, one in enumerate(chosen, 1)
    ]
    about = (
        f"{len(chosen):,} of {total:,} images, {how}. The class is a suggestion of the network, with its probability."
    )
    write_picture_page(page, "Images to label next", [about, BY[by]], [PictureRow("", "", pictures)])


def _show(reporter: Reporter, chosen: Sequence[ImageToLabel], images: _Pool, by: str) -> None:
    reporter.notice(
        f"{count_of(len(images.paths), 'image')} to choose from; left out: {images.known:,} known ones or copies"
    )
    for path in list(images.unreadable)[:SHOWN]:
        reporter.notice(f"WARNING: {path} cannot be read: {images.unreadable[path]}")
    if len(images.unreadable) > SHOWN:
        reporter.notice(f"WARNING: ... and {len(images.unreadable) - SHOWN:,} more cannot be read")
    reporter.table(
        ("rank", "image", "suggested", "probability"),
        [(rank, one.path, one.suggested, percent(one.probability, 1)) for rank, one in enumerate(chosen[:SHOWN], 1)],
    )
    reporter.line(f"\n{BY[by]}")
