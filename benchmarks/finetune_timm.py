"""Test accuracy of a plain fine-tuning script around timm, for comparison with `vit train FOLDER --init_from WEIGHTS`.

    python benchmarks/finetune_timm.py FOLDER WEIGHTS [--epochs 8] [--seed 0]

FOLDER holds train/, validation/ and test/ with a folder for each class. WEIGHTS are DeiT-Tiny's in timm's names. The
settings are those that such scripts usually have:

- AdamW with weight decay 0.05, layer decay 0.75, learning rate 0.0005, a cosine and half an epoch of warm-up
- label smoothing 0.1, batches of 64, random crops of at least 0.35, mirror images
- bf16 where the processor has it; the epoch of the lowest validation loss is tested
"""

import argparse
import time
from pathlib import Path

import timm
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from timm.data import create_transform, resolve_data_config
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from vit.inference.devices import choose_device, choose_precision

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    device = choose_device()
    half = choose_precision("auto", device) == "bf16-mixed"

    num_classes = len(ImageFolder(given.folder / "train").class_names)
    network = timm.create_model("deit_tiny_patch16_224", num_classes=num_classes)
    weights = load_file(given.weights)
    network.load_state_dict({k: v for k, v in weights.items() if not k.startswith("head.")}, strict=False)
    network.to(device)
    config = resolve_data_config(model=network)
    varied = create_transform(**config, is_training=True, scale=(0.35, 1.0), hflip=0.5, color_jitter=0.0)
    parts = {"train": varied} | dict.fromkeys(("validation", "test"), create_transform(**config))
    loaders = {
        name: DataLoader(
            ImageFolder(given.folder / name, transform), BATCH, shuffle=name == "train", drop_last=name == "train",
            num_workers=2,
        )
        for name, transform in parts.items()
    }  # fmt: skip
    steps = len(loaders["train"])
    optimizer = create_optimizer_v2(network, "adamw", lr=5e-4, weight_decay=0.05, layer_decay=0.75)
    total, warmup = given.epochs * steps, steps // 2
    schedule, _ = create_scheduler_v2(
        optimizer, num_epochs=total, warmup_epochs=warmup, warmup_lr=0.0, warmup_prefix=False, min_lr=0.0
    )
    started, step, lowest, answer = time.monotonic(), 0, float("inf"), ""
    for epoch in range(1, given.epochs + 1):
        network.train()
        for images, labels in loaders["train"]:
            schedule.step(step)
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                loss = F.cross_entropy(network(images.to(device)), labels.to(device), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            step += 1
        validation, _, _ = score(network, loaders["validation"], device)
        if validation < lowest:
            _, right, count = score(network, loaders["test"], device)
            lowest, answer = validation, f"{100 * right / count:.2f} % ({right} of {count}), epoch {epoch}"
        seconds = time.monotonic() - started
        print(f"epoch {epoch}/{given.epochs}  val loss {validation:.3f}  {seconds:.0f} s", flush=True)
    print(f"test accuracy {answer}")


@torch.inference_mode()
def score(
    network: nn.Module, loader: "DataLoader[tuple[torch.Tensor, torch.Tensor]]", device: torch.device
) -> tuple[float, int, int]:
    """(mean loss, right answers, images)."""
    network.eval()
    loss, right, count = 0.0, 0, 0
    for images, labels in loader:
        logits, answers = network(images.to(device)).float(), labels.to(device)
        loss += F.cross_entropy(logits, answers, reduction="sum").item()
        right += int((logits.argmax(dim=1) == answers).sum())
        count += len(answers)
    return loss / count, right, count


if __name__ == "__main__":
    main()
