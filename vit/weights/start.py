"""Weights to start from, put into a network."""

from collections.abc import Iterator
from contextlib import contextmanager

from vit.errors import CheckpointError
from vit.models.network import Network
from vit.models.timm_network import TimmNetwork
from vit.weights.adapt import LoadReport, adapt, fill
from vit.weights.pretrained import Pretrained


def start_from(network: Network, pretrained: Pretrained) -> LoadReport:
    """Fill a network with weights; a head for other classes is left as it was initialized.

    Raises:
        CheckpointError: a tensor is missing, unexpected or of another shape, and is not the head's.
    """
    with _fitting(network, pretrained):
        return fill(network, pretrained.weights, pretrained.dropped)


def check_fit(network: Network, pretrained: Pretrained) -> None:
    """Refuse what `start_from` would refuse, with a network that may be on the meta device.

    Raises:
        CheckpointError: as there.
    """
    with _fitting(network, pretrained):
        adapt(network, pretrained.weights)


@contextmanager
def _fitting(network: Network, pretrained: Pretrained) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        advice = "leave --network out, and the weights choose it"
        if isinstance(network, TimmNetwork):
            advice = "choose the --network and --image_size it was made for"
        raise CheckpointError(f"{pretrained.where} does not fit the network: {error}", advice) from error
