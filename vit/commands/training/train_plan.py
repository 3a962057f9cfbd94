"""The plan of a training on the terminal: data, network, start, length, device, and where results go"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.training.run_folder import tracker_facts
from vit.console import Reporter, count_of, percent
from vit.errors import some_of

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory
    from vit.training.planning.plan import Plan

SHOWN_CLASSES = 6
FEW_OF_CLASS = 10  # images in all splits
CROSSVAL = "vit crossval, which tests every image"
KEPT_CHECKPOINTS = 4  # the best, the last, the one before, and the one that is being written
UNEQUAL = (
    "a rare class may hardly be predicted. Compare --data.sampling sqrt, --optim.class_weights auto and "
    "--optim.logit_adjustment 1"
)
FOLLOWS_LOSS = (
    "the validation loss counts common classes more, against the correction; --optim.best_metric balanced_acc counts "
    "all classes equally"
)
FOLLOWS_BCE = (
    "the validation loss is binary cross-entropy, which the asymmetric loss does not minimize; --optim.best_metric map "
    "follows the mean average precision"
)
LOSSES = {"bce": "binary cross-entropy of each label", "asymmetric": "asymmetric loss of each label"}
SAMPLINGS = {"balanced": "equally often", "sqrt": "by the square root of their size"}


def show_plan(reporter: Reporter, plan: "Plan", run: str, why: str = "") -> None:
    """Show what a training will do: `run` may say why there is no folder, and `why` why it starts from weights."""
    names, trainer = plan.source.class_names, plan.recipe.trainer
    images = ", ".join(f"{len(samples):,} {split}" for split, samples in plan.source.splits.items())
    shown = some_of(names, SHOWN_CLASSES)
    device = f"{plan.device.type}, {plan.precision}"
    if trainer.compile:
        device += ", compiled (unless --trainer.compile is given, from 3,000 steps or 10 minutes on a GPU, an estimate)"
    if trainer.grad_checkpointing:
        device += ", blocks computed again in the backward pass"
    reporter.line(f"Training {plan.spec.name} on {plan.source.name}")
    reporter.facts(
        [
            ("data", f"{images}; {len(names):,} {plan.source.task.kinds_text}: {shown}"),
            *(("note", note) for note in plan.source.notes),
            *(_classes(plan) if plan.source.task.is_exclusive else _labels(plan)),
            ("network", network_text(plan)),
            *start_facts(plan, why),
            *_teacher(plan),
            ("augment", augment_text(plan)),
            *length_facts(plan),
            ("device", device),
            ("run", run),
            *tracker_facts(plan.recipe, run),
        ]
    )


def network_text(plan: "Plan") -> str:
    """Size and cost of the network."""
    cost, side = plan.cost, plan.preprocess.image_size
    words = f"{cost.parameters:,} parameters, {cost.flops / 1e6:,.0f} MFLOPs an image, {side} pixels"
    window, channels = plan.preprocess.window, plan.preprocess.channels
    if channels != 3:
        words += f", {count_of(channels, 'channel')}"
    if window is None:
        return words
    pairs = [f"from {low:,g} to {high:,g}" for low, high in zip(window[::2], window[1::2], strict=True)]
    return f"{words}; {'gray ' * (len(pairs) == 1)}values {', '.join(pairs)}"


def warn_of_space(reporter: Reporter, plan: "Plan", run: "RunDirectory") -> None:
    """Warn if the checkpoints will not fit on the disk."""
    needed, free = KEPT_CHECKPOINTS * plan.checkpoint_bytes, shutil.disk_usage(run.path).free
    if needed > free:
        left = f"{run.path} has {free / 1e6:,.1f} MB left"
        reporter.warn(f"checkpoints will take up to {needed / 1e6:,.1f} MB, and {left}")


def _labels(plan: "Plan") -> list[tuple[str, str]]:
    """Labels of an image, how rare the rarest is, the loss, and the metric that is followed."""
    from vit.checkpoints.result import rule_text
    from vit.tasks.losses import frequencies_of

    optim, rows = plan.recipe.optim, plan.source.splits["train"].labels
    known, frequencies = rows >= 0, frequencies_of(rows)
    unknown = f"; {(~known).sum():,} of {known.size:,} cells are unknown" if not known.all() else ""
    rarest, commonest = int(frequencies.argmin()), int(frequencies.argmax())
    names = plan.source.class_names
    least, most = (f"{names[one]} ({percent(frequencies[one])})" for one in (rarest, commonest))
    words = f"{(rows == 1).sum() / len(rows):.2f} for each training image, from {least} to {most}{unknown}"
    loss = f"{optim.loss or LOSSES[optim.multilabel_loss]}; best.ckpt has the {rule_text(optim.best_metric)}"
    facts = [("labels", words), ("loss", loss)]
    if optim.multilabel_loss == "asymmetric" and optim.best_metric == "loss" and optim.loss is None:
        facts.append(("note", FOLLOWS_BCE))
    return facts


def _classes(plan: "Plan") -> list[tuple[str, str]]:
    """What training does about unequal classes, or what to try where they differ much."""
    from vit.checkpoints.result import rule_text
    from vit.training.losses import RARE

    balance, optim = plan.class_balance, plan.recipe.optim
    best = f"best.ckpt has the {rule_text(optim.best_metric)}"
    rarest, commonest = balance.extremes
    is_judged = rarest in plan.source.splits["validation"].labels
    fewest, most = int(balance.counts[rarest]), int(balance.counts[commonest])
    if not balance.is_corrected:
        facts = [] if optim.best_metric == "loss" else [("classes", best)]
        facts += _few(plan)
        if fewest < RARE * most:
            names = balance.class_names
            each = ", each with --optim.best_metric balanced_acc" * is_judged
            uneven = f"{fewest:,} training images of {names[rarest]}, {most:,} of {names[commonest]}: {UNEQUAL}{each}"
            facts.append(("note", uneven))
        return facts
    corrections = []
    if balance.sampling != "natural":
        corrections.append(f"drawn {SAMPLINGS[balance.sampling]}")
    if balance.weights is not None:
        weights = balance.weights[balance.counts > 0]
        kind = optim.class_weights if isinstance(optim.class_weights, str) else "given"
        corrections.append(f"weights {weights.min():.3g} to {weights.max():.3g} in the loss ({kind})")
    if balance.logit_adjustment:
        corrections.append(f"logits of the training adjusted by {balance.logit_adjustment:g} log(share of the class)")
    facts = [("classes", "; ".join([*corrections, best]))]
    if fewest == most and isinstance(optim.class_weights, str):
        facts.append(("note", f"each class has {most:,} training images, so that nothing is to correct"))
    elif optim.best_metric == "loss" and is_judged:
        facts.append(("note", FOLLOWS_LOSS))
    return [*facts, *_few(plan)]


def _few(plan: "Plan") -> list[tuple[str, str]]:
    """A warning where classes have so few images in all that nothing reliable follows for them."""
    import numpy as np

    names, splits = plan.source.class_names, plan.source.splits.values()
    labels = np.concatenate([samples.labels for samples in splits])
    counts = np.bincount(labels[labels >= 0], minlength=len(names))
    few = [number for number, count in enumerate(counts) if count < FEW_OF_CLASS]
    if not few:
        return []
    some = some_of((f"{names[number]} {counts[number]}" for number in few), SHOWN_CLASSES)
    what = f"{len(few):,} of {count_of(len(names), 'class', 'classes')} have fewer than {FEW_OF_CLASS} images in all"
    return [("WARNING", f"{what} ({some}): what is measured of them says little; add images, or see {CROSSVAL}")]


def start_facts(plan: "Plan", why: str) -> list[tuple[str, str]]:
    """The initial weights, unless they are random as the user wants."""
    weights, model = plan.recipe.model.init_from, plan.recipe.model
    if weights is None:
        return [("start", f"random weights: {why}")] if why else []

    from vit.models.network import has_batch_norm
    from vit.training.network.features import last_layer
    from vit.training.network.initial_network import fits_head

    empty = plan.spec.build_empty(plan.preprocess.image_size)
    shown = weights.removeprefix(f"{Path.cwd()}{os.sep}")
    words = f"weights of {shown}" + f", {why}" * bool(why) + f"; LoRA of rank {model.lora}" * bool(model.lora)
    if plan.has_new_head and fits_head(model, empty) and last_layer(empty) is not None:
        words += "; a last layer for new classes is fitted first, by a linear probe"
    if plan.kept_rows:
        words += f"; {plan.kept_rows}"
    if model.freeze == "batch_stats" and has_batch_norm(empty):
        words += "; batch norms keep their mean and variance"
    return [("start", words), *_unfinished(Path(weights))]


def _unfinished(model: Path, of_file: str | None = None) -> list[tuple[str, str]]:
    from vit.checkpoints.run import check_finished, unfinished_text

    lacks = check_finished(model, True, of_file)
    return [("note", f"{model}: {unfinished_text(lacks)}")] if lacks else []


def _teacher(plan: "Plan") -> list[tuple[str, str]]:
    """Who teaches, how well it knows its own validation images, what it gives, and what it costs."""
    teacher, config = plan.teacher, plan.recipe.distill
    if teacher is None or config.weight is None:
        return []
    about = teacher.description
    cost, accuracy = about.spec.cost(about.preprocess.image_size), about.metrics.get("val/acc1")
    right = "" if accuracy is None else f", {percent(accuracy)} of its own validation images right"
    gives = f"probabilities at temperature {config.temperature:g}" if config.kind == "soft" else "most probable class"
    head = " for the distillation token" if plan.spec.options.get("pool") == "cls_dist" else ""
    more = f"{cost.flops / (3 * plan.cost.flops):.0%} more FLOPs a step"
    passes = "each image is computed once" if plan.teacher_remembers else more
    words = f"{about.spec.name}, {cost.parameters:,} parameters{right}: {teacher.path}"
    teaches = f"{gives}{head}, {config.weight:.0%} of the loss; {passes}"
    notes = _unfinished(teacher.path, about.unfinished)
    return [("teacher", words), *notes, ("teaches", teaches)]


def augment_text(plan: "Plan") -> str:
    """The augmentations that change an image, and whether the preset's RandAugment is left out."""
    from vit.data.pixels.augment import preset

    augment = plan.augment
    unchanged = vars(type(augment)()) | {"magnitude": augment.magnitude}
    changing = []
    for key, value in vars(augment).items():
        if value != unchanged[key]:
            changing.append(f"{key} {value:g}" if isinstance(value, int | float) else f"{key} {value}")
    if augment.randaugment:
        changing.append(f"magnitude {augment.magnitude}")
    is_of_preset = preset(plan.recipe.augment.name, plan.preprocess.image_size, mirrored=False).randaugment > 0
    is_left_out = is_of_preset and plan.preprocess.channels not in (1, 3)
    left_out = " (RandAugment needs gray or RGB images)" * is_left_out
    return (", ".join(changing) or "none") + left_out


def batch_text(plan: "Plan") -> str:
    """The images of a step, and how they are divided."""
    parts, processes = plan.recipe.optim.accumulate, plan.world_size
    words = count_of(plan.batch_size, "image") + f" in {parts} micro-batches" * (parts > 1)
    return words + f" on {processes} processes, {plan.batch_size // processes:,} on each" * (processes > 1)


def length_facts(plan: "Plan") -> list[tuple[str, str]]:
    """Batch, optimizer and number of steps; or the penalties of a linear probe, which fits all images at once."""
    optim = plan.recipe.optim
    if plan.recipe.model.freeze == "backbone":
        how = "the last layer alone, fitted to all images at once, on features computed once"
        return [("training", f"{how}; {plan.rounds} penalties, validation chooses")]
    rate, lowest = f"{optim.scaled_lr:g}", ""
    if optim.lr_batch_size is not None:
        rule = "linear" if optim.optimizer == "sgd" else "square root"
        known = f"{optim.lr:g} for {count_of(optim.lr_batch_size, 'image')}, {rule} rule"
        rate = known if optim.batch_size == "auto" else f"{rate} ({known})"
    if optim.layer_decay != 1:
        from vit.training.lora import add_adapters
        from vit.training.optim import parameter_groups

        empty, rank = plan.spec.build_empty(plan.preprocess.image_size), plan.recipe.model.lora
        if rank is not None:  # the embeddings below the first adapters stay as they are
            add_adapters(empty, rank)
        trained = [(name, weights) for name, weights in empty.named_parameters() if weights.requires_grad]
        least = min(group["lr"] for group in parameter_groups(empty, trained, optim))
        lowest = f", down to {least:.2g} in the lowest layer" * (least < optim.scaled_lr)
    of_epochs = f"{count_of(plan.total_steps / plan.steps_per_epoch, 'epoch')} of {plan.steps_per_epoch:,}"
    steps = f"{plan.total_steps:,} ({of_epochs}), {plan.warmup_steps:,} of them warm-up, seed {plan.recipe.seed}"
    if optim.steps is not None and plan.total_steps != optim.steps:
        steps += f"; {optim.steps:,} are rounded up to {plan.rounds} equal rounds between validations"
    if optim.is_timed:
        steps = f"as many as trial steps show to end within {optim.time}, seed {plan.recipe.seed}"
    facts = [("batch", batch_text(plan))]
    facts += [("own loss", f"{optim.loss}; validation keeps the {plan.source.task.plain_loss}")] if optim.loss else []
    facts += [("own metric", f"{optim.metric}, in metrics.csv")] if optim.metric else []
    words = f"{optim.optimizer}, learning rate {rate}{lowest}, weight decay {optim.weight_decay:g}"
    facts += [("optimizer", words), ("steps", f"{'at most ' * (optim.patience is not None)}{steps}")]
    if plan.ema_decay and not optim.is_timed:  # the number of steps decides
        lowered = f", as {optim.ema_decay:g} is for more steps" * (plan.ema_decay < optim.ema_decay)
        facts.append(("average", f"of the weights, which is kept, with decay {plan.ema_decay:.4g}{lowered}"))
    if optim.patience is not None:
        waited = count_of(optim.patience, plan.validation_name)
        facts.append(("patience", f"{waited} without a better {optim.best_metric}: then the rate falls to the end"))
    return facts
