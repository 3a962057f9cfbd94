"""Weights to start from: a checkpoint of ours, or a file of weights in the network's own (for ViTs: timm's) names."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from vit.errors import CheckpointError
from vit.models.network import Network
from vit.training.checkpoint import PREFIX, read
from vit.training.run import checkpoint_of


@dataclass(frozen=True)
class LoadReport:
    """What became of the weights: names that were taken, and names of the head, which was made anew."""

    matched: list[str]
    remade: list[str]

    def __str__(self) -> str:
        head = f"; made anew for these classes: {', '.join(self.remade)}" if self.remade else ""
        return f"{len(self.matched)} tensors taken{head}"


def start_from(network: Network, source: str) -> LoadReport:
    """Fill a network with weights; a head for other classes is left as it was initialised.

    Args:
        source: a run folder, a checkpoint, or a .safetensors file.

    Raises:
        CheckpointError: the file cannot be used, or any tensor but the head's does not fit.
    """
    path = checkpoint_of(Path(source).expanduser())
    weights = _weights(path)
    expected = network.state_dict()
    if not weights.keys() & expected.keys():  # a timm CNN's own file: our wrapper adds a prefix
        weights = {f"model.{key}": value for key, value in weights.items()}
    misfits = sorted(key for key in expected.keys() | weights.keys() if _shape(weights, key) != _shape(expected, key))
    head = _head_names(network)
    wrong = [
        f"{key}: {_shape(weights, key)} here, {_shape(expected, key)} in the network"
        for key in misfits
        if key not in head
    ]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise CheckpointError(
            f"{path} does not fit the network: {'; '.join(wrong[:5])}{more}",
            "choose the --network and --image_size it was made for",
        )
    network.load_state_dict({**expected, **{key: value for key, value in weights.items() if key not in misfits}})
    return LoadReport(sorted(weights.keys() - set(misfits)), misfits)


def _weights(path: Path) -> dict[str, Tensor]:
    if path.suffix != ".safetensors":
        state = read(path)["state_dict"]
        return {key.removeprefix(PREFIX): value for key, value in state.items() if key.startswith(PREFIX)}
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}", "give a run, a checkpoint or a .safetensors file")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is no safetensors file: {error}", "download it again") from error


def _shape(weights: dict[str, Tensor], key: str) -> tuple[int, ...] | None:
    return tuple(weights[key].shape) if key in weights else None


def _head_names(network: Network) -> set[str]:
    """Names of the last linear layer: the only parameters whose size the number of classes decides."""
    linear = [name for name, module in network.named_modules() if isinstance(module, torch.nn.Linear)]
    heads = [name for name in linear if network.get_submodule(name).out_features == network.num_classes]
    return {f"{heads[-1]}.{part}" for part in ("weight", "bias")} if heads else set()
