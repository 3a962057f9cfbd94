"""A recipe of a pretraining becomes a plan"""

from dataclasses import dataclass, replace

from vit.data.core.samples import Source
from vit.data.loading.module import ImageDataModule
from vit.errors import EmptyClassError, UsageError
from vit.extras.pretrain.images import PretrainingData, open_images, with_more_images
from vit.extras.pretrain.objectives import autoencoder_of, without_classes
from vit.training.distributed.devices import choose_machine
from vit.training.planning.compatibility import check_compatibility
from vit.training.planning.images import chosen_part, divided
from vit.training.planning.network_choice import choose_network, wanted_network
from vit.training.planning.plan import Plan, absolute, decide
from vit.training.planning.schedule import AUTO, ROUNDS
from vit.training.recipes.pretrain_recipe import UNUSED, PretrainDataConfig, PretrainRecipe
from vit.training.recipes.values import plain


@dataclass(frozen=True)
class PretrainPlan(Plan):
    """A pretraining, fully decided. Its network has one class, whose layers are taken out: none cannot be built."""

    recipe: PretrainRecipe

    def data_module(self) -> ImageDataModule:
        """The loaders of this plan."""
        return PretrainingData(self.source, self.preprocess, self.augment, self.loader_options, self.recipe.seed)


def pretraining_images(data: PretrainDataConfig, seed: int) -> Source:
    """The images that a recipe names: those to learn from as "train", and the other splits, which are not learned from.

    UsageError where an option is wrong; DataError where the images cannot be used.

    Args:
        seed: seed of the pretraining, which decides where `data.train_images` is without a seed of its own.
    """
    try:
        found = open_images(data.source, data.root, data.download, data.allow_empty, data.labels, data.columns)
    except EmptyClassError as error:
        raise error.with_option() from None
    if found.class_names:
        found = divided(found, data)
    found = chosen_part(found, data, seed)
    return found if data.unlabeled is None else with_more_images(found, data.unlabeled)


def make_pretrain_plan(recipe: PretrainRecipe, images: Source | None) -> PretrainPlan:
    """Decide everything that a recipe leaves open, and refuse contradictions.

    Args:
        images: what `pretraining_images` gives; None: they are listed here.

    Raises:
        CheckpointError: the weights to start from cannot be used.
        UsageError: options contradict each other, or the machine.
        DataError: there are fewer images than a batch has.
    """
    images = images or pretraining_images(recipe.data, recipe.seed)
    _check_used(recipe)
    machine = choose_machine(recipe.trainer)
    wanted = wanted_network(recipe.model)
    check_compatibility(recipe, machine, wanted.name)
    network = choose_network(recipe.model, wanted, images, num_classes=1)
    backbone = without_classes(network.shapes, network.spec.name)
    parameters = sum(parameter.numel() for parameter in backbone.parameters())
    network = replace(network, shapes=backbone, cost=replace(network.cost, parameters=parameters))
    if recipe.method == "mae":
        autoencoder_of(network.shapes)  # its errors come before a run folder is made
    unlabeled = recipe.data.unlabeled
    recipe = replace(
        recipe,
        augment=replace(recipe.augment, mixup=0.0, cutmix=0.0),  # an image mixed of two has no number of its own
        data=replace(recipe.data, unlabeled=unlabeled and absolute(unlabeled)),
    )
    plan = decide(PretrainPlan, recipe, images, network, machine)
    if plan.rounds <= ROUNDS:
        return plan
    steps = replace(recipe.optim, steps=plan.total_steps)  # a measurement after each of many epochs takes much time
    return decide(PretrainPlan, replace(recipe, optim=steps), images, network, machine)


def _check_used(recipe: PretrainRecipe) -> None:
    """Raise UsageError for options that a pretraining does not use."""
    values, defaults = plain(recipe), plain(PretrainRecipe())
    for option in UNUSED:
        section, _, name = option.partition(".")
        given, default = (tree[section][name] if name else tree[section] for tree in (values, defaults))
        if given not in (default, 0):
            raise UsageError(f"--{option} is not an option of a pretraining", "leave it out")
    if recipe.optim.batch_size == AUTO:
        raise UsageError("--batch_size auto is not for a pretraining", "give a number, or leave it out")
    if recipe.trainer.strategy == "fsdp":
        raise UsageError("--strategy fsdp is not for a pretraining", "give --strategy ddp")
