"""The networks of a kept study on changed test images: moved, hidden, turned, spoiled, or with shuffled patches.

    python evidence/make/conditions.py ROW --patch PIXELS [--only WORD]

Images are changed after the preprocessing, at the size that the network sees. Every change is decided by a fixed seed
and the number of the image, so that all networks see the same images. Sizes of changes are fractions of the side, so
that they mean the same for small and for large images. A pixel that comes from outside has the color of the nearest
border pixel. Cells of the largest number of training images are measured, each of them once.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from definitions import EVIDENCE
from kept import is_measurable
from machine import processor
from torch import Tensor

from vit.atomic_files import write_json
from vit.checkpoints.result import pack
from vit.checkpoints.run import RunDirectory
from vit.commands.cli.recipe_options import read_recipe
from vit.data.loading.loader import labeled_images
from vit.inference.predictor import load
from vit.study.findings import ListedCell
from vit.study.folder import StudyDirectory
from vit.training.running.run_images import images_of_run

Change = Callable[[Tensor, torch.Generator], Tensor]  # images (n, 3, S, S) between 0 and 1 -> the same shape


def moved(images: Tensor, generator: torch.Generator, share: float) -> Tensor:
    """Each image moved by `share` of its side, in one of eight directions."""
    side = images.shape[-1]
    step = max(1, round(share * side))
    way = torch.randint(8, (len(images),), generator=generator)
    directions = torch.tensor([(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if y or x])[way] * step  # (n, 2)
    places = torch.arange(side)
    rows = (places[None] - directions[:, :1]).clamp(0, side - 1)  # (n, S)
    columns = (places[None] - directions[:, 1:]).clamp(0, side - 1)
    number = torch.arange(len(images))
    return images[number[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def turned(images: Tensor, generator: torch.Generator, degrees: float) -> Tensor:
    """Each image turned by `degrees`, to one of the two sides."""
    sign = torch.randint(2, (len(images),), generator=generator) * 2 - 1
    angle = torch.deg2rad(sign * degrees)
    sine, cosine, zero = angle.sin(), angle.cos(), torch.zeros_like(angle)
    matrices = torch.stack((torch.stack((cosine, -sine, zero), 1), torch.stack((sine, cosine, zero), 1)), 1)
    grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def hidden(images: Tensor, generator: torch.Generator, share: float) -> Tensor:
    """A gray square with `share` of the side at a random place."""
    side = images.shape[-1]
    width = max(1, round(share * side))
    start = torch.randint(side - width + 1, (len(images), 2, 1), generator=generator)
    inside = (torch.arange(side) >= start) & (torch.arange(side) < start + width)  # (n, 2, S)
    square = inside[:, 0, :, None] & inside[:, 1, None, :]
    return images.masked_fill(square[:, None], 0.5)


def noisy(images: Tensor, generator: torch.Generator, deviation: float) -> Tensor:
    """Gaussian noise of a standard deviation, where the brightness is between 0 and 1; gray images stay gray."""
    noise = torch.randn(len(images), 1, *images.shape[2:], generator=generator)
    return (images + deviation * noise).clamp(0, 1)


def blurred(images: Tensor, _: torch.Generator, share: float) -> Tensor:
    """Gaussian blur with a standard deviation of `share` of the side."""
    side = images.shape[-1]
    distance = torch.arange(side)[:, None] - torch.arange(side)[None]
    weights = (-0.5 * (distance / (share * side)) ** 2).exp()
    weights /= weights.sum(dim=1, keepdim=True)  # (S, S): a border pixel sees less far
    return weights @ images @ weights.T


def pale(images: Tensor, _: torch.Generator, contrast: float) -> Tensor:
    """Lower contrast around the mean of each image."""
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return mean + contrast * (images - mean)


def shuffled(images: Tensor, orders: Tensor, side: int) -> Tensor:
    """Images (B, C, S, S) with their patches in another order: orders (B, N)."""
    B, channels, S, _ = images.shape
    grid = S // side
    patches = images.reshape(B, channels, grid, side, grid, side).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    patches = patches[torch.arange(B)[:, None], orders]
    return patches.reshape(B, grid, grid, channels, side, side).permute(0, 3, 1, 4, 2, 5).reshape(images.shape)


def with_shuffled_patches(images: Tensor, generator: torch.Generator, patch: int) -> Tensor:
    """The patches of each image in an order of its own."""
    count = (images.shape[-1] // patch) ** 2
    orders = torch.stack([torch.randperm(count, generator=generator) for _ in images])
    return shuffled(images, orders, patch)


def changes(patch: int) -> Iterator[tuple[str, Change]]:
    """(name, change), mild before strong."""
    yield "unchanged", lambda images, _: images
    for share in (0.125, 0.25):
        yield f"moved by {share:g} of the side", partial(moved, share=share)
    for degrees in (15, 30, 60):
        yield f"turned by {degrees} degrees", partial(turned, degrees=degrees)
    for share in (0.25, 0.5):
        yield f"hidden by a square of {share:g} of the side", partial(hidden, share=share)
    for deviation in (0.1, 0.2, 0.4):
        yield f"noise of {deviation:g}", partial(noisy, deviation=deviation)
    for share in (0.06, 0.12):
        yield f"blur of {share:g} of the side", partial(blurred, share=share)
    for contrast in (0.5, 0.25):
        yield f"contrast of {contrast:g}", partial(pale, contrast=contrast)
    yield "shuffled patches", partial(with_shuffled_patches, patch=patch)


@torch.inference_mode()
def measured(folder: Path, root: str | None, wanted: dict[str, Change]) -> tuple[int, dict[str, str]]:
    """(number of test images, {condition: which of them a run has right, packed})."""
    run = RunDirectory.open(folder)
    engine = load(run.path, engine="torch").engine
    test = images_of_run(run, read_recipe(run.config_path), root).splits["test"]
    batches = list(labeled_images(test, engine.preprocess))
    pixels = torch.cat([batch.image[batch.valid] for batch in batches]).float() / 255  # (T, 3, S, S)
    labels = torch.cat([batch.label[batch.valid] for batch in batches])
    found = {}
    for name, change in wanted.items():
        changed = change(pixels, torch.Generator().manual_seed(0))
        bytes_ = (255 * changed).round().clamp(0, 255).to(torch.uint8)
        answers = torch.cat([engine.probabilities(part) for part in bytes_.split(256)]).argmax(dim=1)
        found[name] = pack((answers.cpu() == labels).numpy())
    return len(labels), found


def main() -> None:
    """Measure a row and write what was measured into its folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row")
    parser.add_argument("--patch", type=int, required=True, help="side of a patch that is shuffled, in pixels")
    parser.add_argument("--only", default="", help="conditions whose name has this word; the unchanged images always")
    parser.add_argument("--root", help="folder of the images")
    arguments = parser.parse_args()
    wanted = {
        name: change for name, change in changes(arguments.patch) if arguments.only in name or name == "unchanged"
    }
    study, path = StudyDirectory(EVIDENCE / arguments.row), EVIDENCE / arguments.row / "measured" / "conditions.json"
    path.parent.mkdir(exist_ok=True)
    content: dict[str, Any] = {"num_images": 0, "correct": {}}
    if path.is_file():
        content = json.loads(path.read_text(encoding="utf-8"))
    cells = study.read()[1]
    largest = max(cell.num_images for cell in cells)
    for cell in (cell for cell in cells if cell.num_images == largest):
        if all(is_measured(content["correct"], name, cell) for name in wanted):
            continue
        run = study.run(cell)
        if not is_measurable(run):
            print(f"{cell.folder}: no weights of a finished training here")
            continue
        content["num_images"], found = measured(study.path / cell.folder, arguments.root, wanted)
        for name, text in found.items():
            content["correct"].setdefault(name, {}).setdefault(cell.series, {})[str(cell.seed)] = text
        command = f"python evidence/make/conditions.py {arguments.row} --patch {arguments.patch}"
        content |= {"command": command + f" --only {arguments.only}" * bool(arguments.only), "machine": processor()}
        write_json(path, content)
        print(f"{cell.folder}: measured", flush=True)


def is_measured(correct: dict[str, dict[str, dict[str, str]]], condition: str, cell: ListedCell) -> bool:
    """Whether a cell has answers under a condition."""
    return str(cell.seed) in correct.get(condition, {}).get(cell.series, {})


if __name__ == "__main__":
    main()
