"""Options of a recipe that contradict each other or the machine, in one table"""

from dataclasses import dataclass
from importlib.util import find_spec

import torch

from vit.data.core.samples import Source
from vit.errors import UsageError, install
from vit.inference.devices import has_compiler
from vit.models.catalog import CATALOG
from vit.models.vision_transformer import VisionTransformer
from vit.own_code import load
from vit.training.planning.schedule import AUTO
from vit.training.recipes.ranges import seconds
from vit.training.recipes.recipe import Recipe


def check_task_options(recipe: Recipe, source: Source) -> None:
    """Raise UsageError if an option does not go with the labels of the images."""
    task, metric = source.task, recipe.optim.best_metric
    if metric not in task.best_metrics:
        raise UsageError(
            f"--optim.best_metric {metric} does not exist for {task.described}", f"give {', '.join(task.best_metrics)}"
        )
    for option, unset in task.other_options.items():
        section, name = option.split(".")
        value = getattr(getattr(recipe, section), name)
        if value != unset:
            shown = f"{value:g}" if isinstance(value, float) else value
            raise UsageError(f"--{option} {shown} {task.other_problem.format(data=source.name)}", task.other_fix)


# Compiling takes about half a minute of a GPU (docs/results.md), and a step of a small network 10 ms or more, of which
# most are launches that compiling saves. That these lengths repay it is an estimate, which no GPU has measured.
COMPILED_STEPS, COMPILED_SECONDS = 3_000, 600.0


@dataclass(frozen=True)
class Machine:
    """Where a recipe trains."""

    device: torch.device  # device of this process
    world_size: int  # number of processes over all machines
    precision: str  # precision of the training

    def compiles(self, recipe: Recipe, network: str, total_steps: int) -> bool:
        """Whether torch.compile compiles a network for its training: as the recipe says, or for "auto" where it repays.

        With "auto" several processes do not compile: all gradients of a compiled network are ready at once, so that no
        process sends some of them while it computes the others.
        """
        model, optim, trainer = recipe.model, recipe.optim, recipe.trainer
        if trainer.compile != AUTO:
            return trainer.compile
        is_timed = optim.time is not None and optim.steps is None
        is_long = seconds(str(optim.time), "--time") >= COMPILED_SECONDS if is_timed else total_steps >= COMPILED_STEPS
        is_plain = network in CATALOG and self.world_size == 1 and model.lora is None and model.freeze != "backbone"
        is_whole = recipe.distill.teacher is None or model.network.get("pool") != "cls_dist"
        return self.device.type == "cuda" and is_long and is_plain and is_whole and has_compiler()


def check_own_code(recipe: Recipe) -> None:
    """Import the user's code; UsageError where that fails, before anything is written."""
    own, optim = recipe.augment.own, recipe.optim
    for option, path in (("augment.own", own), ("optim.loss", optim.loss), ("optim.metric", optim.metric)):
        if path is not None:
            load(path, f"--{option}")


def check_compatibility(recipe: Recipe, machine: Machine, network: str | None) -> None:
    """Raise UsageError if options of a recipe contradict each other or the machine.

    Args:
        network: name of the network; None: one of our ViTs, by the size of the images.
    """
    model, trainer, world_size = recipe.model, recipe.trainer, machine.world_size
    has_lora, has_probe, is_scratch = model.lora is not None, model.freeze == "backbone", model.init_from is None
    is_sharded, sharding, ddp = trainer.strategy == "fsdp", "--strategy fsdp does not go with", "give --strategy ddp"
    is_ours = network is None or (network in CATALOG and CATALOG[network].network is VisionTransformer)
    is_taught, weights = recipe.distill.teacher is not None, recipe.optim.class_weights
    is_timed, batch_size = recipe.optim.time is not None and recipe.optim.steps is None, recipe.optim.batch_size
    contradictions = [  # (condition, problem, fix)
        (
            machine.precision == "16-mixed" and machine.device.type == "cpu",
            "--precision 16-mixed needs a GPU",
            "give --precision auto, bf16-mixed or 32-true",
        ),
        (has_lora and is_scratch, "--lora without weights to start from", "give --init_from"),
        (has_lora and has_probe, "--lora with --freeze backbone, which trains the last layer alone", "leave one out"),
        (has_lora and find_spec("peft") is None, "--lora needs peft", install("lora")),
        (
            model.freeze != "none" and is_scratch,
            f"--freeze {model.freeze} without weights to start from",
            "give --init_from, or --freeze none",
        ),
        (
            model.init_head == "probe" and is_scratch,
            "--model.init_head probe without weights to start from",
            "give --init_from, or leave it out",
        ),
        (
            has_probe and recipe.data.sampling != "natural",
            f"--data.sampling {recipe.data.sampling} with --freeze backbone, which reads each image once",
            "give --optim.class_weights auto",
        ),
        (
            has_probe and recipe.optim.best_metric == "last",
            "--optim.best_metric last with --freeze backbone, which tries penalties and has no last weights",
            "give --optim.best_metric loss",
        ),
        (
            recipe.optim.patience is not None and has_probe,
            "--patience with --freeze backbone, which tries all penalties",
            "leave one out",
        ),
        (
            recipe.optim.patience is not None and recipe.optim.best_metric == "last",
            "--patience with --optim.best_metric last, for which each validation is better",
            "give --optim.best_metric loss",
        ),
        (has_probe and world_size > 1, f"--freeze backbone on {world_size} processes", "give --devices 1"),
        (
            is_timed and has_probe,
            "--time with --freeze backbone, which takes one pass over the images",
            "leave one out",
        ),
        (is_timed and world_size > 1, f"--time on {world_size} processes", "give --epochs, or --devices 1"),
        (batch_size == AUTO and world_size > 1, f"--batch_size auto on {world_size} processes", "give a number"),
        (is_sharded and not is_ours, f"{sharding} a network that is not one of our ViTs", ddp),
        (
            trainer.grad_checkpointing and (has_probe or not is_ours),
            "--trainer.grad_checkpointing true is for our ViTs whose blocks are trained",
            "leave it out, or give --optim.accumulate",
        ),
        (
            is_sharded and recipe.optim.optimizer == "muon",
            f"{sharding} --optim.optimizer muon, which works on whole matrices",
            ddp,
        ),
        (is_sharded and has_lora, f"{sharding} --lora", ddp),
        (
            is_sharded and recipe.optim.ema_decay > 0,
            f"{sharding} --optim.ema_decay, a copy of all weights",
            f"{ddp}, or --optim.ema_decay 0",
        ),
        (is_sharded and has_probe, f"{sharding} --freeze backbone", ddp),
        (is_sharded and trainer.compile is True, f"{sharding} --trainer.compile true", ddp),
        (
            is_taught and has_probe,
            "--teacher with --freeze backbone, which fits the last layer to labels alone",
            "leave one out",
        ),
        (is_sharded and is_taught, f"{sharding} --teacher", ddp),
        (
            is_taught and trainer.compile is True and model.network.get("pool") == "cls_dist",
            "--trainer.compile true with --teacher and pool cls_dist, whose two heads are computed one by one",
            "leave --trainer.compile out",
        ),
        (
            is_taught and weights != "none",
            "--optim.class_weights with --teacher, whose part of the loss has no class weights",
            "give --data.sampling balanced or sqrt",
        ),
        (
            is_taught and recipe.optim.logit_adjustment > 0,
            "--optim.logit_adjustment with --teacher, whose classes are as common as in its own training",
            "give --data.sampling balanced or sqrt",
        ),
        (
            recipe.optim.loss is not None and (weights != "none" or recipe.optim.logit_adjustment > 0),
            "--optim.loss with class weights or logit adjustment, which are those of the cross-entropy",
            "give --data.sampling balanced or sqrt, or leave one out",
        ),
        (
            has_probe and trainer.compile is True,
            "--trainer.compile true with --freeze backbone, which computes each image once",
            "leave one out",
        ),
    ]
    for is_wrong, problem, fix in contradictions:
        if is_wrong:
            raise UsageError(problem, fix)
