"""Photographs for benchmarks: JPEG files of a folder, or drawn ones, which are the same on every machine."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def find_photos(photos: str | None, drawn: Path, count: int) -> tuple[list[Path], str]:
    """Up to `count` JPEG files below the folder `photos`, or drawn into the folder `drawn`; and what they are."""
    if photos is None:
        print(f"drawing {count:,} photos (give --photos FOLDER to use real ones)", flush=True)
        return list(draw_photos(drawn, count)), f"{count:,} drawn photos"
    found = sorted(path for path in Path(photos).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))[:count]
    if not found:
        raise SystemExit(f"{photos} holds no .jpg or .jpeg file")
    return found, f"{len(found):,} photos of {photos}"


def draw_photos(folder: Path, count: int) -> Iterable[Path]:
    """JPEG files that cost a decoder what photographs of their size do."""
    for number in range(count):
        draws = np.random.default_rng(number)
        picture = np.zeros((533, 400, 3))
        for side, height in ((4, 90), (16, 45), (64, 25), (256, 12)):  # noise at four scales, coarse and strong first
            noise = draws.uniform(-height, height, (side, side, 3)) + 128
            grain = Image.fromarray(noise.clip(0, 255).astype(np.uint8)).resize((400, 533), Image.Resampling.BICUBIC)
            picture += np.asarray(grain, dtype=np.float64) - 128
        image = Image.fromarray((picture + 128).clip(0, 255).astype(np.uint8))
        canvas = ImageDraw.Draw(image)
        for _ in range(6):
            (left, top), size = draws.integers(0, 400, 2).tolist(), draws.integers(20, 160, 2).tolist()
            shape = canvas.ellipse if draws.random() < 0.5 else canvas.rectangle
            shape((left, top, left + size[0], top + size[1]), fill=tuple(draws.integers(0, 256, 3).tolist()))
        path = folder / f"{number:05}.jpg"
        image.save(path, quality=85)
        yield path
