"""Small pictures for pages, encoded from pixels without other parts of their files"""

import io

from markupsafe import Markup
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from vit.data.pixels.planes import shown
from vit.report.page.page import inline

LOSSLESS = 64  # pixels: a picture up to this side is stored without loss


def encoded(picture: Tensor) -> Markup:
    """Pixels (C, H, W) uint8 as the source of an <img>."""
    picture = shown(picture)
    buffer = io.BytesIO()
    kind = "PNG" if max(picture.shape[1:]) <= LOSSLESS else "JPEG"
    Image.fromarray(picture.permute(1, 2, 0).numpy()).save(buffer, kind, quality=80)
    return inline(buffer.getvalue(), f"image/{kind.lower()}")


def shrunk(picture: Tensor, side: int) -> Tensor:
    """The whole picture (C, H, W) with its longer side at most `side` pixels."""
    _, height, width = picture.shape
    longer = max(height, width)
    if longer <= side:
        return picture
    size = [max(1, height * side // longer), max(1, width * side // longer)]
    return TF.resize(picture, size, antialias=True)
