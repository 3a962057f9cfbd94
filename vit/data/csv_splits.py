"""The column of a CSV that says which images are for training, validation and testing"""

from collections.abc import Iterable, Mapping

from vit.data.dataset_names import SPLIT_OF_NAME
from vit.errors import DataError, nearest


def any_split(cells: Iterable[str]) -> bool:
    """Whether cells of a column name a split, or are all empty; numbers of folds do not."""
    given = {cell.casefold() for cell in cells} - {""}
    return not given or not given.isdisjoint(SPLIT_OF_NAME)


def split_of(row: Mapping[str, str], where: str) -> str:
    """The split that a row names; "train" where it names none.

    Args:
        row: cells under our names.
        where: file and line that an error names.

    Raises:
        DataError: the split is unknown.
    """
    split = row.get("split", "").casefold()
    if split == "calibration":
        raise DataError(
            f"{where}: split is 'calibration', which DATA cannot have",
            "write train there, or remove these lines; --data.calibration cuts such images from the training images",
        )
    if split and split not in SPLIT_OF_NAME:
        raise DataError(f"{where}: split is {row['split']!r}", nearest(split, SPLIT_OF_NAME))
    return SPLIT_OF_NAME.get(split, "train")
