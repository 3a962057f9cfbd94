"""How far a ViT's heads attend and how far a CNN's pixels act, as training images grow: the cells of a kept study.

    python evidence/make/reach.py ROW [--root FOLDER]

- ViT: the attention distance of Dosovitskiy et al. 2021, appendix D.7, mean over heads and test images; of the first
  block, and of the mean of all blocks.
- CNN: the effective receptive field of Luo et al. 2016 (arXiv 1701.04128): the gradient of a central position of the
  last feature map, summed over channels, at the pixels. Its radius is the mean distance from its center of gravity,
  weighted by the absolute gradient, so that it is a mean distance as the other is.

All distances are fractions of the image's side. Each cell is measured once.
"""

import argparse
import json

import numpy as np
import torch
from definitions import EVIDENCE
from kept import is_measurable
from lines import Lines
from torch import Tensor, nn

from vit.checkpoints.run import RunDirectory
from vit.commands.cli.recipe_options import read_recipe
from vit.data.loading.loader import labeled_images
from vit.explain.inspection import attention_spread
from vit.inference.engine import Engine
from vit.inference.predictor import load
from vit.models.timm_network import SmallImageResNet
from vit.models.vision_transformer import VisionTransformer
from vit.study.folder import StudyDirectory
from vit.training.running.run_images import images_of_run

IMAGES = 100
FIRST, ALL, FIELD = "first block", "mean of all blocks", "effective receptive field"


def reach_of(network: nn.Module, images: Tensor) -> dict[str, float]:
    """{what: distance as a fraction of the side} of a network over normalized images (n, 3, S, S)."""
    if isinstance(network, VisionTransformer):
        by_block = attention_spread(network, images).distance.mean(dim=1) / images.shape[-1]  # (L)
        return {FIRST: float(by_block[0]), ALL: float(by_block.mean())}
    assert isinstance(network, SmallImageResNet), "this benchmark is about our ViTs and small ResNets"
    return {FIELD: receptive_radius(network, images)}


def receptive_radius(network: SmallImageResNet, images: Tensor) -> float:
    """The mean distance of the pixels that a central feature depends on, weighted by their gradient."""
    pixels = images.clone().requires_grad_()
    features = network.model.forward_features(pixels)  # (n, D, h, w)
    y, x = features.shape[2] // 2, features.shape[3] // 2
    features[:, :, y, x].sum().backward()
    assert pixels.grad is not None
    weights = pixels.grad.abs().sum(dim=(0, 1))  # (S, S)
    weights = weights / weights.sum()
    side = weights.shape[0]
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    middle_y, middle_x = (weights * rows).sum(), (weights * columns).sum()  # strides move it off the map's place
    distance = ((rows - middle_y) ** 2 + (columns - middle_x) ** 2).sqrt()
    return float((weights * distance).sum()) / side


def main() -> None:
    """Measure a row and write what was measured into its folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row")
    parser.add_argument("--root", help="folder of the images")
    arguments = parser.parse_args()
    study = StudyDirectory(EVIDENCE / arguments.row)
    folder = study.path / "measured"
    folder.mkdir(exist_ok=True)
    path = folder / "reach_cells.json"
    known: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    cells = study.read()[1]
    for cell in cells:
        run = RunDirectory(study.path / cell.folder)
        if cell.folder in known or not is_measurable(run):
            continue
        engine = load(run.path, engine="torch").engine
        test = images_of_run(run, read_recipe(run.config_path), arguments.root).splits["test"]
        chosen = test.select(np.sort(np.random.default_rng(0).permutation(len(test))[:IMAGES]))
        batches = list(labeled_images(chosen, engine.preprocess))
        images = engine.preprocess.normalize(torch.cat([batch.image[batch.valid] for batch in batches]))
        assert isinstance(engine, Engine)
        known[cell.folder] = reach_of(engine.network.float().eval(), images)
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(cell.folder, known[cell.folder], flush=True)
    sizes = sorted({cell.num_images for cell in cells})
    values: dict[str, list[list[float]]] = {}
    for seed in sorted({cell.seed for cell in cells}):
        for series in dict.fromkeys(cell.series for cell in cells):
            found = [known.get(c.folder) for size in sizes for c in cells
                     if (c.series, c.seed, c.num_images) == (series, seed, size)]  # fmt: skip
            whole = [one for one in found if one is not None]
            if len(whole) == len(sizes):  # a seed counts when all its sizes are measured
                for what in whole[0]:
                    values.setdefault(f"{series}, {what}", []).append([one[what] for one in whole])
    if values:
        Lines(
            "training images", "distance, share of the image's side", tuple(sizes),
            {name: np.array(rows) for name, rows in values.items()}, "seeds", True,
            f"python evidence/make/reach.py {arguments.row}",
        ).write(folder / "reach.json")  # fmt: skip


if __name__ == "__main__":
    main()
