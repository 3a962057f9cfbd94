"""Labeling a folder of photographs with ViT-Ti/16 at 224 pixels, from JPEG files to a CSV with a row for each.

Ours: `vit.load(checkpoint).predict(folder)` with the writer of `vit predict`, in the precision "auto" of a checkpoint
that was trained in bf16-mixed.

Theirs: timm's vit_tiny_patch16_224 in a plain loop under inference_mode. A DataLoader has 2 workers (--workers) and
batches of 64, with Pillow and torchvision's Resize(256), CenterCrop(224), ToTensor and Normalize. It runs in float32,
in bfloat16 autocast, and with --compiled also compiled, which is not timed. Weights are random, because they do not
matter for speed.

    python benchmarks/predict_folder.py --photos FOLDER            (JPEG files, in any folders below)

Without --photos (or the environment's PHOTOS) the script draws photographs itself: 400x533 pixels, quality 85, smooth
noise with hard-edged shapes, about 40 kB each. They are the same on every machine.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from photos import find_photos
from timing import Work, answer, compare

CLASSES = tuple(f"class {number}" for number in range(10))


def ours(files: list[str], folder: Path, workers: int) -> float:
    import vit
    from vit.inference.rows import open_writer

    model = vit.load(folder / "model.ckpt")
    started = time.perf_counter()
    with open_writer(folder / "ours.csv", top_k=5) as writer:
        for row in model.predict(files):
            writer.write(row)
    return len(files) / (time.perf_counter() - started)


def timm(files: list[str], folder: Path, workers: int, bf16: bool = False, compiles: bool = False) -> float:
    import torch
    from PIL import Image
    from timm import create_model
    from torch import Tensor
    from torch.utils.data import DataLoader, Dataset
    from torchvision import transforms

    from vit.csv_files import new_table

    class Photos(Dataset[tuple[Tensor, str]]):
        prepare = transforms.Compose(
            [
                transforms.Resize(256),
                transforms.CenterCrop(224),
                transforms.ToTensor(),
                transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            ]
        )

        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, index: int) -> tuple[Tensor, str]:
            return self.prepare(Image.open(files[index]).convert("RGB")), files[index]

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = create_model("vit_tiny_patch16_224", num_classes=len(CLASSES)).eval().to(device)
    if compiles:
        model.compile(dynamic=True)
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16):
            for count in (64, len(files) % 64 or 64):
                model(torch.zeros(count, 3, 224, 224, device=device))
    started = time.perf_counter()
    with new_table(folder / "timm.csv", ("path", "label", "probability", *"2345")) as table, torch.inference_mode():
        for images, paths in DataLoader(Photos(), batch_size=64, num_workers=workers, pin_memory=device.type == "cuda"):
            with torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext():
                logits = model(images.to(device, non_blocking=True))
            values, places = logits.float().softmax(dim=1).topk(5)
            for path, place, value in zip(paths, places.tolist(), values.tolist(), strict=True):
                table.row([path, place[0], *value])
    return len(files) / (time.perf_counter() - started)


SIDES: dict[str, Callable[[list[str], Path, int], float]] = {
    "ours": ours,
    "timm float32": timm,
    "timm bfloat16 autocast": partial(timm, bf16=True),
    "timm bfloat16 compiled": partial(timm, bf16=True, compiles=True),
}


def work() -> Work:
    """The forward pass of an image. Its decoding has no FLOPs."""
    return Work.of("vit_tiny_patch16_224", len(CLASSES), 224, is_training=False)


def write_checkpoint(path: Path) -> None:
    """ViT-Ti/16 with random weights, in the format of `vit train`."""
    import torch

    from vit.checkpoints.format import Description, checkpoint_content
    from vit.data.pixels.preprocess import Preprocess
    from vit.models.spec import NetworkSpec

    spec = NetworkSpec.named("vit_tiny_patch16_224", len(CLASSES))
    about = Description(CLASSES, spec, Preprocess(224, crop_fraction=0.875), precision="bf16-mixed")
    weights = about.build().state_dict()
    weights["head.weight"].normal_(std=0.02)  # it starts at zero
    torch.save(checkpoint_content(about, weights), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", default=os.environ.get("PHOTOS"), help="folder of JPEG files; default: draw some")
    parser.add_argument("--images", type=int, default=2000, help="photos of a run; default 2,000")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each side; default 5")
    parser.add_argument("--workers", type=int, default=2, help="loader processes of timm; default 2")
    parser.add_argument("--compiled", action="store_true", help="timm compiled, too")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        files = (arguments.folder / "files.txt").read_text().splitlines()
        answer(SIDES[arguments.side](files, arguments.folder, arguments.workers))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found, photos = find_photos(arguments.photos, folder, arguments.images)
        (folder / "files.txt").write_text("\n".join(map(str, found)))
        write_checkpoint(folder / "model.ckpt")
        sides = [side for side in SIDES if "compiled" not in side or arguments.compiled]
        what = f"Predicting {photos} with ViT-Ti/16, from files to rows"
        compare(sides[0], sides[1:], arguments.pairs, what, "--folder", name, work=work)


if __name__ == "__main__":
    main()
