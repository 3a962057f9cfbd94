"""The objective of a recipe"""

from pathlib import Path

from vit.checkpoints.io import read_checkpoint
from vit.models.network import Network
from vit.training.pretraining.diet import Diet
from vit.training.pretraining.mae import Mae
from vit.training.pretraining.objective import Objective, without_classes
from vit.training.pretraining.plan import PretrainPlan


def make_objective(network: Network, plan: PretrainPlan) -> Objective:
    """The objective of a plan around a network, whose layers for classes are taken out.

    Raises:
        UsageError: the network does not fit the method.
    """
    backbone = without_classes(network, plan.spec.name)
    if plan.recipe.method == "mae":
        return Mae(backbone)
    return Diet(backbone, len(plan.source.splits["train"]), plan.recipe.model.init_from is not None)


def trained_objective(plan: PretrainPlan, path: Path) -> Objective:
    """The objective of a plan with the weights of a checkpoint of its pretraining, such as last.ckpt.

    Raises:
        CheckpointError: the file cannot be read.
    """
    objective = make_objective(plan.build_network(), plan)
    weights = read_checkpoint(path)["state_dict"]
    objective.load_state_dict({name.removeprefix("objective."): value for name, value in weights.items()})
    return objective.eval()
