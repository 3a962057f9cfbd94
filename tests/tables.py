"""Files of rows that commands write."""

import csv
import os
from typing import Any


def rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """A CSV file, a mapping for each row; names that are no UTF-8 stay as they are."""
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))
