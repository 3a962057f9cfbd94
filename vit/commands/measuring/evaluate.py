"""`vit evaluate RUN|CKPT|EXPORT [DATA]`: metrics of a trained model on labeled images"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vit.atomic_files import why_unwritable, write_json
from vit.checkpoints.locking import hold
from vit.commands.cli.arguments import (
    ModelOrExport,
    Paths,
    StrPath,
    check_models,
    leading_models,
    new_folder,
    path_list,
    path_text,
    shell_command,
    warn_of_unfinished,
)
from vit.console import Reporter, count_of
from vit.data.core.dataset_names import TableColumns, check_data
from vit.errors import BadInputsError, ResourceError, UsageError
from vit.inference.engines.engine_names import EngineName
from vit.layout import EvaluationLayout, RunLayout

if TYPE_CHECKING:
    from vit.commands.measuring.scoring import EnsembleFinding
    from vit.export.latency import Latency
    from vit.inference.metrics.metrics import Measurement
    from vit.inference.metrics.multilabel_metrics import MultilabelMeasurement
    from vit.inference.scores.scored_images import Scored
    from vit.report.run.run_common import EvaluatedImages

_LOCK = ".unfinished"


@dataclass(frozen=True)
class Evaluation:
    """Files and metrics of `vit.evaluate`."""

    folder: Path  # folder with metrics.json, predictions.csv, figures and report.html
    # all metrics with 95 % intervals; `measurement.metrics.acc1.value` is the accuracy, and of a model that gives
    # several labels, `measurement.metrics.map.value` is the mean average precision
    measurement: "Measurement | MultilabelMeasurement"
    unreadable: dict[str, str]  # reason for each image that could not be read
    seen: dict[str, int]  # number of images that were left out because the run has seen them, by the split of the run
    engine: str  # what computed the probabilities: "torch", "openvino" or "onnxruntime"
    # number of images that were scored although the run has seen them, by the split of the run
    scored_although_seen: dict[str, int] = field(default_factory=dict)
    # what the training of the model lacks, such as "7 of 60 epochs, no temperature"; "": it is finished
    unfinished: str = ""
    # seconds of a prediction by engine, threads and batch size; () where they were not asked for
    latency: "Sequence[Latency]" = ()
    ensemble: "EnsembleFinding | None" = None  # the gain of several models over their best; None: one model was given


def evaluate(
    model: ModelOrExport,
    data: Paths | None = None,
    *,
    split: Literal["auto", "test", "validation", "train"] = "auto",
    include_seen: bool = False,
    root: StrPath | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    groups: str | None = None,
    output: StrPath | None = None,
    device: str = "auto",
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto",
    engine: EngineName = "auto",
    latency: bool = False,
    unfinished: bool = False,
) -> Evaluation:
    """Measure a trained model on labeled images: the test images of its run, or the images of DATA.

    Args:
        model: a run folder, a checkpoint, or an exported .onnx or .xml file
        data: further models first, whose probabilities are averaged; then DATA as for vit train, also test images
            alone or of one class; null: the images of the run
        split: auto: test, else validation, else all
        include_seen: also score images of DATA that the run was trained, validated or calibrated on, which are
            left out otherwise
        root: folder of torchvision data sets
        image_column: column of images (parquet) or paths (CSV); null: that of the run, the only one, or a usual one
        label_column: column of labels (parquet, CSV) of DATA; null: that of the run, the only one, or a usual one
        groups: regular expression that finds the group in each path of DATA, as data.groups of 'vit train'; null: that
            of the run if it finds one in every path, else the groups of a CSV
        output: a new or empty folder for the results; null: inside the run
        device: cpu, cuda or mps; auto: an accelerator if there is one
        precision: auto: the precision of training, where the hardware has it
        engine: what computes a checkpoint; auto: torch
        latency: also measure a prediction with each engine that is installed: median and 99th percentile, for 1 and 32
            images, with one thread and with all; up to 20 seconds each
        unfinished: whether a model whose training is not finished may be used, as it is

    Returns:
        The folder of the results, and the metrics.

    Raises:
        BadInputsError: the evaluation is done, but some images cannot be read.

    Example:
        vit evaluate runs/photos/vit_tiny_patch16_224/20260101-120000 more_photos/
    """
    model, (others, rest) = os.fspath(model), leading_models([] if data is None else path_list(data))
    if len(rest) > 1:
        raise UsageError(f"{len(rest)} DATA are given: {', '.join(map(str, rest))}", "give one after the models")
    data, models = path_text(rest[0]) if rest else None, (model, *others)
    if others and latency:
        raise UsageError("--latency measures one model", "give one, or leave --latency out")
    check_models(models, engine, device, unfinished)
    columns = TableColumns(image_column, label_column)
    _check_data(model, data, groups, columns)
    if include_seen and data is None and not others:
        raise UsageError("--include_seen is for DATA: images of a run are all measured", "leave it out, or give DATA")
    wanted = None if output is None else Path(output).expanduser()
    is_cut_off = wanted is not None and (wanted / _LOCK).is_file()  # of an evaluation that did not end
    if wanted is not None and wanted.exists() and not is_cut_off and (not wanted.is_dir() or any(wanted.iterdir())):
        raise UsageError(f"--output {wanted} is not an empty folder", "give a new folder")
    kept = RunLayout.around(Path(model))
    place = (wanted or (Path() if others or kept is None else kept.path)).absolute()
    if reason := why_unwritable(next(one for one in (place, *place.parents) if one.exists()), 4096):
        raise ResourceError(f"cannot write into {place}: {reason}", "choose another --output")

    from vit.checkpoints.run import RunDirectory, slug, unfinished_text
    from vit.commands.cli.recipe_options import read_recipe
    from vit.commands.measuring import measured_images, scoring
    from vit.inference.engine import distributed
    from vit.inference.ensemble import Ensemble
    from vit.inference.metrics.weak_groups import ImageTraits
    from vit.inference.predictor import load
    from vit.report.run.run_common import EvaluatedImages
    from vit.weights.hubs import license_text

    with distributed() as rank:
        reporter = Reporter(quiet=rank > 0)
        source, columns = measured_images.opened_source(model, data, path_text(root), columns, groups, reporter)
        measured_split = measured_images.choose_split(source, split)
        shown = measured_images.shown_split(source, measured_split)
        every = {one: load(one, device, precision, engine, unfinished) for one in models}
        predictor = Ensemble(list(every.values()), models) if others else every[model]
        warn_of_unfinished(predictor.lacks, reporter)
        for one, its in every.items():
            measured_images.check_own_model(Path(one), its)
        source = measured_images.of_same_task(source, predictor.task)
        samples, seen = measured_images.images_to_measure(models, data, source, measured_split, include_seen, reporter)
        seen = replace(seen, warning="; ".join(filter(None, (unfinished_text(predictor.lacks), seen.warning))))
        samples = measured_images.with_model_classes(samples, source, predictor.class_names, reporter)
        part = measured_images.describe_part(source.name, shown)
        traits = ImageTraits() if predictor.task.is_exclusive and not others else None
        scored: Scored
        ensemble: EnsembleFinding | None = None
        if others:
            scored, ensemble = scoring.score_together(every, part, samples, reporter)
        else:
            scored = scoring.score_images(predictor, part, samples, reporter, traits)
    from vit.report.run.run_page import report_of  # imports matplotlib

    class_names, rules = predictor.class_names, predictor.multilabel
    scores = None if any(seen.scored.values()) else predictor.validation_scores  # promises need new images
    measurement = report_of(predictor.task).measure(scored, class_names, rules, scores)
    run, name = RunDirectory.around(Path(model)), f"{slug(source.name)}-{shown}"
    folder = Path(f"evaluation-{name}") if others or run is None else run.evaluation_dir(name)
    folder = new_folder(wanted, folder) if rank == 0 else wanted or folder
    evaluation = Evaluation(
        folder, measurement, dict(scored.left_out), dict(seen.left_out), predictor.engine.name, dict(seen.scored),
        predictor.lacks, ensemble=ensemble,
    )  # fmt: skip
    if rank > 0:
        return evaluation
    if latency:
        from vit.export.latency import show_latencies_of_model

        evaluation = replace(evaluation, latency=show_latencies_of_model(reporter, Path(model), predictor))
    recipe = None if run is None else read_recipe(run.config_path)
    data_name = data or ("" if recipe is None else recipe.data.source)
    weak = scoring.weak_groups_of(traits, scored, samples, Path(data_name), columns, source, class_names)
    named = model
    network = Path(model).name if recipe is None else str(recipe.model.network["name"])
    if others:
        named, network = f"the average of {', '.join(models)}", f"ensemble of {len(models):,} models"
    images = EvaluatedImages(
        named, network, source.name, shown, samples, predictor.preprocess, seen, predictor.fitted_on, class_names,
        rules, weak,
    )  # fmt: skip
    files = _write(evaluation, scored, images, reporter)
    if predictor.license is not None:
        reporter.line(f"\nlicense of the first weights: {license_text(predictor.license)}")
    reporter.line(f"\nmetrics.json, predictions.csv and figures in {evaluation.folder}")
    reporter.line(f"page in {files.report_path}")
    more = " --unfinished" * bool(evaluation.unfinished)
    following = f"vit predict {shlex.join(models)} FOLDER_OF_IMAGES{more}"
    if measurement.warnings:
        given = {"root": root, "groups": groups, **columns.by_option}
        options = recipe.data.places if data is None and recipe is not None else given
        following = shell_command("vit", "data", "check", data_name, options=options)
    reporter.next_command(following)
    if evaluation.unreadable:
        bad, reason = next(iter(evaluation.unreadable.items()))
        problem = f"{count_of(len(evaluation.unreadable), 'image')} cannot be read or measured, such as {bad}: {reason}"
        raise BadInputsError(problem, f"see left_out in {files.metrics_path}")
    return evaluation


def _check_data(model: str, data: str | None, groups: str | None, columns: TableColumns) -> None:
    """Raise UsageError where there are no images to measure, no paths to search for groups, or no columns to choose."""
    if groups is not None:
        from vit.data.core.groups import group_pattern

        group_pattern(groups, "--groups")
    if data is not None:
        check_data(data)
    elif groups is not None or columns != TableColumns():
        option = "groups" if groups is not None else next(iter(columns.by_option))
        problem = f"--{option} is for DATA: the images of a run have the groups and columns of its training"
        raise UsageError(problem, "leave it out, or give DATA")
    elif RunLayout.around(Path(model)) is None:
        raise UsageError(f"{model} is not in a run folder, so DATA must be given", "vit evaluate CKPT DATA")


def _write(evaluation: Evaluation, scored: "Scored", images: "EvaluatedImages", reporter: Reporter) -> EvaluationLayout:
    """Write metrics, predictions, figures and page, and show the metrics; no other process writes to the folder."""
    from vit.commands.measuring.scoring import show_measurement
    from vit.report.page.style import save
    from vit.report.run.run_page import report_of, write_evaluation_page

    lock_path = evaluation.folder / _LOCK  # while it is there, the folder is of an evaluation that is not finished
    lock = hold(lock_path, wait=False)
    if lock is None:
        raise UsageError(f"another process writes to {evaluation.folder}", "wait for it, or give another --output")
    class_names, weak, report = images.class_names, images.weak, report_of(images.task)
    files = EvaluationLayout(evaluation.folder)
    with lock:
        write_json(files.metrics_path, {**evaluation.measurement.to_dict(), **_facts(evaluation, images)})
        scored.write(files.predictions_path, class_names, images.rules)
        figures = report.evaluation_figures(scored, evaluation.measurement, class_names)
        for name, figure in figures.items():
            save(figure, files.figure_path(name))
        show_measurement(reporter, evaluation.measurement)
        if weak is not None:
            reporter.line(f"\nweak groups: {weak.describe()}")
            for group in weak.found:
                reporter.line(f"  {group.describe()}")
        write_evaluation_page(files, images, scored, evaluation.measurement, figures)
        lock_path.unlink()
    return files


def _facts(result: Evaluation, images: "EvaluatedImages") -> dict[str, object]:
    """What metrics.json says beside the metrics."""

    def named(seen: dict[str, int]) -> dict[str, int]:
        return {f"{split}_images_of_the_run": count for split, count in seen.items()}

    return {
        "engine": result.engine,
        "left_out": {**named(result.seen), "unreadable": result.unreadable},
        "scored_although_seen": named(result.scored_although_seen),
        "warning": images.seen.warning or None,
        "unfinished": result.unfinished or None,
        "classes": list(images.class_names),
        **({"ensemble": {**vars(result.ensemble), "gain": vars(result.ensemble.gain)}} if result.ensemble else {}),
        **({"latency": [vars(row) for row in result.latency]} if result.latency else {}),
        "weak_groups": None if images.weak is None else images.weak.to_dict(),
    }
