"""A checkpoint becomes a network: its description is checked, and its weights must fit exactly

A checkpoint is an untrusted file. Shapes are compared before memory is allocated for the network.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from vit.atomic_files import atomic_write
from vit.checkpoints.format import KEY, NOVELTY_KEY, Content, Description, read_description, weights_of
from vit.checkpoints.io import read_checkpoint, write_checkpoint
from vit.checkpoints.model_path import FIX
from vit.checkpoints.novelty import Novelty
from vit.checkpoints.run import has_no_classes
from vit.errors import CheckpointError, explained
from vit.models.catalog import entry
from vit.models.network import Network, misfits
from vit.own_code import is_path


def load(path: Path) -> tuple[Network, Description]:
    """The network of a checkpoint, in evaluation mode on the CPU, and its description; CheckpointError, UsageError."""
    return _load(read_checkpoint(path), path)


def load_with_novelty(path: Path) -> tuple[Network, Description, Novelty | None]:
    """As `load`, with what recognizes images unlike the training images; None where the checkpoint has none."""
    content = read_checkpoint(path)
    network, description = _load(content, path)
    if NOVELTY_KEY not in content:
        return network, description, None
    # an untrusted file may hold anything in place of a tensor
    with explained(CheckpointError, f"{path} has damaged training features", FIX, Exception):
        return network, description, Novelty.from_plain(content[NOVELTY_KEY])


def write_new_checkpoint(content: Content, path: Path) -> None:
    """Write a new checkpoint that loads, or nothing. ResourceError: another program has made the file meanwhile."""
    with atomic_write(path, is_new=True) as partial:
        write_checkpoint(content, partial)
        load(partial)


def _load(content: Content, path: Path) -> tuple[Network, Description]:
    description, weights = read_description(content[KEY], path), weights_of(content)
    expected = expected_weights(description, len(weights), path)
    if not description.class_names:
        if weights.keys() >= expected.keys():
            raise CheckpointError(f"{path} has a layer for classes, and no names of classes", FIX)
        raise has_no_classes(path)
    tensors = ({name: _kind(value) for name, value in each.items()} for each in (weights, expected))
    if wrong := misfits(*tensors):
        raise CheckpointError(f"{path} does not fit its own network: {'; '.join(sorted(wrong)[:5])}", FIX)
    broken = next((key for key, value in weights.items() if not bool(value.isfinite().all())), None)
    if broken is not None:
        fix = "take an earlier checkpoint of the run"
        raise CheckpointError(f"{path} has weights that are not numbers, in {broken}", fix)
    network = description.build().eval()
    network.load_state_dict(weights)
    return network, description


def _kind(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def read_described(path: Path) -> tuple[Description, dict[str, Tensor]]:
    """The description and the weights of a checkpoint, which may not fit each other; CheckpointError as `load`."""
    content = read_checkpoint(path)
    return read_description(content[KEY], path), weights_of(content)


def expected_weights(description: Description, num_tensors: int, path: Path) -> Mapping[str, Tensor]:
    """The tensors of a description's network as shapes, without memory: an untrusted number could ask for any."""
    options = description.spec.options
    layers = options.get("layers", ())
    if is_path(description.spec.name):
        entry(description.spec.name)  # its errors are those of the user's code, and not of the checkpoint
    with explained(CheckpointError, f"{path} describes a network that cannot be built", FIX, Exception):
        for blocks in (options.get("depth", 1), *(layers if isinstance(layers, tuple) else ())):
            if isinstance(blocks, int | float) and blocks > num_tensors:  # before the network is built, block by block
                raise ValueError(f"{blocks} blocks of {num_tensors:,} tensors")
        spec = replace(description.spec, num_classes=max(1, len(description.class_names)))  # a backbone has none
        return spec.build_empty(description.preprocess.image_size).state_dict()
