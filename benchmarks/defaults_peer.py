"""What a user of another tool writes: runs in that tool's environment, and never imports `vit`.

    python defaults_peer.py train_fastai IMAGES WEIGHTS NETWORK OUT --size 96 --seed 0 --epochs 1
    python defaults_peer.py lay_out_model IMAGES WEIGHTS NETWORK OUT --size 96       # a folder that transformers loads
    python defaults_peer.py answer_timm IMAGES WEIGHTS NETWORK OUT --size 96
    python defaults_peer.py answer_transformers IMAGES WEIGHTS NETWORK OUT

IMAGES has train/CLASS, val/CLASS and test/CLASS. OUT/answers.csv receives the class of each test image.
"""

import argparse
import csv
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=[action.__name__ for action in ACTIONS])
    parser.add_argument("images", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("network")
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=64)
    given = parser.parse_args()
    next(action for action in ACTIONS if action.__name__ == given.action)(given)


def train_fastai(given: argparse.Namespace) -> None:
    """The four lines of fastai's quick start, and the classes of the test images."""
    from fastai.vision.all import (  # type: ignore[import-not-found]
        ImageDataLoaders,
        Resize,
        error_rate,
        set_seed,
        vision_learner,
    )  # fmt: skip

    set_seed(given.seed, reproducible=True)
    dls = ImageDataLoaders.from_folder(
        given.images, train="train", valid="val", item_tfms=Resize(given.size), bs=given.batch_size, num_workers=0
    )
    overlay = {"file": str(given.weights)}
    learn = vision_learner(
        dls, given.network, metrics=error_rate, pretrained_cfg_overlay=overlay, **image_size(given.network, given.size)
    )
    learn.fine_tune(given.epochs)
    files = find_test_images(given.images)
    scores, _ = learn.get_preds(dl=dls.test_dl(files, num_workers=0))
    write_answers(given, files, [dls.vocab[index] for index in scores.argmax(1).tolist()])


def lay_out_model(given: argparse.Namespace) -> None:
    """The weights as timm's folders of the hub have them, with positions resampled to the size of the images."""
    import timm
    from safetensors.torch import save_file

    network = timm.create_model(
        given.network, pretrained=True, pretrained_cfg_overlay={"file": str(given.weights)},
        **image_size(given.network, given.size),
    )  # fmt: skip
    given.out.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), given.out / "model.safetensors", metadata={"format": "pt"})
    kept = ("interpolation", "crop_pct", "crop_mode", "mean", "std", "first_conv", "classifier")
    config = {
        "architecture": given.network, "num_classes": network.num_classes, "num_features": network.num_features,
        "model_args": image_size(given.network, given.size),
        "pretrained_cfg": {name: network.pretrained_cfg[name] for name in kept}
        | {"input_size": [3, given.size, given.size], "num_classes": network.num_classes},
    }  # fmt: skip
    (given.out / "config.json").write_text(json.dumps(config))


def answer_timm(given: argparse.Namespace) -> None:
    """The answers of the checkpoint that timm's train.py calls the best."""
    import timm
    from timm.data import create_transform, resolve_data_config

    classes = sorted(path.name for path in (given.images / "train").iterdir())
    checkpoint = given.out / "run" / "model_best.pth.tar"
    network = timm.create_model(
        given.network, num_classes=len(classes), checkpoint_path=str(checkpoint),
        **image_size(given.network, given.size),
    )  # fmt: skip
    transform = create_transform(**resolve_data_config({"img_size": given.size}, model=network))
    files = find_test_images(given.images)
    write_answers(given, files, [classes[index] for index in top(network, transform, files)])


def answer_transformers(given: argparse.Namespace) -> None:
    """The answers of the model that run_image_classification.py saved."""
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained(given.out / "run")
    processor = AutoImageProcessor.from_pretrained(given.out / "run")  # type: ignore[no-untyped-call]
    names = {int(index): name for index, name in model.config.id2label.items()}
    files = find_test_images(given.images)
    indices = top(lambda images: model(images).logits, processor.val_transforms, files)
    shutil.rmtree(given.out / "run")
    write_answers(given, files, [names[index] for index in indices])


def image_size(network: str, size: int) -> dict[str, int]:
    """What timm's constructor needs to know of the size of the images: only ViTs have positions."""
    return {"img_size": size} if "vit" in network or "deit" in network else {}


def find_test_images(images: Path) -> list[Path]:
    return sorted(path for path in (images / "test").rglob("*") if path.is_file())


def top(network: Callable[[Any], Any], transform: Callable[[Any], Any], files: Sequence[Path]) -> Iterable[int]:
    """Index of the class of each image."""
    import torch
    from PIL import Image

    if isinstance(network, torch.nn.Module):
        network.eval()
    indices: list[int] = []
    with torch.inference_mode():
        for first in range(0, len(files), 64):
            batch = [transform(Image.open(path).convert("RGB")) for path in files[first : first + 64]]
            indices += network(torch.stack(batch)).argmax(1).tolist()
    return indices


def write_answers(given: argparse.Namespace, files: Sequence[Path], classes: Sequence[str]) -> None:
    with (given.out / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "predicted"))
        for path, predicted in zip(files, classes, strict=True):
            writer.writerow((path.relative_to(given.images / "test").as_posix(), predicted))


ACTIONS = (train_fastai, lay_out_model, answer_timm, answer_transformers)

if __name__ == "__main__":
    main()
