"""Labels that are probably wrong, with their pictures, as one self-contained HTML page"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from vit.data.dataset import array_image
from vit.data.decode import ImageError, read_image
from vit.data.samples import Samples, Source
from vit.data.split import SplitRow
from vit.report.page import write_page
from vit.report.thumbnails import encoded, shrunk
from vit.study.label_errors import LabelErrors

THUMBNAIL = 160  # pixels of the longer side
MOST_PICTURES = 500


@dataclass(frozen=True)
class Suspect:
    """An image whose label is probably wrong.

    Attributes:
        confidence: probability of the label.
        picture: source of its <img>, or None where the image cannot be read.
    """

    rank: int
    path: str
    label: str
    suggested: str
    confidence: float
    picture: Markup | None


def write_label_page(
    path: Path,
    source: Source,
    rows: Sequence[tuple[str, SplitRow]],
    places: Sequence[tuple[str, int]],
    class_names: tuple[str, ...],
    errors: LabelErrors,
) -> None:
    """Write the page of the most suspicious labels.

    Args:
        source: the data set.
        rows: (split, row) of each checked image.
        places: (split, index in the split) of the same images.
        class_names: classes of the predictions.
        errors: labels that are probably wrong.
    """
    suspects = []
    for rank, image in enumerate(errors.suspects[:MOST_PICTURES].tolist(), 1):
        row, (split, index) = rows[image][1], places[image]
        suggested, confidence = class_names[errors.suggested[image]], float(errors.confidence[image])
        picture = _picture(source.splits[split], index)
        suspects.append(Suspect(rank, row.path, row.label, suggested, confidence, picture))
    content = {
        "data": source.name,
        "num_images": len(rows),
        "num_suspects": errors.num_suspects,
        "suspects": suspects,
    }
    write_page(path, "labels.html", content)


def _picture(samples: Samples, index: int) -> Markup | None:
    try:
        pixels = read_image(samples.file(index)) if samples.arrays is None else array_image(samples, index)
    except ImageError:
        return None
    return encoded(shrunk(pixels, THUMBNAIL))
