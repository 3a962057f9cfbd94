"""A recipe becomes a plan: everything that a training needs to know, decided and checked before the first step"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from vit.data.core.samples import Source
from vit.data.loading.module import ImageDataModule, LoaderOptions, auto_cache_bytes
from vit.data.pixels.augment import Augment, preset
from vit.data.pixels.preprocess import COLORS, Preprocess
from vit.errors import UsageError
from vit.inference.devices import choose_precision
from vit.models.memory_format import checkpoint_blocks
from vit.models.network import Network
from vit.models.spec import Cost, NetworkSpec
from vit.training.distillation import REMEMBERED_BYTES, Teacher, find_teacher, with_teacher
from vit.training.distributed.devices import check_batch_norm, device_and_world_size
from vit.training.losses import ClassBalance, class_balance
from vit.training.optim import check_optimizer, warmup_steps
from vit.training.planning.compatibility import Machine, check_compatibility, check_task_options
from vit.training.planning.images import chosen_part, divided, opened_data, subset_seed, with_subset
from vit.training.planning.network_choice import ChosenNetwork, choose_network, wanted_network, windowed
from vit.training.planning.schedule import AUTO, Schedule, choose_schedule, end_of_decay, with_length
from vit.training.recipes.image_options import AugmentConfig, PreprocessConfig
from vit.training.recipes.ranges import seconds
from vit.training.recipes.recipe import Recipe

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
        return class_balance(self.recipe, self.source)

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
    def is_timed(self) -> bool:
        """Whether the length is a time, and the number of steps is not measured yet."""
        return self.recipe.optim.time is not None and self.recipe.optim.steps is None

    @property
    def is_sharded(self) -> bool:
        return self.recipe.trainer.strategy == "fsdp" and self.world_size > 1

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


def make_plan(recipe: Recipe, found: Source | None = None, before_reading: Callable[[], None] = lambda: None) -> Plan:
    """Decide everything that a recipe leaves open, and refuse contradictions.

    Args:
        found: images of the recipe's data, where they are listed already.
        before_reading: called when the network fits the image size and the weights, before all images are read.

    Raises:
        CheckpointError: the weights to start from cannot be used.
        UsageError: options contradict each other, or the machine.
        DataError: the data cannot be used.
    """
    machine = choose_machine(recipe)
    wanted = wanted_network(recipe.model)
    check_compatibility(recipe, machine, wanted.name)
    if recipe.model.freeze == "backbone":
        recipe = replace(recipe, augment=AugmentConfig(name="none"))  # features are computed once
    found = found or opened_data(recipe.data)
    network = choose_network(recipe.model, wanted, found, len(found.class_names))
    before_reading()
    source = divided(found, recipe.data)
    if recipe.data.train_images is not None:
        recipe = with_subset(source, recipe)
        source = chosen_part(source, recipe)
    check_task_options(recipe, source)
    class_balance(recipe, source)  # its errors come before the first step
    teacher = find_teacher(recipe.distill, source)
    if teacher is not None:
        network = windowed(network, source.splits["train"], teacher.description.preprocess.window)
        teacher.check_input(network.preprocess, source.splits["train"])
    return replace(decide(Plan, with_teacher(recipe, teacher), source, network, machine), teacher=teacher)


def decide(kind: type[P], recipe: Recipe, source: Source, network: ChosenNetwork, machine: Machine) -> P:
    """The plan of a recipe whose images and network are chosen."""
    network = windowed(network, source.splits["train"])
    augment = _choose_augment(recipe.augment, network.preprocess, source.name)
    schedule = choose_schedule(recipe, len(source.splits["train"]), machine.world_size)
    check_optimizer(network.shapes.named_parameters(), recipe.optim)
    check_batch_norm(network.shapes, network.spec.name, schedule.batch_size // recipe.optim.accumulate, recipe)
    chosen = _with_choices(recipe, source, network, augment, schedule, machine)
    every = recipe.trainer.checkpoint_every
    return kind(
        recipe=chosen if chosen.optim.batch_size == AUTO else with_length(chosen, schedule),
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


def choose_machine(recipe: Recipe) -> Machine:
    """Where a recipe trains."""
    device, world_size = device_and_world_size(recipe)
    may_be_float16 = recipe.trainer.strategy != "fsdp"
    return Machine(device, world_size, choose_precision(recipe.trainer.precision, device, may_be_float16))


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
    given = {key: value for key, value in vars(config).items() if key != "name" and value is not None}
    return replace(base, **given)


def _with_choices(
    recipe: Recipe, source: Source, network: ChosenNetwork, augment: Augment, schedule: Schedule, machine: Machine
) -> Recipe:
    """The recipe with every open choice filled in, but for what trial steps decide."""
    data, optim, trainer = recipe.data, recipe.optim, recipe.trainer
    is_searched = optim.batch_size == AUTO and machine.device.type == "cuda"
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in network.options.items()}
    data = replace(
        data,
        source=source.origin or absolute(data.source),
        root=data.root and absolute(data.root),
        subset_seed=data.train_images and subset_seed(recipe),
    )
    preprocess = PreprocessConfig(**vars(network.preprocess))
    model = replace(recipe.model, network={"name": network.spec.name, **options}, preprocess=preprocess)
    augmentation = replace(recipe.augment, **vars(augment))
    optim = replace(optim, batch_size=AUTO if is_searched else schedule.batch_size)
    compiles = machine.compiles(recipe, network.spec.name, schedule.total_steps)
    trainer = replace(trainer, precision=machine.precision, compile=compiles)  # type: ignore[arg-type]
    return replace(recipe, data=data, model=model, augment=augmentation, optim=optim, trainer=trainer)


def absolute(name: str) -> str:
    """A path as it is found from any folder; other names as they are."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else name
