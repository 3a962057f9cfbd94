"""Training speed on Fashion-MNIST: the shipped recipe against the same network from timm in a plain Lightning script.

Ours: `configs/fashion_mnist.yaml` as `vit train` runs it (`vit.training.fit.fit` with its data module, augmentation,
weight averaging, gradient clipping, schedule and metrics). A callback times the steps and ends the training.

Theirs: timm's VisionTransformer of the same size and batch in a LightningModule of three methods with AdamW. A
DataLoader with 2 workers feeds torchvision's FashionMNIST and transforms. It has no averaging, clipping, schedule or
metrics. Both train in the precision that the recipe chooses: bf16-mixed where the hardware has it.

With `--epochs 1` a run is one epoch to its last step, without the validation after it.

    python benchmarks/train_fashion_mnist.py --root FOLDER          (FOLDER/FashionMNIST/raw)
    python benchmarks/train_fashion_mnist.py --root FOLDER --epochs 1
"""

import argparse
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from timing import Work, answer, compare, now

from vit.training.observers import Listener

RECIPE, NETWORK = (
    "fashion_mnist",
    str(
        Path(__file__).parents[1] / "evidence/make/networks/vit_mini_28.yaml"  # with a class token, as timm's
    ),
)
WARMUP_STEPS = 10


class Measured(Exception):  # noqa: N818  not an error
    """Enough steps were timed; leaves a training from inside."""


class Stopwatch(Listener):
    """Times `steps` optimizer steps after the warm-up; a listener of `vit.training.fit.fit`."""

    def __init__(self, steps: int, batch_size: int) -> None:
        self.steps = steps
        self.batch_size = batch_size
        self.images_per_second = 0.0

    def step(self, done: int, total: int = 0, loss: float = 0.0, images_per_second: float = 0.0) -> None:
        if done == WARMUP_STEPS:
            self.started = now()
        if done == WARMUP_STEPS + self.steps:
            self.images_per_second = self.steps * self.batch_size / (now() - self.started)
            raise Measured

    def row(self, row: dict[str, float], step: int) -> None:
        """Rows of metrics.csv do not matter here."""


def ours(arguments: argparse.Namespace) -> float:
    from vit.checkpoints.run import RunDirectory
    from vit.commands.cli.recipe_layers import RecipeLayers
    from vit.training.fit import fit
    from vit.training.planning.plan import plan_of

    recipe = RecipeLayers((RECIPE, NETWORK)).recipe()
    plan = plan_of(replace(recipe, data=replace(recipe.data, root=arguments.root)))
    watch = Stopwatch(arguments.steps or plan.steps_per_epoch * arguments.epochs - WARMUP_STEPS, plan.batch_size)
    with tempfile.TemporaryDirectory() as folder:
        try:
            fit(plan, RunDirectory(Path(folder)), [watch])
        except Measured:
            return watch.images_per_second
    raise SystemExit(f"the recipe ends before step {WARMUP_STEPS + watch.steps}")


def timm(arguments: argparse.Namespace) -> float:
    import torch
    import torch.nn.functional as F
    from lightning.pytorch import Callback, LightningModule, Trainer
    from timm.models.vision_transformer import VisionTransformer
    from torch import Tensor, nn
    from torch.utils.data import DataLoader
    from torchvision import transforms
    from torchvision.datasets import FashionMNIST

    from vit.inference.devices import choose_device, choose_precision

    batch_size = 128  # as in the recipe

    class Plain(LightningModule):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network

        def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
            images, labels = batch
            return F.cross_entropy(self.network(images), labels, label_smoothing=0.1)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.0012, weight_decay=0.05)

    class Watch(Callback):
        def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
            watch.step(trainer.global_step)

    varied = transforms.Compose(
        [
            transforms.Grayscale(3),
            transforms.RandomCrop(28, padding=2),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.286] * 3, [0.353] * 3),
        ]
    )
    images = FashionMNIST(arguments.root, train=True, transform=varied)
    loader = DataLoader(images, batch_size, shuffle=True, num_workers=2, drop_last=True, persistent_workers=True)
    watch = Stopwatch(arguments.steps or len(loader) * arguments.epochs - WARMUP_STEPS, batch_size)
    network = VisionTransformer(img_size=28, patch_size=4, num_classes=10, embed_dim=128, depth=6, num_heads=4)
    trainer = Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=-1,
        precision=choose_precision("auto", choose_device()),  # type: ignore[arg-type]
        callbacks=[Watch()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    try:
        trainer.fit(Plain(network), loader)
    except Measured:
        return watch.images_per_second
    raise SystemExit("the training ended early")


def work() -> Work:
    """The training step of an image, in the network of the recipe."""
    return Work.of("vit_mini_patch4_28", 10, 28, is_training=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.environ.get("FASHION_MNIST_ROOT", "data/fashion_mnist"))
    parser.add_argument("--steps", type=int, default=60, help="steps of a run, after 10 that warm up; default 60")
    parser.add_argument("--epochs", type=int, default=0, help="whole epochs of a run instead")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each side; default 5")
    parser.add_argument("--side", choices=("ours", "timm"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.epochs:
        arguments.steps = 0
    if arguments.side:
        answer({"ours": ours, "timm": timm}[arguments.side](arguments))
        return
    if not Path(arguments.root, "FashionMNIST", "raw").is_dir():
        raise SystemExit(f"{arguments.root} holds no FashionMNIST/raw; give --root FOLDER or set FASHION_MNIST_ROOT")
    length = f"{arguments.epochs} epochs" if arguments.epochs else f"{arguments.steps} steps"
    what = f"Training on Fashion-MNIST, batches of 128, {length}, {WARMUP_STEPS} steps to warm up"
    compare("ours", ["timm"], arguments.pairs, what, work=work)


if __name__ == "__main__":
    main()
