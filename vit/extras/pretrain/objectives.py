"""The objective of a recipe"""

from vit.extras.pretrain.diet import Diet
from vit.extras.pretrain.mae import Mae
from vit.extras.pretrain.objective import Objective, without_classes
from vit.extras.pretrain.plan import PretrainPlan
from vit.models.network import Network


def make_objective(network: Network, plan: PretrainPlan) -> Objective:
    """The objective of a plan around a network, whose layers for classes are taken out.

    Raises:
        UsageError: the network does not fit the method.
    """
    backbone = without_classes(network, plan.spec.name)
    if plan.recipe.method == "mae":
        return Mae(backbone)
    return Diet(backbone, len(plan.source.splits["train"]), plan.recipe.model.init_from is not None)
