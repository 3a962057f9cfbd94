"""File names in the folder of predictions in parts"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PartsLayout:
    """Paths in the folder of predictions in parts.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def manifest_path(self) -> Path:
        """All images, and what decides their rows. A folder with this file is one of predictions in parts."""
        return self.path / "manifest.parquet"

    @property
    def lock_path(self) -> Path:
        """Lock of the process that writes the manifest."""
        return self.path / "manifest.lock"

    @property
    def listing_lock_path(self) -> Path:
        """Lock of the process that has compared the manifest with IMAGES, for as long as the process runs."""
        return self.path / "listing.lock"

    @property
    def jobs_dir(self) -> Path:
        """Logs of tasks of a cluster."""
        return self.path / "jobs"

    def part_path(self, number: int) -> Path:
        """The rows of a part, numbered from 0."""
        return self.path / f"part-{number:05}.parquet"

    def part_lock_path(self, number: int) -> Path:
        """Lock of the process that computes a part."""
        return self.path / f"part-{number:05}.lock"

    def finished(self) -> set[str]:
        """Names of the parts that are there."""
        return {path.name for path in self.path.glob("part-*.parquet")}
