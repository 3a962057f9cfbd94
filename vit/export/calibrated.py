"""Weights with the temperature inside, for formats that hold weights and nothing else"""

from torch import Tensor

from vit.errors import UsageError
from vit.inference.deployed import Trained
from vit.models.vision_transformer import VisionTransformer
from vit.weights.adapt import head_names


def calibrated_weights(trained: Trained) -> dict[str, Tensor]:
    """The network's weights with the temperature folded into the last layer, so that its softmax is calibrated.

    Fixed positions are included. They are not a parameter here, but they are one in other libraries.

    Raises:
        UsageError: the temperature is not 1, and the network does not end with a linear layer.
    """
    weights = dict(trained.network.state_dict())
    if isinstance(trained.network, VisionTransformer) and trained.network.pos_embed is not None:
        weights["pos_embed"] = trained.network.pos_embed
    temperature = trained.description.temperature
    if temperature == 1.0:
        return weights
    heads = head_names(trained.network)
    if not heads:
        raise UsageError("these weights cannot hold the temperature of this network", "give --format onnx or pt2")
    return {name: value / temperature if name in heads else value for name, value in weights.items()}
