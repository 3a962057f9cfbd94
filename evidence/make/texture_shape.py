"""Shape or texture: images whose class both give, and images on which the two disagree.

    python evidence/make/texture_shape.py make FOLDER       (a folder named texture_shape)
    python evidence/make/texture_shape.py measure ROW

A gray image of 32 pixels has a figure at a random place: a disk, a square, a triangle or a cross. Its inside is darker
or lighter than the ground, and has a texture: lines across, lines down, a checkerboard, or spots. In the images to
learn from, each shape has one texture, of a contrast that differs from image to image. The networks of the row then
decide on images whose shape has the texture of another class, at four contrasts of the texture: from faint, where the
texture is hard to see, to strong. `measured/conflicts.json` keeps which of them each network decides by the shape, and
which by the texture.
"""

import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from definitions import EVIDENCE
from kept import is_measurable
from machine import processor
from PIL import Image

from vit.atomic_files import write_json
from vit.checkpoints.result import pack
from vit.checkpoints.run import RunDirectory
from vit.inference.predictor import load
from vit.study.folder import StudyDirectory

SIDE, PERIOD = 32, 4
SHAPES = ("disk", "square", "triangle", "cross")  # the classes
TRAIN, TEST, CONFLICTS = 500, 100, 50  # images of a class; conflicts of a shape and a texture
CONTRASTS = (0.05, 0.1, 0.2, 0.4)  # of the texture, where the noise has a standard deviation of 0.05

Picture = npt.NDArray[np.uint8]


def mask_of(shape: int, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Where a figure of equal area is (S, S), at a random place and of a random size."""
    radius = generator.uniform(8, 11)
    y, x = np.mgrid[:SIDE, :SIDE] - generator.uniform(SIDE / 2 - 4, SIDE / 2 + 3, (2, 1, 1))
    half = radius * 0.886  # of a square with the area of the disk
    if shape == 0:
        return np.asarray(x**2 + y**2 < radius**2)
    if shape == 1:
        return np.asarray(np.maximum(abs(x), abs(y)) < half)
    if shape == 2:
        height = radius * 2.5
        return np.asarray((y < height / 3) & (abs(x) < (y + 2 * height / 3) / 2))
    return np.asarray((np.minimum(abs(x), abs(y)) < half * 0.45) & (np.maximum(abs(x), abs(y)) < half * 1.3))


def texture_of(texture: int, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Values 0 and 1 (S, S) with a random phase."""
    y, x = np.mgrid[:SIDE, :SIDE] + generator.integers(0, PERIOD, (2, 1, 1))
    across, down = y // (PERIOD // 2) % 2, x // (PERIOD // 2) % 2
    if texture == 3:
        spots = np.zeros((SIDE, SIDE))
        spots[generator.random((SIDE, SIDE)) < 0.5] = 1
        return spots
    return np.asarray((across, down, across ^ down)[texture], dtype=np.float64)


def picture(shape: int, texture: int, generator: np.random.Generator, contrast: float | None = None) -> Picture:
    """An image (S, S) of one shape with one texture; without a contrast a random one of the range of `CONTRASTS`."""
    ground, step = generator.uniform(0.35, 0.65), generator.choice((-1, 1)) * generator.uniform(0.1, 0.2)
    drawn = float(np.exp(generator.uniform(np.log(CONTRASTS[0]), np.log(CONTRASTS[-1]))))
    inside = ground + step + (contrast or drawn) * (texture_of(texture, generator) - 0.5)
    values = np.where(mask_of(shape, generator), inside, ground) + generator.normal(0, 0.05, (SIDE, SIDE))
    return np.asarray(255 * values.clip(0, 1), dtype=np.uint8)


def make(folder: Path) -> None:
    """Write class folders of BMP files, whose bytes are the same on every machine; a whole folder stays as it is."""
    if (folder / "test").is_dir():
        return
    for split, seed, count in (("train", 0, TRAIN), ("test", 1, TEST)):
        generator = np.random.default_rng(seed)
        partial = folder / f"{split}.partial"
        for shape, name in enumerate(SHAPES):
            (partial / name).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                Image.fromarray(picture(shape, shape, generator)).save(partial / name / f"{number:04d}.bmp")
        partial.rename(folder / split)


def conflicts(contrast: float) -> tuple[torch.Tensor, list[int], list[int]]:
    """Images (n, 3, S, S) uint8 whose shape and texture disagree, their shapes, and their textures.

    All contrasts have the same figures, textures and noise.
    """
    generator = np.random.default_rng(2)
    kinds = [(shape, texture) for shape in range(4) for texture in range(4) if shape != texture] * CONFLICTS
    images = np.stack([picture(shape, texture, generator, contrast) for shape, texture in kinds])
    shapes, textures = (list(values) for values in zip(*kinds, strict=True))
    return torch.from_numpy(images)[:, None].expand(-1, 3, -1, -1).contiguous(), shapes, textures


def measure(row: str) -> None:
    """What the networks of a row decide by."""
    path = EVIDENCE / row / "measured" / "conflicts.json"
    path.parent.mkdir(exist_ok=True)
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"correct": {}}
    study = StudyDirectory(EVIDENCE / row)
    by_contrast = {contrast: conflicts(contrast) for contrast in CONTRASTS}
    for cell in study.read()[1]:
        run = RunDirectory(study.path / cell.folder)
        if not is_measurable(run):
            continue
        predictor = load(run.path, engine="torch")
        classes = torch.tensor([SHAPES.index(name) for name in predictor.class_names])
        for contrast, (images, shapes, textures) in by_contrast.items():
            decided = classes[predictor.engine.probabilities(images).argmax(dim=1).cpu()]
            content["num_images"] = len(images)
            for name, truth in (("shape", shapes), ("texture", textures)):
                condition = f"decided by the {name}, texture of contrast {contrast:g}"
                by_seed = content["correct"].setdefault(condition, {}).setdefault(cell.series, {})
                by_seed[str(cell.seed)] = pack((decided == torch.tensor(truth)).numpy())
    content |= {"command": f"python evidence/make/texture_shape.py measure {row}", "machine": processor()}
    write_json(path, content)


if __name__ == "__main__":
    word, place = sys.argv[1:]
    make(Path(place)) if word == "make" else measure(place)
