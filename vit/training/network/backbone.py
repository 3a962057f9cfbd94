"""A network without its last linear layer, which computes the features that this layer reads"""

from collections.abc import Iterable

from torch import Tensor, nn

from vit.data.core.batch import Batch
from vit.data.core.samples import Labels, Samples
from vit.errors import UsageError
from vit.inference.engine import Engine
from vit.models.network import Network
from vit.training.network.features import computed
from vit.training.planning.plan import Plan
from vit.weights.adapt import head_names

Labeled = tuple[Tensor, Tensor]  # features (n, D) float32, and class numbers (n,) or labels (n, K) float32


class Backbone:
    """A network without its last linear layer, until `whole` puts it back.

    Args:
        network: network of which the last linear layer is taken out.
        plan: training whose images it computes.

    Attributes:
        head: last linear layer, with its name `head_name`.
        engine: what computes features in the place of logits.

    Raises:
        UsageError: the network does not end in one linear layer.
    """

    def __init__(self, network: Network, plan: Plan) -> None:
        found = last_layer(network)
        if found is None:
            raise UsageError(
                f"{plan.spec.name} does not end in one linear layer", "leave --freeze out, or choose another --network"
            )
        self.head_name, self.head = found
        network.set_submodule(self.head_name, nn.Identity())  # now the network returns the features that its head reads
        self.network = network
        self.engine = Engine(network, plan.preprocess, plan.device, plan.precision)

    def features(self, batches: Iterable[Batch]) -> tuple[Tensor, Labels]:
        """Features (n, D) float32 of the images that can be read, on the device, and the indices (n,) of these."""
        values, kept = computed(self.engine, batches)
        return values, kept.numpy()

    def whole(self) -> Network:
        """The network with its last layer again."""
        self.network.set_submodule(self.head_name, self.head)
        return self.network


def last_layer(network: Network) -> tuple[str, nn.Linear] | None:
    """The only layer that computes logits from features, with its name; None if no linear layer does that alone."""
    heads = {name.rpartition(".")[0] for name in head_names(network)}
    if len(heads) != 1:
        return None
    name = heads.pop()
    head = network.get_submodule(name)
    return (name, head) if isinstance(head, nn.Linear) and head.bias is not None else None


def labeled(samples: Samples, features: tuple[Tensor, Labels]) -> Labeled:
    """Features (n, D), and class numbers (n,) of these images; of several labels (n, K) float32, -1 unknown.

    Args:
        samples: images, of which those at given indices (n,) have features (n, D).
    """
    values, kept = features
    return values, samples.task.targets(samples.labels[kept]).to(values.device)
