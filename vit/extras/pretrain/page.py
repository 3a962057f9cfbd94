"""A pretraining as one self-contained HTML page"""

from markupsafe import Markup

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.csv_files import records
from vit.errors import DataError
from vit.extras.pretrain.figures import AUGMENTED, NEIGHBOR_PICTURES, RECONSTRUCTED, pretrain_curves
from vit.extras.pretrain.neighbor_accuracy import NEIGHBORS
from vit.extras.pretrain.pretrainer import KNN
from vit.plain_files import read_text
from vit.report.page import inline, write_page
from vit.report.run_tables import facts
from vit.report.style import drawn


def write_pretrain_report(run: RunDirectory, result: RunResult | None = None) -> None:
    """Write report.html into the folder of a finished pretraining, from its files. Pictures are those in figures/.

    Args:
        run: the run.
        result: the result where result.json is not written yet; None: read the file.

    Raises:
        UsageError: the pretraining has not finished.
        DataError: one of its files is damaged.
    """
    result = result or run.read_result()
    if result is None:
        raise run.unfinished()
    try:
        accuracies = [float(row[KNN]) for row in records(run.metrics_path) if row.get(KNN)]
        content = {
            "network": result.spec.name,
            "data": result.data,
            "folder": run.path.resolve().name,
            "method": result.method,
            "num_images": result.num_images["train"],
            "accuracies": [f"{100 * value:.2f}" for value in (accuracies[:1] + accuracies[-1:])],
            "count": NEIGHBORS,
            "curves": drawn(pretrain_curves(run.metrics_path)),
            "neighbors": _figure(run, NEIGHBOR_PICTURES),
            "reconstructions": _figure(run, RECONSTRUCTED),
            "augmented": _figure(run, AUGMENTED),
            "facts": facts(result),
            "config_name": run.config_path.name,
            "config": read_text(run.config_path).splitlines(),
            "backbone": run.backbone_path.name,
        }
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(f"{run.path} is damaged: {error}", "restore its files, or pretrain again") from error
    write_page(run.report_path, "pretrain.html", content)


def _figure(run: RunDirectory, name: str) -> Markup | None:
    """A figure of the run folder as the source of an <img>; None where there is none."""
    path = run.figure_path(name)
    return inline(path.read_bytes(), "image/png") if path.is_file() else None
