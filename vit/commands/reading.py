"""Reads all images of a data set before the first step, for `vit train` and `vit study`"""

from typing import TYPE_CHECKING

from vit.console import ProgressReport, Reporter

if TYPE_CHECKING:
    from vit.data.contents import Contents
    from vit.data.samples import Source
    from vit.training.recipes.image_options import DataConfig


def find_bursts(listed: "Source | None", data: "DataConfig", reporter: Reporter) -> None:
    """Search files for near-duplicates with progress; the plan that is made next knows them then.

    Args:
        listed: images of DATA; None: they have a name, and are in memory.
    """
    if listed is None or data.bursts == "split":
        return
    from vit.training.planning.images import kept_together

    with ProgressReport(reporter, "image compared") as progress:
        kept_together(listed, data, progress.update)


def read_images(source: "Source", reporter: Reporter) -> "Contents":
    """The content of the images, read with progress; DataError if validation or test files are not images."""
    from vit.data.contents import read_contents
    from vit.training.run_images import check_readable

    with ProgressReport(reporter, "image read") as progress:
        contents = read_contents(source, progress.update)
    check_readable(source, contents)
    return contents
