"""File names in the folders of `vit explain` and `vit inspect`"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ExplanationsLayout:
    """Paths in the folder of explanations. Pictures of the images lie beside.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def table_path(self) -> Path:
        """Rows of each image."""
        return self.path / "explanations.csv"

    @property
    def page_path(self) -> Path:
        """Page with all pictures."""
        return self.path / "explanations.html"


@dataclass(frozen=True)
class InspectionLayout:
    """Paths in the folder of an inspection. Its figures lie beside.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def page_path(self) -> Path:
        """Page with all figures."""
        return self.path / "inspection.html"
