"""Links of pages to files beside them"""

import os
from pathlib import Path
from urllib.parse import quote

from vit.data.dataset_names import is_far


def link_to(path: str | Path, page: Path) -> str | None:
    """The address of a file, seen from a page; None where there is none.

    Every part of a path is quoted, so that none is a scheme.
    """
    if is_far(os.fspath(path)):
        return quote(os.fspath(path), safe=":/?=&%") if os.fspath(path).startswith("https://") else None
    try:
        return quote(os.fsencode(os.path.relpath(path, page.parent)))
    except ValueError:  # on another drive, or no path at all
        return None
