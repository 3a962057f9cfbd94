"""safetensors: the weights under their own names, with the whole description in the file's metadata."""

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from vit.checkpoints.format import KEY, Description
from vit.export.deployed import Trained
from vit.export.format import Classify, Format, words
from vit.inference.engine import Engine


class Weights(Format):
    """Nothing is changed or folded: `--init_from` takes the file."""

    ending = ".safetensors"

    def write(self, trained: Trained, path: Path) -> None:
        save_file(trained.network.state_dict(), path, metadata=metadata(trained.description))

    def read(self, trained: Trained, path: Path) -> Classify:
        with safe_open(path, framework="pt") as file:
            description = Description.from_dict(json.loads(file.metadata()[KEY]))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no dictionary
        network = description.build()
        network.load_state_dict(weights)
        device = torch.device("cpu")
        return Engine(network, description.preprocess, device, "32-true", description.temperature).probabilities

    def how_to_load(self, trained: Trained, path: Path) -> str:
        return f"weights = safetensors.torch.load_file({str(path)!r})"


def metadata(description: Description) -> dict[str, str]:
    """Text beside the weights; `format` is what transformers looks for."""
    return {"format": "pt", KEY: words(description), "classes": json.dumps(description.class_names)}


def folded_metadata(description: Description) -> dict[str, str]:
    """The same for weights that `calibrated_weights` gave: nobody must divide by the temperature once more."""
    return metadata(replace(description, temperature=1.0))
