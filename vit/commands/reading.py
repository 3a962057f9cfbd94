"""Reading all images of a source before the first step, which `vit train` and `vit study` share."""

from typing import TYPE_CHECKING

from vit.console import ProgressReport, Reporter

if TYPE_CHECKING:
    from vit.data.contents import Contents
    from vit.data.samples import Source


def read_images(source: "Source", reporter: Reporter) -> "Contents":
    """What the images hold, read with progress; DataError if validation or test files are not images."""
    from vit.data.contents import read_contents
    from vit.training.run_images import check_readable

    with ProgressReport(reporter, "image read") as progress:
        contents = read_contents(source, progress.update)
    check_readable(source, contents)
    return contents
