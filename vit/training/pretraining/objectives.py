"""The objective of a recipe"""

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
