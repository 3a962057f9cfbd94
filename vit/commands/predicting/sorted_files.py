"""`vit predict --sort_into FOLDER`: the predicted files in one folder for each class"""

import errno
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vit.atomic_files import name_new_file, partial_name
from vit.console import Reporter, count_of
from vit.csv_files import TableWriter, create
from vit.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from vit.inference.files import ListedImages
    from vit.inference.prediction import Prediction
    from vit.inference.predictor import Predictor

SortBy = Literal["copy", "link", "move"]
APART = ("unsure", "novel")  # statuses of images without a label, which get folders of their own
_DONE = {"copy": "copied", "link": "linked", "move": "moved"}


class SortedFiles:
    """Files with their new places. Files that could not be read stay where they are.

    A class has its folder in `into`, so that 'vit train' can read it. Images without a label lie beside it, in
    FOLDER-unsure and FOLDER-novel, below their most probable class.

    Args:
        into: a folder that is not there yet.
        by: how a file comes there.
        rows_file: file of the predictions, beside which the places are written.

    Raises:
        UsageError: a folder or the list of places exists.
    """

    def __init__(self, into: Path, by: SortBy, rows_file: Path) -> None:
        self.into, self.by = into, by
        self.list_path = rows_file.with_name(f"{rows_file.stem}-sorted.csv")
        self._places: dict[str, Path] = {}  # of each path, which a list may name twice
        self._taken: set[Path] = set()
        for folder in (into, *map(self._apart, APART)):
            if folder.exists() or folder.is_symlink():
                raise UsageError(f"--sort_into {into}: {folder} exists already", "give a new folder")
        if self.list_path.exists():
            fix = "give --output another name, or move the file elsewhere"
            raise UsageError(f"the file {self.list_path} exists", fix)

    def check(self, predictor: "Predictor", listed: "ListedImages") -> None:
        """Raise UsageError where images are no files, or where a class cannot be a folder."""
        if listed.reader is not None or any("://" in path for path in listed.paths[:1]):
            raise UsageError("--sort_into needs files, and these images lie in a table or in shards", "leave it out")
        if predictor.multilabel is not None:
            raise UsageError("--sort_into needs one class for an image, and this model gives several", "leave it out")
        for name in predictor.class_names:
            if name in ("", ".", "..") or "/" in name or "\0" in name or "\\" in name:
                raise UsageError(f"--sort_into: the class {name!r} cannot be the name of a folder", "leave it out")

    def add(self, row: "Prediction") -> None:
        """Choose the place of a file."""
        if row.path in self._places or (row.status != "ok" and row.status not in APART):
            return
        folder = self.into if row.status == "ok" else self._apart(row.status)
        source = Path(row.path)
        number, place = 1, folder / (row.label or row.top[0][0]) / source.name
        while place in self._taken:  # files of one name in several folders
            number += 1
            place = place.with_name(f"{source.stem}-{number}{source.suffix}")
        self._taken.add(place)
        self._places[row.path] = place

    def carry_out(self, reporter: Reporter, yes: bool) -> None:
        """Write the list of places, and copy, link or move all files; moves are only shown without `yes`.

        Raises:
            ResourceError: a file cannot be written; the list says where the files before it are.
        """
        counts = Counter(str(place.parent) for place in self._places.values())
        reporter.table(("folder", "files"), sorted(counts.items()))
        files = count_of(len(self._places), "file")
        if self.by == "move" and not yes:
            reporter.notice(f"nothing was moved: {files} would be; --yes moves them")
            return
        with create(self.list_path, "x") as file:
            table = TableWriter(file, ("path", "sorted_to"))
            for done, (path, place) in enumerate(self._places.items()):
                try:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    self._bring(Path(path), place)
                except OSError as error:
                    there = f"{done:,} of {len(self._places):,} files are there, as {self.list_path} lists"
                    raise ResourceError(
                        f"cannot {self.by} {path} to {place}: {error.strerror}; {there}",
                        "make room or correct the rights, and give a new --sort_into for the others",
                    ) from error
                table.row((path, str(place)))
                table.flush()
        reporter.line(f"{files} {_DONE[self.by]}, listed in {shlex.quote(str(self.list_path))}")

    def _bring(self, source: Path, place: Path) -> None:
        if self.by == "link":
            place.symlink_to(source.absolute())
            return
        if self.by == "move" and not source.is_symlink():
            try:
                name_new_file(source, place)
                return
            except OSError as error:
                if error.errno != errno.EXDEV:  # another disk
                    raise
        partial = partial_name(place)
        try:
            shutil.copy2(source, partial)
            name_new_file(partial, place)
        finally:
            partial.unlink(missing_ok=True)
        if self.by == "move":
            source.unlink()

    def _apart(self, status: str) -> Path:
        return self.into.with_name(f"{self.into.name}-{status}")
