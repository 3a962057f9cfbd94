"""A run, or an evaluation, as one self-contained HTML page"""

from pathlib import Path
from typing import Any

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.core.samples import Source
from vit.data.splits.split import read_splits
from vit.errors import DataError
from vit.inference.scores.scored_images import Scored
from vit.layout import EvaluationLayout
from vit.plain_files import read_json
from vit.report.page.page import scripts, write_page
from vit.report.run.run_common import EvaluatedImages, MeasuredRun, common_content
from vit.report.run.run_pictures import describe_changed
from vit.report.run.task_report import report_of


def write_run_report(run: RunDirectory, source: Source | None, result: RunResult | None = None) -> int:
    """Write report.html into the folder of a finished run.

    Args:
        run: the run.
        source: the run's images. With None, or with images that the run was not measured on, the page has no pictures.
        result: the result where result.json is not written yet; None: read the file.

    Returns:
        The number of images that have no picture on the page because their files were replaced.

    Raises:
        UsageError: the run has not finished.
        DataError: one of its files is damaged.
    """
    result = result or run.finished_result()
    report = report_of(result.task)
    try:
        class_names: list[str] = read_json(run.class_names_path)["classes"]
        common = common_content(run, result)
        measured = MeasuredRun(run, result, common, class_names, read_splits(run.splits_path), source)
        content, num_changed = report.run_content(measured)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{run.path} is damaged: {error}", "restore its files, or train again") from error
    others = {**scripts(*report.SCRIPTS), "changed": describe_changed(num_changed)}
    write_page(run.report_path, report.RUN_TEMPLATE, {**vars(common), **content, **others})
    return num_changed


def write_evaluation_page(files: EvaluationLayout, images: EvaluatedImages, scored: Scored, measurement: Any) -> None:
    """Write report.html into the folder of an evaluation.

    Args:
        measurement: what `TaskReport.measure` gave for the scored images.
    """
    report = report_of(images.task)
    common = {
        "model": Path(images.model).name,
        "network": images.network,
        "data": images.data,
        "split": images.split,
        "warning": images.seen.warning,
        **scripts(*report.SCRIPTS),
    }
    content = report.evaluation_content(images, scored, measurement, files.predictions_path.name)
    write_page(files.report_path, report.EVALUATION_TEMPLATE, {**common, **content})
