"""`vit evaluate RUN|CKPT [DATA]`: how good a trained model is on labeled images."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from vit.checkpoints.model_path import check_model
from vit.commands.arguments import parse
from vit.commands.parser import Parser
from vit.console import ProgressReport, Reporter, interval, percent
from vit.data.dataset_names import check_data
from vit.errors import BadInputsError, ResourceError, UsageError
from vit.layout import EvaluationLayout, RunLayout

SPLITS = ("test", "validation", "train")


def evaluate(arguments: Sequence[str]) -> int:
    """Score every image once, show the figures, and write metrics.json, predictions and pictures."""
    parser = Parser(
        "evaluate",
        "Measure a trained model on labeled images: the test images of its run, or those of DATA.",
        "vit evaluate runs/photos/vit_tiny_patch16_224/20260101-120000 more_photos/",
    )
    parser.add_argument(
        "model", metavar="RUN|CKPT|ONNX", type=str, help="a run folder, a checkpoint, or an exported .onnx file"
    )
    parser.add_argument(
        "data", metavar="DATA", type=str | None, nargs="?", default=None, help="as for vit train; null: the run's own"
    )
    parser.add_argument(
        "--split",
        type=Literal["auto", "test", "validation", "train"],
        default="auto",
        help="auto: test, else validation, else all",
    )
    parser.add_argument(
        "--include_seen",
        action="store_true",
        help="score images of DATA that the run trained or validated on as well; without it they are left out",
    )
    parser.add_argument("--root", type=str | None, default=None, help="folder of torchvision data sets")
    parser.add_argument("--output", type=str | None, default=None, help="folder for the results; null: inside the run")
    parser.add_argument("--device", type=str, default="auto", help="cpu, cuda, mps")
    parser.add_argument(
        "--precision",
        type=Literal["auto", "32-true", "bf16-mixed"],
        default="auto",
        help="auto: as it was trained, where the hardware can",
    )
    given = parse(parser, arguments)
    check_model(given.model)
    if given.data is not None:
        check_data(given.data)
    elif RunLayout.around(Path(given.model)) is None:
        raise UsageError(f"{given.model} lies in no run folder, so DATA must be given", "vit evaluate CKPT DATA")
    if given.output is not None:
        _check_output(Path(given.output).expanduser())

    from vit.data.augment import Augment
    from vit.data.module import ImageDataModule, LoaderOptions
    from vit.data.samples import Source
    from vit.inference.engine import distributed, score
    from vit.inference.metrics import measure
    from vit.inference.predictor import load

    with distributed() as rank:
        reporter = Reporter(quiet=rank > 0)
        source = _source(given)
        split = _choose_split(source, given)
        folder = _folder(given, source.name, split)  # refused before the work, made after it
        predictor = load(given.model, given.device, given.precision)
        chosen, seen = _unseen(reporter, given, source, split)
        samples = _by_class_map(chosen, split, predictor.class_names, reporter)
        reporter.notice(
            f"{len(samples):,} images of {source.name} ({split}), "
            f"{predictor.engine.device.type}, {predictor.engine.precision}"
        )
        labeled = Source(source.name, predictor.class_names, {split: samples})
        loader = ImageDataModule(labeled, predictor.preprocess, Augment(), LoaderOptions(1), seed=0).evaluation_loader(
            split
        )
        scored = score(predictor.engine, loader)
    if rank > 0:
        return 0
    measured = measure(scored, predictor.class_names).to_dict()
    measured["left_out"] = {**seen, "unreadable": dict(scored.left_out)}
    _write(folder, measured, scored, predictor.class_names)
    _show(reporter, measured, predictor.class_names, folder)
    reporter.next_command(f"vit predict {shlex.quote(given.model)} FOLDER_OF_IMAGES")
    if scored.left_out:
        path, reason = next(iter(scored.left_out.items()))
        raise BadInputsError(
            f"{len(scored.left_out):,} images cannot be read, and were not measured, such as {path}: {reason}",
            f"see left_out in {EvaluationLayout(folder).metrics_path}",
        )
    return 0


def _source(given: Any) -> Any:
    from vit.checkpoints.run import RunDirectory
    from vit.commands.recipe_options import read_recipe
    from vit.data.sources import open_source
    from vit.training.run_images import images_of_run

    if given.data is not None:
        return open_source(given.data, given.root)
    run = RunDirectory.around(Path(given.model))
    assert run is not None
    return images_of_run(run, read_recipe(run.config_path), given.root)


def _choose_split(source: Any, given: Any) -> str:
    if given.split != "auto":
        if given.split not in source.splits:
            raise UsageError(f"{source.name} has no {given.split} images", f"choose one of {', '.join(source.splits)}")
        return str(given.split)
    return next(split for split in SPLITS if split in source.splits)


def _unseen(reporter: Reporter, given: Any, source: Any, split: str) -> tuple[Any, dict[str, int]]:
    """The source without the images that the run trained or validated on, and how many these are.

    Of the run's own images, those of the split that was asked for, whatever it is.

    Raises:
        DataError: none is left; or the run's own images have changed.
    """
    from dataclasses import replace

    import numpy as np

    from vit.checkpoints.run import RunDirectory
    from vit.data.contents import read_contents
    from vit.errors import DataError
    from vit.training.run_images import check_contents, seen_in_training

    run = RunDirectory.around(Path(given.model))
    if run is None:
        reporter.notice(f"{given.model} lies in no run folder: images that it was trained on are not recognized")
        return source, {}
    progress = ProgressReport(reporter, "image read")
    try:
        contents = read_contents(source, progress.update, (split,))
    finally:
        progress.close()
    if given.data is None:
        check_contents(run, source, split, contents)
        return source, {}
    seen = seen_in_training(run, source, split, contents)
    counts = {f"{name}_images_of_the_run": len(places) for name, places in seen.items()}
    how = {"train": "trained on", "validation": "validated on"}
    words = " and ".join(
        f"{len(places):,} images that the run {how[name]}" for name, places in seen.items() if len(places)
    )
    if not words:
        return source, counts
    if given.include_seen:
        reporter.notice(f"WARNING: {words} are scored too: what they say of new images is too good (--include_seen)")
        return source, dict.fromkeys(counts, 0)
    samples = source.splits[split]
    kept = np.setdiff1d(np.arange(len(samples)), np.concatenate(list(seen.values())))
    if not len(kept):
        raise DataError(
            f"all {len(samples):,} images of {source.name} are images that {run.path} was trained or validated on",
            "give other images, or --include_seen to score these",
        )
    reporter.notice(f"left out: {words}; {len(kept):,} of {len(samples):,} images are measured (--include_seen: all)")
    return replace(source, splits={**source.splits, split: samples.select(kept)}), counts


def _by_class_map(source: Any, split: str, class_names: tuple[str, ...], reporter: Reporter) -> Any:
    """The samples of a split with their labels renumbered, by name, to the model's classes."""
    from dataclasses import replace

    import numpy as np

    from vit.errors import DataError

    numbers = {name: number for number, name in enumerate(class_names)}
    unknown = [name for name in source.class_names if name not in numbers]
    if unknown:
        raise DataError(
            f"{source.name} has classes that the model does not know: {', '.join(unknown[:10])} "
            f"(it knows {', '.join(class_names[:10])})",
            "rename or remove them",
        )
    samples = source.splits[split]
    renumbered = np.array([numbers[name] for name in source.class_names], dtype=np.int64)[samples.labels]
    missing = sorted(set(range(len(class_names))) - set(renumbered.tolist()))
    if missing:
        reporter.notice(
            f"no image of {len(missing)} classes: {', '.join(class_names[number] for number in missing[:10])}"
        )
    return replace(samples, labels=renumbered)


def _check_output(folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"--output {folder} is not an empty folder", "give a new folder")


def _folder(given: Any, data: str, split: str) -> Path:
    from vit.checkpoints.run import slug
    from vit.inference.files import free_name

    run = RunLayout.around(Path(given.model))
    if given.output is not None:
        return Path(given.output).expanduser()
    name = f"{slug(data)}-{split}"
    return free_name(run.evaluation_dir(name) if run is not None else Path(f"evaluation-{name}"))


def _write(folder: Path, measured: dict[str, Any], scored: Any, class_names: tuple[str, ...]) -> None:
    import numpy as np

    from vit.atomic_files import write_json
    from vit.inference.scored_rows import write_scored
    from vit.report.figures import confusion_matrix, reliability, save

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResourceError(f"cannot make {folder}: {error.strerror}", "choose another --output") from error
    layout = EvaluationLayout(folder)
    write_json(layout.metrics_path, {**measured, "classes": list(class_names)})
    write_scored(layout.predictions_path, scored, class_names)
    if "confusion" in measured:
        save(confusion_matrix(np.array(measured["confusion"]), class_names), layout.confusion_matrix_path)
    save(reliability(scored.correct, scored.confidences, scored.uncalibrated), layout.reliability_path)


def _show(reporter: Reporter, measured: dict[str, Any], class_names: tuple[str, ...], folder: Path) -> None:
    from vit.inference.metrics import NAMES

    reporter.line(f"{measured['images']:,} images; 95 % intervals")
    facts = []
    for key, name in NAMES.items():
        if key in measured["metrics"]:
            metric = measured["metrics"][key]
            if key == "ece":
                words = f"{percent(metric['value'])} ({percent(metric['chance'])} by chance, were it calibrated)"
            elif key == "nll":
                words = f"{metric['value']:.4f} ({metric['low']:.4f} to {metric['high']:.4f})"
            else:
                words = interval(**metric)
            facts.append((name, words))
    if measured["temperature"] != 1:
        before = {name: metric["value"] for name, metric in measured["uncalibrated"].items()}
        words = f"calibration error {percent(before['ece'])}, log-loss {before['nll']:.4f}"
        facts.append(("temperature", f"{measured['temperature']:.3f}; without it {words}"))
    reporter.facts(facts)
    worst = sorted(measured["per_class"], key=lambda row: row["f1"])[:20]
    title = (
        f"\nthe {len(worst)} classes with the lowest F1 of {len(class_names)}"
        if len(class_names) > len(worst)
        else "\nby class, lowest F1 first"
    )
    reporter.line(title)
    rows = [
        (row["class"], row["images"], f"{row['precision']:.3f}", f"{row['recall']:.3f}", f"{row['f1']:.3f}")
        for row in worst
    ]
    reporter.table(("class", "images", "precision", "recall", "F1"), rows)
    reporter.line(f"\nmetrics.json, predictions.csv and figures in {folder}")
