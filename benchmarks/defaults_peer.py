"""What a user of another tool writes: runs in that tool's environment, and never imports `vit`.

    python defaults_peer.py train_fastai IMAGES WEIGHTS NETWORK OUT --size 96 --seed 0 --epochs 1
    python defaults_peer.py train_lightly IMAGES WEIGHTS NETWORK OUT --size 96 --seed 0 --epochs 30 --set lr=1e-4
    python defaults_peer.py train_autogluon IMAGES WEIGHTS NETWORK OUT --size 96 --seed 0 --set optim.max_epochs=30
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
    parser.add_argument("--base_lr", type=float, default=2e-3, help="learning rate of fastai")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the tool")
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
    learn.fine_tune(given.epochs, given.base_lr)
    files = find_images(given.images / "test")
    scores, _ = learn.get_preds(dl=dls.test_dl(files, num_workers=0))
    write_answers(given, files, [dls.vocab[index] for index in scores.argmax(1).tolist()])


def train_lightly(given: argparse.Namespace) -> None:
    """The first example of LightlyTrain's documentation with timm's network, and the classes of the test images."""
    import lightly_train  # type: ignore[import-not-found]

    parts = {part: given.images / part for part in ("train", "val")}
    classes = dict(enumerate(sorted(path.name for path in parts["train"].iterdir())))
    backbone = {"pretrained": True, "pretrained_cfg_overlay": {"file": str(given.weights)}}
    lightly_train.train_image_classification(
        out=given.out / "run", model=f"timm/{given.network}", data={**parts, "classes": classes}, num_workers=0,
        precision="32-true",  # its default, bfloat16, is slow on a CPU without instructions for it
        steps=round(given.epochs * len(find_images(parts["train"])) / 16), seed=given.seed,
        transform_args={"image_size": (given.size, given.size)},
        model_args={"backbone_args": backbone, **settings(given)},
    )  # fmt: skip
    model = lightly_train.load_model(given.out / "run" / "exported_models" / "exported_best.pt")
    files = find_images(given.images / "test")
    write_answers(given, files, [classes[int(model.predict(file)["labels"][0])] for file in files])


def train_autogluon(given: argparse.Namespace) -> None:
    """The quick start of AutoGluon's documentation with timm's network, and the classes of the test images."""
    import pandas
    import timm
    import torch
    from autogluon.multimodal import MultiModalPredictor  # type: ignore[import-not-found]

    def sized_network(**options: Any) -> torch.nn.Module:
        """AutoGluon gives timm a name alone, which has no size of images."""
        return timm.create_model(given.network, **image_size(given.network, given.size), **options)

    timm.models.register_model(sized_network)
    network = create_pretrained(given, num_classes=0)
    folder = given.out / "model"
    folder.mkdir()
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps(describe(network, given) | {"architecture": "sized_network"}))
    train, val, test = (
        pandas.DataFrame({"image": map(str, files), "label": [file.parent.name for file in files]})
        for files in (find_images(given.images / part) for part in ("train", "val", "test"))
    )
    predictor = MultiModalPredictor(label="label", path=str(given.out / "run"))
    fixed = {"model.timm_image.checkpoint_name": str(folder), "env.num_workers": 0, "env.num_workers_inference": 0}
    predictor.fit(train, tuning_data=val, seed=given.seed, hyperparameters=fixed | settings(given))
    files = [Path(file) for file in test["image"]]
    write_answers(given, files, list(predictor.predict(test.drop(columns="label"))))


def settings(given: argparse.Namespace) -> dict[str, Any]:
    """What `--set` holds, with values in JSON."""
    return {name: json.loads(value) for name, value in (word.split("=") for word in given.set)}


def lay_out_model(given: argparse.Namespace) -> None:
    """The weights as timm's folders of the hub have them, with positions resampled to the size of the images."""
    from safetensors.torch import save_file

    network = create_pretrained(given)
    given.out.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), given.out / "model.safetensors", metadata={"format": "pt"})
    (given.out / "config.json").write_text(json.dumps(describe(network, given)))


def create_pretrained(given: argparse.Namespace, **options: Any) -> Any:
    """timm's network with the published weights, its positions resampled to the size of the images."""
    import timm

    return timm.create_model(
        given.network, pretrained=True, pretrained_cfg_overlay={"file": str(given.weights)},
        **image_size(given.network, given.size), **options,
    )  # fmt: skip


def describe(network: Any, given: argparse.Namespace) -> dict[str, Any]:
    """config.json of timm's folders of the hub."""
    kept = ("interpolation", "crop_pct", "crop_mode", "mean", "std", "first_conv", "classifier")
    return {
        "architecture": given.network, "num_classes": network.num_classes, "num_features": network.num_features,
        "model_args": image_size(given.network, given.size),
        "pretrained_cfg": {name: network.pretrained_cfg[name] for name in kept}
        | {"input_size": [3, given.size, given.size], "num_classes": network.num_classes},
    }  # fmt: skip


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
    files = find_images(given.images / "test")
    write_answers(given, files, [classes[index] for index in top(network, transform, files)])


def answer_transformers(given: argparse.Namespace) -> None:
    """The answers of the model that run_image_classification.py saved."""
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained(given.out / "run")
    processor = AutoImageProcessor.from_pretrained(given.out / "run")  # type: ignore[no-untyped-call]
    names = {int(index): name for index, name in model.config.id2label.items()}
    files = find_images(given.images / "test")
    indices = top(lambda images: model(images).logits, processor.val_transforms, files)
    shutil.rmtree(given.out / "run")
    write_answers(given, files, [names[index] for index in indices])


def image_size(network: str, size: int) -> dict[str, int]:
    """What timm's constructor needs to know of the size of the images: only ViTs have positions."""
    return {"img_size": size} if "vit" in network or "deit" in network else {}


def find_images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


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


ACTIONS = (train_fastai, train_lightly, train_autogluon, lay_out_model, answer_timm, answer_transformers)

if __name__ == "__main__":
    main()
