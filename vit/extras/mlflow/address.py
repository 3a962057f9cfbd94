"""Where MLflow keeps runs: a server, or a store on this machine; imports no MLflow"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from vit.layout import MlflowLayout
from vit.training.tracking.tracker import unreachable


@dataclass(frozen=True)
class MlflowAddress:
    """A place of runs."""

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
