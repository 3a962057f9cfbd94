"""A recipe becomes a plan: everything that a training needs to know, decided and checked before the first step"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from vit.data.core.samples import Source
from vit.data.loading.module import ImageDataModule, LoaderOptions, auto_cache_bytes
from vit.data.pixels.augment import Augment, preset
from vit.data.pixels.preprocess import COLORS, Preprocess
from vit.errors import UsageError
from vit.models.memory_format import checkpoint_blocks
from vit.models.network import Network, has_batch_norm
from vit.models.spec import Cost, NetworkSpec
from vit.own_code import check_trusted
from vit.ranges import seconds
from vit.training.distillation import REMEMBERED_BYTES, Teacher, find_teacher, with_teacher
from vit.training.distributed.devices import Machine, choose_machine
from vit.training.losses import ClassBalance, class_balance
from vit.training.optim import check_optimizer, warmup_steps
from vit.training.planning.compatibility import check_compatibility, check_task_options, check_validation, compiles
from vit.training.planning.images import chosen_part, divided, opened_data, subset_seed, with_subset
from vit.training.planning.network_choice import ChosenNetwork, choose_network, wanted_network, windowed
from vit.training.planning.schedule import AUTO, Schedule, choose_schedule, end_of_decay, with_length
from vit.training.recipes.image_options import AugmentConfig, PreprocessConfig
from vit.training.recipes.recipe import Recipe, own_code
from vit.training.recipes.values import as_trained

P = TypeVar("P", bound="Plan")
UNMIRRORED = frozenset({"digits", "mnist", "kmnist", "svhn", "gtsrb"})  # letters, digits and signs


@dataclass(frozen=True)
class Plan(Schedule, Machine):
    """A training, fully decided: its length, where it trains, and what it trains on which images."""

    recipe: Recipe  # the recipe with every open choice filled in: the content of the run's config.yaml
    source: Source  # images of all splits
    spec: NetworkSpec  # the network
    preprocess: Preprocess  # how an image becomes the network's input
    augment: Augment  # how training images are varied
    cost: Cost  # parameters and FLOPs of the network
    checkpoint_seconds: float | None  # time between two checkpoints; None: they are saved at validations only
    has_new_head: bool = True  # whether the first weights have no last layer for these classes, as far as is known
    kept_rows: str = ""  # which rows a last layer for other classes keeps, in words; "" for none
    teacher: Teacher | None = None  # network that teaches this one; None: labels alone
    seen_before: Sequence[str] = ()  # on validation and test images that the teacher or the first weights know already

    @property
    def class_balance(self) -> ClassBalance:
        return class_balance(self.recipe.optim, self.recipe.data.sampling, self.source)

    @property
    def warmup_steps(self) -> int:
        return warmup_steps(self.recipe.optim, self.total_steps)

    @property
    def validation_name(self) -> str:
        """The name of what precedes a validation: an epoch, a penalty of a linear probe, or a number of steps."""
        if self.recipe.model.freeze == "backbone":
            return "penalty"
        return "epoch" if self.recipe.optim.steps is None else "validation"

    @property
    def is_sharded(self) -> bool:
        return self.recipe.trainer.strategy == "fsdp" and self.world_size > 1

    @property
    def takes_batch_stats(self) -> bool:
        """Whether the output for an image in training depends on the other images of the batch."""
        return self.recipe.model.freeze == "none" and has_batch_norm(self.spec.build_empty(self.preprocess.image_size))

    @property
    def ema_decay(self) -> float:
        """The recipe's decay, or less: an average over more than a fifth of the training would keep its beginning.

        With `optim.patience` that is the shortest training.
        """
        steps, patience = self.total_steps, self.recipe.optim.patience
        if patience is not None:
            waited = max(patience + 1, math.ceil(self.warmup_steps / self.steps_per_round))
            steps = end_of_decay(waited, self.rounds) * self.steps_per_round
        return min(self.recipe.optim.ema_decay, max(0.0, 1 - 5 / steps))

    @property
    def teacher_remembers(self) -> bool:
        """Whether a teacher computes each image once: no epoch changes an image, and it pays, and fits."""
        num_images, num_drawn = len(self.source.splits["train"]), self.total_steps * self.batch_size
        fits = 4 * num_images * len(self.source.class_names) <= REMEMBERED_BYTES
        return num_drawn >= num_images and fits and not self.augment.is_random

    @property
    def checkpoint_bytes(self) -> int:
        """About the size of a checkpoint: float32 weights, their average, and two numbers of the optimizer for each."""
        return 4 * self.cost.parameters * (3 + (self.ema_decay > 0))

    def of_steps(self, rounds: int, steps_per_round: int) -> "Plan":
        recipe = replace(self.recipe, optim=replace(self.recipe.optim, steps=rounds * steps_per_round))
        return replace(self, recipe=recipe, rounds=rounds, steps_per_round=steps_per_round)

    def of_batch(self, batch_size: int) -> "Plan":
        recipe = replace(self.recipe, optim=replace(self.recipe.optim, batch_size=batch_size))
        schedule = choose_schedule(recipe, len(self.source.splits["train"]), self.world_size)
        return replace(self, recipe=with_length(recipe, schedule), **vars(schedule))

    def build_network(self) -> Network:
        network = self.spec.build(self.preprocess.image_size)
        network.keeps_batch_stats = self.recipe.model.freeze == "batch_stats"
        if self.recipe.trainer.grad_checkpointing:
            checkpoint_blocks(network)
        return network.train()

    @property
    def loader_options(self) -> LoaderOptions:
        data, optim = self.recipe.data, self.recipe.optim
        batches = None if optim.steps is None else self.steps_per_round * optim.accumulate
        return LoaderOptions(
            self.batch_size,
            data.num_workers,
            data.cache,
            auto_cache_bytes(self.world_size),
            batches=batches,
            accumulate=optim.accumulate,
            sampling=data.sampling,
        )

    def data_module(self) -> ImageDataModule:
        augment = None if self.recipe.model.freeze == "backbone" else self.augment
        return ImageDataModule(self.source, self.preprocess, augment, self.loader_options, self.recipe.seed)


@dataclass(frozen=True)
class TrainingInputs:
    """What a recipe names beside its numbers, opened and checked: the images are listed, and none is read yet."""

    machine: Machine
    images: Source  # images of DATA, as DATA divides them
    network: ChosenNetwork  # the network for the first weights and for the size of the images
    teacher: Teacher | None = None


def open_inputs(recipe: Recipe, listed: Source | None = None) -> TrainingInputs:
    """Open what a recipe names, and refuse options that contradict each other, the machine, or the labels.

    Args:
        listed: images of the recipe's data, where they are listed already.

    Raises:
        CheckpointError: the weights to start from, or the teacher, cannot be used.
        UsageError: options contradict each other, the machine, or the labels.
        DataError: the data cannot be used.
    """
    check_trusted(own_code(recipe))
    machine = choose_machine(recipe.trainer)
    wanted = wanted_network(recipe.model)
    check_compatibility(recipe, machine, wanted)
    images = listed or opened_data(recipe.data)
    network = choose_network(recipe.model, wanted, images, len(images.class_names))
    check_task_options(recipe, images)
    return TrainingInputs(machine, images, network, find_teacher(recipe.distill, images))


def make_plan(recipe: Recipe, inputs: TrainingInputs) -> Plan:
    """Decide everything that a recipe leaves open, for what `open_inputs` has opened.

    Raises:
        UsageError: options do not fit these images.
        DataError: there are too few images, or they cannot be read.
    """
    data, network, teacher = recipe.data, inputs.network, inputs.teacher
    source = divided(inputs.images, data)
    if data.train_images is not None:
        data = with_subset(data, source.splits["train"])
        source = chosen_part(source, data, recipe.seed)
    class_balance(recipe.optim, data.sampling, source)  # its errors come before the first step
    check_validation(recipe.optim, source)
    if teacher is not None:
        network = windowed(network, source.splits["train"], teacher.description.preprocess.window)
        teacher.check_input(network.preprocess, source.splits["train"])
    recipe = replace(recipe, data=data, distill=with_teacher(recipe.distill, teacher))
    if recipe.model.freeze == "backbone":
        recipe = replace(recipe, augment=AugmentConfig(name="none"))  # features are computed once
    return replace(decide(Plan, recipe, source, network, inputs.machine), teacher=teacher)


def plan_of(recipe: Recipe, listed: Source | None = None) -> Plan:
    """`make_plan` with what the recipe names, which is opened here."""
    return make_plan(recipe, open_inputs(recipe, listed))


def decide(kind: type[P], recipe: Recipe, source: Source, network: ChosenNetwork, machine: Machine) -> P:
    """The plan of a recipe whose images and network are chosen."""
    data, model, optim, trainer = recipe.data, recipe.model, recipe.optim, recipe.trainer
    used = as_trained(recipe)
    network = windowed(network, source.splits["train"])
    augment = _choose_augment(recipe.augment, network.preprocess, source.name)
    schedule = choose_schedule(used, len(source.splits["train"]), machine.world_size)
    check_optimizer(network.shapes, used.optim)
    has_new_statistics = model.freeze == "none" and has_batch_norm(network.shapes)
    if has_new_statistics and machine.device.type == "cpu" and machine.world_size > 1:
        problem = f"{network.spec.name} has batch norm, whose statistics PyTorch takes from several GPUs but not CPUs"
        raise UsageError(problem, "give --devices 1")
    if has_new_statistics and schedule.batch_size // optim.accumulate <= 1:
        raise UsageError(
            f"{network.spec.name} has batch norm, which needs 2 images or more at a time, and gets 1 with "
            f"--batch_size {optim.batch_size or 'null'}",
            f"give --batch_size {2 * optim.accumulate} or more, or more training images",
        )
    is_searched = used.optim.batch_size == AUTO and machine.device.type == "cuda"
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in network.options.items()}
    filled = replace(
        recipe,
        data=replace(
            data,
            source=source.origin or absolute(data.source),
            root=data.root and absolute(data.root),
            subset_seed=data.train_images and subset_seed(data, recipe.seed),
        ),
        model=replace(
            model,
            init_from=model.init_from and absolute(model.init_from),
            network={"name": network.spec.name, **options},
            preprocess=PreprocessConfig(**vars(network.preprocess)),
        ),
        augment=replace(recipe.augment, **vars(augment)),
        optim=replace(optim, batch_size=AUTO if is_searched else schedule.batch_size),
        trainer=replace(trainer, precision=machine.precision),  # type: ignore[arg-type]
    )
    compiled = compiles(filled, machine, schedule.total_steps)
    filled = replace(filled, trainer=replace(filled.trainer, compile=compiled))
    every = trainer.checkpoint_every
    return kind(
        recipe=filled if is_searched else with_length(filled, schedule),
        source=source,
        spec=network.spec,
        preprocess=network.preprocess,
        augment=augment,
        cost=network.cost,
        checkpoint_seconds=None if every is None else seconds(every, "--checkpoint_every"),
        has_new_head=network.has_new_head,
        kept_rows=network.kept_rows,
        **vars(machine),
        **vars(schedule),
    )


def _choose_augment(config: AugmentConfig, preprocess: Preprocess, data: str) -> Augment:
    """The augmentation, without RandAugment where images are neither gray nor RGB: its colors are those of light."""
    base = preset(config.name, preprocess.image_size, mirrored=data not in UNMIRRORED)
    if preprocess.channels not in (1, COLORS):
        if config.randaugment:
            raise UsageError(
                f"--augment.randaugment {config.randaugment} changes colors, and images have {preprocess.channels} "
                "channels",
                "leave it out",
            )
        base = replace(base, randaugment=0)
    changes = {key: value for key, value in vars(config).items() if key != "name" and value is not None}
    return replace(base, **changes)


def absolute(name: str) -> str:
    """A path as it is found from any folder; other names as they are."""
    path = Path(name).expanduser()
    place = path.resolve() if ".." in path.parts else path.absolute()  # the working folder may go
    return str(place) if path.exists() else name
