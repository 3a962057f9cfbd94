"""From a recipe to everything that training needs to know, worked out and checked before the first step."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vit.data.augment import Augment, preset
from vit.data.module import ImageDataModule, LoaderOptions
from vit.data.preprocess import Preprocess
from vit.data.samples import Source
from vit.data.sources import open_source
from vit.data.split import complete
from vit.errors import UsageError
from vit.models import catalog
from vit.training.automatic_network import automatic_network
from vit.training.batch_size import choose_batch_size
from vit.training.distributed.batch_norm import check_batch_norm
from vit.training.distributed.devices import check_sharding, decide_precision, device_and_world_size
from vit.training.images import check_shares, chosen_part, subset_seed, with_subset
from vit.training.lora import check_choice, layers_to_adapt
from vit.training.optim import warmup_steps
from vit.training.recipe import AugmentConfig, PreprocessConfig, Recipe, seconds
from vit.weights.pretrained import Pretrained, open_pretrained
from vit.weights.start import check_fit

UNMIRRORED = frozenset({"digits", "mnist", "kmnist", "svhn", "gtsrb"})  # letters, digits and signs
ROUNDS = 10
PENALTIES = tuple(10.0 ** (-half / 2) for half in range(1, 11))  # of a linear probe's weights: 0.3 to 1e-5


@dataclass(frozen=True)
class Plan:
    """A training, fully decided.

    Attributes:
        recipe: with every open choice filled in: what the run's config.yaml holds.
        source: images of all splits.
        network: the catalog's description, completed.
        parameters: of the network.
        flops: of one image's forward pass.
        batch_size: images of one optimizer step, over all processes.
        steps_per_epoch: optimizer steps of a pass over the training images.
        rounds: how often training validates and saves: once an epoch, or 5 to 10 times where its length is in steps.
        steps_per_round: optimizer steps between.
        precision: chosen.
        checkpoint_seconds: between two checkpoints; None: only when training validates.
    """

    recipe: Recipe
    source: Source
    network: dict[str, Any]
    preprocess: Preprocess
    augment: Augment
    parameters: int
    flops: int
    batch_size: int
    steps_per_epoch: int
    rounds: int
    steps_per_round: int
    world_size: int
    device: torch.device
    precision: str
    checkpoint_seconds: float | None

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole training."""
        return self.rounds * self.steps_per_round

    @property
    def warmup_steps(self) -> int:
        """Optimizer steps before the learning rate reaches its highest value."""
        return warmup_steps(self.recipe.optim, self.total_steps)

    @property
    def is_sharded(self) -> bool:
        """Whether each process keeps only a part of the weights."""
        return self.recipe.trainer.strategy == "fsdp" and self.world_size > 1

    @property
    def ema_decay(self) -> float:
        """The recipe's, or less: averaging over more than a fifth of the training would keep its beginning."""
        return min(self.recipe.optim.ema_decay, max(0.0, 1 - 5 / self.total_steps))

    @property
    def checkpoint_bytes(self) -> int:
        """About the size of a checkpoint: float32 weights, their average, and two numbers of the optimizer for each."""
        return 4 * self.parameters * (3 + (self.ema_decay > 0))

    def data_module(self) -> ImageDataModule:
        """The loaders of this plan."""
        data, optim = self.recipe.data, self.recipe.optim
        batches = None if optim.steps is None else self.steps_per_round * optim.accumulate
        options = LoaderOptions(
            self.batch_size, data.num_workers, data.cache, batches=batches, accumulate=optim.accumulate
        )
        augment = None if self.recipe.model.freeze == "backbone" else self.augment
        return ImageDataModule(self.source, self.preprocess, augment, options, self.recipe.seed)


def make_plan(recipe: Recipe, found: Source | None = None) -> Plan:
    """Work a recipe out.

    Args:
        found: what `open_source` made of its data, where somebody has read it already.

    Raises:
        CheckpointError: the weights to start from cannot be used.
        UsageError: its values contradict each other, or the machine.
        DataError: its data cannot be used.
    """
    device, world_size = device_and_world_size(recipe)
    check_choice(recipe.model)
    if recipe.model.freeze == "backbone":
        recipe = _frozen(recipe, world_size)
    precision = decide_precision(recipe.trainer.precision, device)
    every = recipe.trainer.checkpoint_every
    checkpoint_seconds = None if every is None else seconds(every)
    description, image_size = dict(recipe.model.network), recipe.model.preprocess.image_size
    start = _start(recipe)
    if start is not None and description.get("name", "auto") == "auto":
        own = start.network({name: value for name, value in description.items() if name != "name"})
        image_size = image_size or own["image_size"]
        description = {name: value for name, value in own.items() if name != "image_size"}
    if description.get("name", "auto") != "auto":  # refuse a wrong name or value before any data is read
        with torch.device("meta"):
            empty = catalog.build(catalog.resolve(description, image_size, num_classes=2))
        if recipe.model.lora is not None:
            layers_to_adapt(empty, recipe.model.lora)
    data = recipe.data
    if found is None:
        found = open_source(data.source, data.root, data.download, data.allow_empty)
    if description.get("name", "auto") == "auto":
        name, side = automatic_network(found.splits["train"])
        description["name"] = name
        image_size = image_size or side
    network = catalog.resolve(description, image_size, len(found.class_names))
    if start is not None:
        with torch.device("meta"):
            empty = catalog.build(network)
        check_fit(empty, start)
    if recipe.trainer.strategy == "fsdp":
        check_sharding(recipe, network["name"])
    parameters, flops = catalog.cost(network)
    check_shares(found, data)
    source = complete(found, data.validation, data.test, data.split_seed)
    if data.train_images is not None:
        recipe = with_subset(source, recipe)
        source = chosen_part(source, recipe)
    preprocess = _preprocess(recipe.model.preprocess, network["image_size"], {} if start is None else start.preprocess)
    augment = _augment(recipe, network["image_size"], source.name)
    images = len(source.splits["train"])
    batch_size = choose_batch_size(recipe, images, world_size)
    check_batch_norm(network, batch_size // recipe.optim.accumulate, recipe)
    steps_per_epoch = images // batch_size
    rounds, steps_per_round = _rounds(recipe, steps_per_epoch)
    return Plan(
        recipe=_resolved(recipe, description, preprocess, augment, batch_size, precision),
        source=source,
        network=network,
        preprocess=preprocess,
        augment=augment,
        parameters=parameters,
        flops=flops,
        batch_size=batch_size,
        steps_per_epoch=steps_per_epoch,
        rounds=rounds,
        steps_per_round=steps_per_round,
        world_size=world_size,
        device=device,
        precision=precision,
        checkpoint_seconds=checkpoint_seconds,
    )


def _frozen(recipe: Recipe, world_size: int) -> Recipe:
    """The recipe of a linear probe, whose images are not varied."""
    if recipe.model.init_from is None:
        raise UsageError("--freeze backbone without weights to start from", "give --init_from")
    if world_size > 1:
        raise UsageError(f"--freeze backbone on {world_size} processes", "give --devices 1")
    return replace(recipe, augment=AugmentConfig(name="none"))


def _rounds(recipe: Recipe, steps_per_epoch: int) -> tuple[int, int]:
    """(validations, optimizer steps between); a linear probe has a validation for each penalty.

    A length in steps takes the number of validations from five to ten that divides it, or else overshoots it least.
    """
    if recipe.model.freeze == "backbone":
        return len(PENALTIES), steps_per_epoch
    steps = recipe.optim.steps
    if steps is None:
        return recipe.optim.epochs, steps_per_epoch
    counts = range(min(ROUNDS, steps), min(ROUNDS // 2, steps) - 1, -1)
    rounds = min(counts, key=lambda count: -steps % count)
    return rounds, -(-steps // rounds)


def _start(recipe: Recipe) -> Pretrained | None:
    """The weights to start from, where they still decide something; a run's config.yaml has it all filled in."""
    is_open = recipe.model.network.get("name", "auto") == "auto" or None in vars(recipe.model.preprocess).values()
    return open_pretrained(recipe.model.init_from) if recipe.model.init_from is not None and is_open else None


def _preprocess(config: PreprocessConfig, image_size: int, pretrained: dict[str, Any]) -> Preprocess:
    given = {name: value for name, value in vars(config).items() if value is not None}
    return Preprocess(**{**pretrained, **given, "image_size": image_size})


def _augment(recipe: Recipe, image_size: int, data: str) -> Augment:
    base = preset(recipe.augment.name, image_size, mirrored=data not in UNMIRRORED)
    given = {key: value for key, value in vars(recipe.augment).items() if key != "name" and value is not None}
    return replace(base, **given)


def _absolute(name: str) -> str:
    """A path as it is found from any folder; other names as they are."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else name


def _resolved(
    recipe: Recipe,
    description: dict[str, Any],
    preprocess: Preprocess,
    augment: Augment,
    batch_size: int,
    precision: str,
) -> Recipe:
    data = recipe.data
    return replace(
        recipe,
        data=replace(
            data,
            source=_absolute(data.source),
            root=data.root and _absolute(data.root),
            subset_seed=data.train_images and subset_seed(recipe),
        ),
        model=replace(
            recipe.model,
            network=description,
            preprocess=PreprocessConfig(**vars(preprocess)),
        ),
        augment=replace(recipe.augment, **augment.to_dict()),
        optim=replace(recipe.optim, batch_size=batch_size),
        trainer=replace(recipe.trainer, precision=precision),  # type: ignore[arg-type]
    )
