"""MLflow in the registry of trackers; only an open tracker imports MLflow"""

from dataclasses import replace
from pathlib import Path

from vit.extras.mlflow.address import MlflowAddress
from vit.layout import RunLayout
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.tracker import Sharing, Tracker, Tracking


class Mlflow:
    """The `TrackerKind` of --tracker mlflow."""

    title = "MLflow"

    def open(self, recipe: Recipe, run: Tracking) -> Tracker:
        from vit.extras.mlflow.tracker import MlflowTracker

        layout, address = RunLayout(run.folder), MlflowAddress.below(run.out)
        files = layout.mlflow_run_path, layout.metrics_path
        return MlflowTracker(address, *files, run.config, run.name, run.group, run.sharing, recipe.mlflow.register)

    def describe(self, recipe: Recipe, run: Path, sharing: Sharing) -> str:
        name = recipe.mlflow.register
        address = MlflowAddress.below(run.absolute().parents[2] if run.is_dir() else Path(recipe.out))
        uploaded = (sharing if name is None else replace(sharing, model=True)).content()
        where = f"{address.describe()}{', on this machine' if address.is_local else f': {uploaded}'}"
        return where if name is None else f"{where}; registers the best checkpoint as {name!r}"

    def describe_cells(self, folder: Path) -> str:
        return f"{MlflowAddress.below(folder).describe()}: numbers and configuration of every training, no images"
