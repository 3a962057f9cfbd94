"""MLflow in the registry of trackers, and where it keeps runs; only an open tracker imports MLflow"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from vit.layout import MlflowLayout
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.connection import unreachable
from vit.training.tracking.tracker import Sharing, Tracker, Tracking


@dataclass(frozen=True)
class MlflowAddress:
    """A place of runs: a server, or a store on this machine."""

    uri: str  # as MLflow takes it
    artifacts: str | None = None  # where the artifacts of a new experiment go; None: as the server or store decides

    @classmethod
    def below(cls, out: Path) -> Self:
        """The server of MLFLOW_TRACKING_URI, else a store in the parent folder of run folders."""
        server = os.environ.get("MLFLOW_TRACKING_URI")
        if server:
            return cls(server)
        store = MlflowLayout(out.expanduser().absolute())
        return cls(f"sqlite:///{store.database_path}", store.artifacts_dir.as_uri())

    @property
    def is_local(self) -> bool:
        """Whether everything stays on this machine."""
        return urlsplit(self.uri).scheme in ("", "file", "sqlite")

    def describe(self) -> str:
        """The address for people, without a password."""
        parts = urlsplit(self.uri)
        return self.uri if "@" not in parts.netloc else parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def obstacle(self) -> str:
        """Why a server cannot be reached, or ""; known for addresses of the web alone."""
        return unreachable(self.uri) if urlsplit(self.uri).scheme in ("http", "https") else ""


class Mlflow:
    """The `TrackerKind` of --tracker mlflow."""

    title = "MLflow"

    def open(self, recipe: Recipe, run: Tracking) -> Tracker:
        from vit.extras.mlflow.tracker import MlflowTracker

        return MlflowTracker(run, recipe.mlflow.register)

    def describe(self, recipe: Recipe, run: Path, sharing: Sharing) -> str:
        name = recipe.mlflow.register
        address = MlflowAddress.below(run.absolute().parents[2] if run.is_dir() else Path(recipe.out))
        uploaded = (sharing if name is None else replace(sharing, model=True)).content()
        where = f"{address.describe()}{', on this machine' if address.is_local else f': {uploaded}'}"
        return where if name is None else f"{where}; registers the best checkpoint as {name!r}"

    def describe_cells(self, folder: Path) -> str:
        return f"{MlflowAddress.below(folder).describe()}: numbers and configuration of every training, no images"
