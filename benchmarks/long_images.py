"""Long images from photographs: each stands at a random place of a strip that is three times as long as high.

    python benchmarks/long_images.py clothing/ long/ [--train 60]
    vit study long/ --sizes all --seeds 3 --budget steps:60 \
        --set optim.batch_size=32 --set model.preprocess.image_size=96 \
        --networks "NETWORK,NETWORK --resize_mode squash,NETWORK --resize_mode pad"

Beside the photograph a strip has the color of its border. The middle square of a strip shows a random part of it.
"""

import argparse
import random
from pathlib import Path

from PIL import Image

HEIGHT = 192


def strip(photo: Image.Image, place: float) -> Image.Image:
    """The photograph on its strip, at a place from 0 (left) to 1 (right)."""
    photo = photo.convert("RGB")
    photo = photo.resize(
        (min(3 * HEIGHT, round(photo.width * HEIGHT / photo.height)), HEIGHT), Image.Resampling.BICUBIC
    )
    border = photo.resize((photo.width, 1), Image.Resampling.BOX)
    left, right = (border.getpixel((x, 0)) for x in (0, photo.width - 1))
    color = tuple((a + b) // 2 for a, b in zip(left, right, strict=True))  # type: ignore[arg-type]
    whole = Image.new("RGB", (3 * HEIGHT, HEIGHT), color)
    whole.paste(photo, (round(place * (3 * HEIGHT - photo.width)), 0))
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", type=Path, help="folder with train/CLASS, validation/CLASS and test/CLASS")
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", type=int, default=60, help="training photographs of each class")
    given = parser.parse_args()
    draw = random.Random(0)
    for folder in sorted(given.photos.glob("*/*/")):
        out = given.out / folder.relative_to(given.photos)
        out.mkdir(parents=True)
        photos = sorted(folder.iterdir())
        for path in photos[: given.train] if folder.parent.name == "train" else photos:
            with Image.open(path) as photo:
                strip(photo, draw.random()).save(out / f"{path.stem}.jpg", quality=90)


if __name__ == "__main__":
    main()
