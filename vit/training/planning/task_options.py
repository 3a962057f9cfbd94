"""Options of a recipe that need one class for an image, or several labels"""

from vit.data.core.samples import Source
from vit.errors import UsageError
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
