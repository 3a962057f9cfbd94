"""Learned positions of a ViT for fewer patches than it was trained with: resampled, or the middle of the old ones.

    python benchmarks/positions.py IMAGES WEIGHTS

IMAGES holds photographs of ImageNet's classes, named by WordNet: n01440764_tench.jpg. WEIGHTS are timm's file of
deit_tiny_patch16_224. Prints the share of images that it has right, without any training.
"""

import argparse
from pathlib import Path

import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from timm.data import ImageNetInfo, create_transform
from timm.layers import resample_patch_embed
from torch import Tensor

from vit.weights.adapt import resample_positions

NAME, PATCH, CROP = "deit_tiny_patch16_224", 16, 0.9


def right(images: Tensor, labels: Tensor, weights: dict[str, Tensor], patch_size: int) -> float:
    """Share of the images (N, 3, S, S) that the network has right, in percent."""
    network = timm.create_model(NAME, img_size=images.shape[-1], patch_size=patch_size).eval()
    network.load_state_dict(weights)
    with torch.inference_mode():
        answers = torch.cat([network(part).argmax(dim=1) for part in images.split(50)])
    return 100 * float((answers == labels).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("weights", type=Path)
    given = parser.parse_args()
    info, files = ImageNetInfo(), sorted(given.images.glob("n*_*"))
    numbers = {info.index_to_label_name(number): number for number in range(info.num_classes())}
    labels = torch.tensor([numbers[file.name.split("_")[0]] for file in files])
    weights = load_file(given.weights)
    positions, kernel = weights["pos_embed"], "patch_embed.proj.weight"
    half = {**weights, kernel: resample_patch_embed(weights[kernel], [PATCH // 2, PATCH // 2])}
    print(f"| pixels, {len(files)} images | resampled | the middle | resampled, patches of 8 |\n|---|---|---|---|")
    for side in (224, 192, 160, 128, 112, 96, 80, 64):
        network = timm.create_model(NAME)
        config = timm.data.resolve_data_config({"input_size": (3, side, side), "crop_pct": CROP}, model=network)
        images = torch.stack([create_transform(**config)(Image.open(file).convert("RGB")) for file in files])
        grid = side // PATCH
        shares = [
            right(images, labels, {**weights, "pos_embed": resample_positions(positions, grid, 1)}, PATCH),
            right(images, labels, {**weights, "pos_embed": resample_positions(positions, grid, 1, True)}, PATCH),
            right(images, labels, {**half, "pos_embed": resample_positions(positions, 2 * grid, 1)}, PATCH // 2),
        ]
        print(f"| {side} | {' | '.join(f'{share:.1f}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main()
