"""Options of a recipe that contradict each other or the machine"""

from importlib.util import find_spec

from vit.data.core.samples import Source
from vit.errors import DataError, UsageError, install
from vit.inference.devices import has_compiler
from vit.models.catalog import CATALOG
from vit.models.vision_transformer import VisionTransformer
from vit.own_code import load
from vit.ranges import seconds
from vit.training.distributed.devices import Machine
from vit.training.planning.network_choice import WantedNetwork
from vit.training.planning.schedule import AUTO
from vit.training.recipes.recipe import OptimConfig, Recipe


def check_task_options(recipe: Recipe, source: Source) -> None:
    """Raise UsageError if an option does not go with the labels of the images."""
    task, metric = source.task, recipe.optim.best_metric
    if metric not in task.best_metrics:
        problem = f"--optim.best_metric {metric} does not exist for {task.described}"
        raise UsageError(problem, f"give {', '.join(task.best_metrics)}")
    for option, unset in task.other_options.items():
        section, name = option.split(".")
        value = getattr(getattr(recipe, section), name)
        if value != unset:
            shown = f"{value:g}" if isinstance(value, float) else value
            raise UsageError(f"--{option} {shown} {task.other_problem.format(data=source.name)}", task.other_fix)


def check_validation(optim: OptimConfig, source: Source) -> None:
    """Raise DataError if no validation image has a label, and the metric of the best checkpoint is NaN without one."""
    images, metric = source.splits["validation"], optim.best_metric
    if metric in ("map", "macro_f1") and not images.class_counts(len(source.class_names)).any():
        problem = f"no validation image of {source.name} has a label, and --optim.best_metric {metric} needs one"
        raise DataError(problem, "give validation images with labels, or --optim.best_metric loss")


# Compiling takes about half a minute of a GPU (docs/results.md), and a step of a small network 10 ms or more, of which
# most are launches that compiling saves. That these lengths repay it is an estimate, which no GPU has measured.
COMPILED_STEPS, COMPILED_SECONDS = 3_000, 600.0


def compiles(recipe: Recipe, machine: Machine, total_steps: int) -> bool:
    """Whether torch.compile compiles the network of a recipe: as the recipe says, or for "auto" where it repays.

    With "auto" several processes do not compile: all gradients of a compiled network are ready at once, so that no
    process sends some of them while it computes the others.
    """
    model, optim = recipe.model, recipe.optim
    if recipe.trainer.compile != AUTO:
        return recipe.trainer.compile
    is_long = total_steps >= COMPILED_STEPS
    if optim.is_timed:
        is_long = seconds(str(optim.time), "--time") >= COMPILED_SECONDS
    is_plain = model.network["name"] in CATALOG and machine.world_size == 1
    is_trained = model.lora is None and model.freeze != "backbone"
    is_whole = recipe.distill.teacher is None or model.network.get("pool") != "cls_dist"
    return machine.device.type == "cuda" and is_long and is_plain and is_trained and is_whole and has_compiler()


def check_compatibility(recipe: Recipe, machine: Machine, network: WantedNetwork) -> None:
    """Raise UsageError if options contradict each other or the machine, or if code of the user cannot be imported.

    A network without a name is one of our ViTs, by the size of the images.
    """
    model, optim, trainer, sampling = recipe.model, recipe.optim, recipe.trainer, recipe.data.sampling
    has_lora, has_probe, is_scratch = model.lora is not None, model.freeze == "backbone", model.init_from is None
    is_taught = recipe.distill.teacher is not None
    is_ours = network.name is None or (network.name in CATALOG and CATALOG[network.name].network is VisionTransformer)
    is_weighted, is_adjusted = optim.class_weights != "none", optim.logit_adjustment > 0
    is_last, compiles = optim.best_metric == "last", trainer.compile is True
    is_sharded, several = trainer.strategy == "fsdp", machine.world_size > 1
    probe, scratch = "with --freeze backbone, which", "without weights to start from"
    sharded, processes = "--strategy fsdp does not go with", f"on {machine.world_size} processes"
    one, ddp, by_loss = "leave one out", "give --strategy ddp", "give --optim.best_metric loss"
    sampled = "give --data.sampling balanced or sqrt instead"

    def refuse(is_wrong: bool, problem: str, fix: str) -> None:
        if is_wrong:
            raise UsageError(problem, fix)

    on_cpu = machine.precision == "16-mixed" and machine.device.type == "cpu"
    refuse(on_cpu, "--precision 16-mixed needs a GPU", "give --precision auto, bf16-mixed or 32-true")
    refuse(has_lora and is_scratch, f"--lora {scratch}", "give --init_from")
    refuse(has_lora and has_probe, f"--lora {probe} trains the last layer alone", one)
    refuse(has_lora and find_spec("peft") is None, "--lora needs peft", install("lora"))
    is_frozen = model.freeze != "none" and is_scratch
    refuse(is_frozen, f"--freeze {model.freeze} {scratch}", "give --init_from, or --freeze none")
    is_probed = model.init_head == "probe" and is_scratch
    refuse(is_probed, f"--model.init_head probe {scratch}", "give --init_from, or leave it out")
    is_sampled, reads = has_probe and sampling != "natural", f"{probe} reads each image once"
    refuse(is_sampled, f"--data.sampling {sampling} {reads}", "give --optim.class_weights auto instead")
    refuse(has_probe and is_last, f"--optim.best_metric last {probe} tries penalties and has no last weights", by_loss)
    if optim.patience is not None:
        refuse(has_probe, f"--patience {probe} tries all penalties", one)
        refuse(is_last, "--patience with --optim.best_metric last, for which each validation is better", by_loss)
    refuse(has_probe and several, f"--freeze backbone {processes}", "give --devices 1")
    refuse(optim.is_timed and has_probe, f"--time {probe} takes one pass over the images", one)
    refuse(optim.is_timed and several, f"--time {processes}", "give --epochs, or --devices 1")
    refuse(optim.batch_size == AUTO and several, f"--batch_size auto {processes}", "give a number")
    refuse(is_sharded and not is_ours, f"{sharded} a network that is not one of our ViTs", ddp)
    refuse(
        trainer.grad_checkpointing and (has_probe or not is_ours),
        "--trainer.grad_checkpointing true is for our ViTs whose blocks are trained",
        "leave it out, or give --optim.accumulate",
    )
    if is_sharded:
        is_muon = optim.optimizer == "muon"
        refuse(is_muon, f"{sharded} --optim.optimizer muon, which works on whole matrices", ddp)
        refuse(has_lora, f"{sharded} --lora", ddp)
        averages = optim.ema_decay > 0
        refuse(averages, f"{sharded} --optim.ema_decay, a copy of all weights", f"{ddp}, or --optim.ema_decay 0")
        refuse(has_probe, f"{sharded} --freeze backbone", ddp)
        refuse(compiles, f"{sharded} --trainer.compile true", ddp)
        refuse(is_taught, f"{sharded} --teacher", ddp)
    if is_taught:
        refuse(has_probe, f"--teacher {probe} fits the last layer to labels alone", one)
        refuse(
            compiles and network.options.get("pool") == "cls_dist",
            "--trainer.compile true with --teacher and pool cls_dist, whose two heads are computed one by one",
            "leave --trainer.compile out",
        )
        problem = "--optim.class_weights with --teacher, whose part of the loss has no class weights"
        refuse(is_weighted, problem, sampled)
        problem = "--optim.logit_adjustment with --teacher, whose classes are as common as in its own training"
        refuse(is_adjusted, problem, sampled)
    refuse(
        optim.loss is not None and (is_weighted or is_adjusted),
        "--optim.loss with class weights or logit adjustment, which are those of the cross-entropy",
        f"{sampled}, or leave one out",
    )
    refuse(has_probe and compiles, f"--trainer.compile true {probe} computes each image once", one)
    for option, path in (
        ("augment.own", recipe.augment.own),
        ("optim.loss", optim.loss),
        ("optim.metric", optim.metric),
    ):
        if path is not None:
            load(path, f"--{option}")
    if trainer.checkpoint_every is not None:
        seconds(trainer.checkpoint_every, "--checkpoint_every")
