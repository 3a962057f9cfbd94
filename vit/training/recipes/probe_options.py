"""Options of a recipe that a linear probe (`freeze: backbone`) does not use, because it computes features once"""

from dataclasses import replace

from vit.training.recipes.image_options import AugmentConfig
from vit.training.recipes.recipe import OptimConfig, Recipe

_USED = frozenset({
    "class_weights", "logit_adjustment", "multilabel_loss", "min_precision", "best_metric", "batch_size"
})  # of optim  # fmt: skip
_REFUSED_ELSEWHERE = "optim.time"


def is_unused(name: str) -> bool:
    """Whether an option, by its dotted name, changes nothing in a linear probe."""
    section, _, key = name.partition(".")
    if section == "optim":
        return key not in _USED and name != _REFUSED_ELSEWHERE
    return section == "augment" or name == "model.init_head"


def as_trained(recipe: Recipe) -> Recipe:
    """The recipe with the defaults of all options that change nothing: two equal ones are one training."""
    if recipe.model.freeze != "backbone":
        return recipe
    used = {name: value for name, value in vars(recipe.optim).items() if name in _USED}
    model = replace(recipe.model, init_head="random")
    return replace(recipe, model=model, augment=AugmentConfig(), optim=OptimConfig(**used))
