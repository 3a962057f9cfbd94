"""How a pretrained ViT uses positions: accuracy with patches in order, with shuffled patches, and without positions.

    python benchmarks/patch_shuffle.py PHOTOS WEIGHTS [--sizes 160,224,288,384] [--orders 3]

PHOTOS holds ImageNet photographs. The name of a file or of its folder begins with the synset (n01440764_tench.JPEG,
n01440764/1.JPEG). WEIGHTS is anything that `vit convert` reads, for ImageNet's 1,000 classes. Patches are shuffled
after preprocessing. Each image has orders of its own, drawn from a seed.
"""

import argparse
import re
from pathlib import Path

import torch
from timm.data import ImageNetInfo
from torch import Tensor

from vit.data.decode import read_image
from vit.data.preprocess import Preprocess
from vit.models.vision_transformer import VisionTransformer
from vit.weights.open import open_pretrained
from vit.weights.pretrained import PretrainedWeights

SYNSET = re.compile(r"n\d{8}")
BATCH = 25


def labeled(folder: Path) -> tuple[list[Path], Tensor]:
    """Photos in sorted order, and their places among ImageNet's synsets."""
    place = {name: number for number, name in enumerate(ImageNetInfo("imagenet-1k").label_names())}
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        synset = SYNSET.match(path.name) or SYNSET.match(path.parent.name)
        if synset is not None:
            found.append((path, place[synset[0]]))
    if not found:
        raise SystemExit(f"{folder} has no photo whose name or folder begins with a synset, such as n01440764")
    return [path for path, _ in found], torch.tensor([label for _, label in found])


def network_for(weights: PretrainedWeights, image_size: int | None) -> VisionTransformer:
    """The network of the weights at an image size; None: their own."""
    network = weights.build(weights.num_classes, image_size).network.eval()
    assert isinstance(network, VisionTransformer), "this benchmark is about ViTs"
    return network


@torch.inference_mode()
def logits_of(network: VisionTransformer, pixels: Tensor, preprocess: Preprocess, orders: Tensor | None) -> Tensor:
    """Logits (n, C) of pixels (n, 3, S, S) uint8, whose patches are put into `orders` (n, N) first."""
    parts = []
    for start in range(0, len(pixels), BATCH):
        images = preprocess.normalize(pixels[start : start + BATCH])
        if orders is not None:
            images = shuffled(images, orders[start : start + BATCH], network.patch_embed.patch_size)
        parts.append(network(images))
    return torch.cat(parts)


def shuffled(images: Tensor, orders: Tensor, side: int) -> Tensor:
    """Images (B, 3, S, S) with their patches in another order: orders (B, N)."""
    B, channels, S, _ = images.shape
    grid = S // side
    patches = images.reshape(B, channels, grid, side, grid, side).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    patches = patches[torch.arange(B)[:, None], orders]
    return patches.reshape(B, grid, grid, channels, side, side).permute(0, 3, 1, 4, 2, 5).reshape(images.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("weights")
    parser.add_argument("--sizes", default="160,224,288,384", help="image sizes, in pixels")
    parser.add_argument("--orders", type=int, default=3, help="how many orders of the patches are tried")
    parser.add_argument("--crop_fraction", type=float, help="of the preprocessing, in place of the weights' own")
    given = parser.parse_args()
    paths, labels = labeled(given.photos)
    weights = open_pretrained(given.weights)
    if given.crop_fraction is not None:
        weights.preprocess["crop_fraction"] = given.crop_fraction
    print(f"{len(paths)} photos, {weights.source}: {dict(weights.facts())['preprocessing']}")

    def accuracy(logits: Tensor) -> float:
        return 100 * (logits.argmax(dim=1) == labels).double().mean().item()

    for size in map(int, given.sizes.split(",")):
        preprocess = Preprocess(size, **weights.preprocess)
        pixels = torch.stack([preprocess(read_image(path)) for path in paths])
        print(f"{size} pixels: top-1 {accuracy(logits_of(network_for(weights, size), pixels, preprocess, None)):.1f} %")

    network = network_for(weights, None)
    preprocess = Preprocess(network.image_size, **weights.preprocess)
    pixels = torch.stack([preprocess(read_image(path)) for path in paths])
    plain = logits_of(network, pixels, preprocess, None)
    print(f"{network.image_size} pixels, patches in order: top-1 {accuracy(plain):.1f} %")
    count, seeds = network.config.num_patches, range(given.orders)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    orders = [torch.stack([torch.randperm(count, generator=g) for _ in paths]) for g in generators]
    found = torch.tensor([accuracy(logits_of(network, pixels, preprocess, order)) for order in orders])
    spread = f"{found.min():.1f} to {found.max():.1f}, n = {len(found)} orders of each image"
    print(f"patches shuffled, positions kept: top-1 {found.mean():.1f} % ({spread})")
    assert network.pos_embed is not None
    with torch.no_grad():
        network.pos_embed[:, -count:] = 0.0
    blind, blind_shuffled = (logits_of(network, pixels, preprocess, order) for order in (None, orders[0]))
    print(
        f"positions of patches zero: top-1 {accuracy(blind):.1f} %; largest difference of a logit between patches in "
        f"order and shuffled {(blind - blind_shuffled).abs().max():.1e}"
    )


if __name__ == "__main__":
    main()
