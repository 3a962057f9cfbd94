"""Where a recipe trains: the device, the processes, how they share the weights, and in which precision."""

import os

import torch

from vit.errors import UsageError, nearest
from vit.models.catalog import CATALOG
from vit.models.vision_transformer import VisionTransformer
from vit.training.inference import choose_device, choose_precision
from vit.training.recipe import Recipe

STRATEGIES = ("auto", "ddp", "fsdp")


def place(recipe: Recipe) -> tuple[torch.device, int]:
    """The device, and the number of processes over all machines."""
    trainer = recipe.trainer
    if trainer.strategy not in STRATEGIES:
        raise UsageError(
            f"--strategy {trainer.strategy} is none of {', '.join(STRATEGIES)}", nearest(trainer.strategy, STRATEGIES)
        )
    device = choose_device({"gpu": "cuda"}.get(trainer.accelerator, trainer.accelerator))
    started = os.environ.get("LOCAL_WORLD_SIZE")
    if started is not None and str(trainer.devices) not in ("auto", started):
        raise UsageError(
            f"--devices {trainer.devices}, but torchrun started {started} processes", "leave --devices out"
        )
    if "WORLD_SIZE" in os.environ:  # torchrun or a scheduler has started the processes already
        return device, int(os.environ["WORLD_SIZE"])
    automatic = torch.cuda.device_count() if device.type == "cuda" else 1
    return device, (automatic if trainer.devices == "auto" else trainer.devices) * trainer.num_nodes


def decide_precision(wanted: str, device: torch.device) -> str:
    """The precision for a device; UsageError if it cannot be had there."""
    if wanted == "16-mixed" and device.type == "cpu":
        raise UsageError("--precision 16-mixed needs a GPU", "give --precision auto, bf16-mixed or 32-true")
    return choose_precision(wanted, device)


def check_sharding(recipe: Recipe, network: str) -> None:
    """Raise UsageError if the recipe wants something that does not go with sharded weights.

    Args:
        network: its name in the catalog.
    """
    wanted = {
        "a network that is no ViT of ours": network not in CATALOG or CATALOG[network].network is not VisionTransformer,
        "--optim.optimizer muon, which works on whole matrices": recipe.optim.optimizer == "muon",
        "--optim.ema_decay above 0, whose average would be whole on every process": recipe.optim.ema_decay > 0,
        "--lora": recipe.model.lora is not None,
        "--freeze backbone": recipe.model.freeze == "backbone",
    }
    for name, is_wanted in wanted.items():
        if is_wanted:
            raise UsageError(f"--strategy fsdp does not go with {name}", "change that, or give --strategy ddp")
