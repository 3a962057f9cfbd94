"""Labels that are probably wrong, with their pictures, as one self-contained HTML page"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from vit.data.checks.scan import ImageList
from vit.data.core.samples import Source
from vit.report.page.page import write_page
from vit.report.page.thumbnails import encoded, shrunk
from vit.study.label_errors import CheckedImage, LabelErrors

THUMBNAIL = 160  # pixels of the longer side
MOST_PICTURES = 500


@dataclass(frozen=True)
class Suspect:
    """An image whose label is probably wrong."""

    rank: int
    path: str
    label: str
    suggested: str
    confidence: float  # probability of the label
    picture: Markup | None  # source of its <img>, or None where the image cannot be read


def write_label_page(
    path: Path,
    source: Source,
    images: Sequence[CheckedImage],
    class_names: tuple[str, ...],
    errors: LabelErrors,
    seen_before: Sequence[str],
    left_out: str = "",
) -> None:
    """Write the page of the most suspicious labels.

    Args:
        images: the checked images, in the order of `errors`.
        class_names: classes of the predictions.
        errors: labels that are probably wrong.
        seen_before: sentences about images that the networks have learned before.
        left_out: how many images are not checked, and why, without a full stop; "".
    """
    suspects, listed = [], ImageList(source)
    for rank, place in enumerate(errors.suspects[:MOST_PICTURES].tolist(), 1):
        split, index, row = images[place]
        suggested, confidence = class_names[errors.suggested[place]], float(errors.confidence[place])
        picture = _picture(listed, listed.starts[listed.splits.index(split)] + index)
        suspects.append(Suspect(rank, source.splits[split].paths[index], row.label, suggested, confidence, picture))
    content = {
        "data": source.name,
        "num_images": len(images),
        "num_suspects": errors.num_suspects,
        "suspects": suspects,
        "seen_before": seen_before,
        "left_out": left_out,
    }
    write_page(path, "labels.html", content)


def _picture(images: ImageList, image: int) -> Markup | None:
    pixels = images.picture(image)
    return None if pixels is None else encoded(shrunk(pixels, THUMBNAIL))
