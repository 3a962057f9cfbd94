"""Weights of a network without classes, with their description, in a safetensors file that `--init_from` takes"""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from vit.atomic_files import atomic_write
from vit.checkpoints.format import KEY, Description


def write_backbone(description: Description, weights: Mapping[str, Tensor], path: Path) -> None:
    """Write a file, whole or not at all.

    Args:
        description: description without classes.
        weights: weights of the network but those of its head.
    """
    metadata = {KEY: json.dumps(description.to_dict())}  # a single key, because safetensors writes keys in any order
    with atomic_write(path) as partial:
        save_file({name: value.contiguous() for name, value in weights.items()}, partial, metadata=metadata)
