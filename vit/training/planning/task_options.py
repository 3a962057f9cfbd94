"""Options of a recipe that need one class for an image, or several labels"""

from vit.data.samples import Source
from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe

SINGLE_LABEL_METRICS = ("loss", "acc1", "balanced_acc", "macro_f1", "last")
MULTILABEL_METRICS = ("loss", "map", "micro_f1", "macro_f1", "exact_match", "last")


def check_task_options(recipe: Recipe, source: Source) -> None:
    """Raise UsageError if an option does not go with the labels of the images."""
    data, optim, is_multilabel = recipe.data, recipe.optim, source.is_multilabel
    labels = "images with several labels" if is_multilabel else "images with one class each"
    metrics = MULTILABEL_METRICS if is_multilabel else SINGLE_LABEL_METRICS
    if optim.best_metric not in metrics:
        raise UsageError(
            f"--optim.best_metric {optim.best_metric} does not exist for {labels}", f"give {', '.join(metrics)}"
        )
    for option, is_given, instead in (
        (
            f"--optim.multilabel_loss {optim.multilabel_loss}",
            optim.multilabel_loss != "bce",
            "the loss is cross-entropy",
        ),
        (
            f"--optim.min_precision {optim.min_precision}",
            optim.min_precision is not None,
            "see vit predict --reject_below",
        ),
    ):
        if is_given and not is_multilabel:
            raise UsageError(
                f"{option} is for images with several labels, and {source.name} has one class for each",
                f"leave it out: {instead}",
            )
    if not is_multilabel:
        return
    rare = "leave it out; --optim.multilabel_loss asymmetric is for rare labels"
    for option, is_given in (
        (f"--data.sampling {data.sampling}", data.sampling != "natural"),
        (f"--optim.class_weights {optim.class_weights}", optim.class_weights != "none"),
        (f"--optim.logit_adjustment {optim.logit_adjustment:g}", optim.logit_adjustment > 0),
    ):
        if is_given:
            raise UsageError(f"{option} needs one class for each image, and {source.name} has several labels", rare)
