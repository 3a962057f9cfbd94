"""The checkpoint: one file that is enough to predict.

A checkpoint is Lightning's dictionary, with our description under the key "vit":

    vit: {format: 1, classes: [name, ...], network: {name, image_size, num_classes, ...}, preprocess: {image_size, ...},
          precision: "32-true" | "bf16-mixed", temperature: float, metrics: {name: float}, versions: {package: version}}
    state_dict: {"network.<key>": tensor}            the weights (averaged ones, if the recipe averages)
    optimizer_states, lr_schedulers, loops, ...      Lightning's, for resuming

Plain values and tensors only: it loads with `weights_only=True`, and nothing in it is imported, called or used as a path.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from torch import Tensor

from vit.data.preprocess import Preprocess
from vit.errors import CheckpointError, ResourceError
from vit.models.catalog import build, resolve
from vit.models.network import Network

FORMAT = 1
KEY = "vit"
PREFIX = "network."
_REMEDY = "give a run folder or a checkpoint that 'vit train' wrote"


@dataclass(frozen=True)
class Description:
    """What a checkpoint says beside its weights."""

    classes: tuple[str, ...]
    network: dict[str, Any]
    preprocess: Preprocess
    precision: str = "32-true"
    temperature: float = 1.0
    metrics: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; a round trip through JSON proves it, and turns tuples into lists."""
        plain = {
            "format": FORMAT,
            "classes": self.classes,
            "network": self.network,
            "preprocess": self.preprocess.to_dict(),
            "precision": self.precision,
            "temperature": self.temperature,
            "metrics": self.metrics,
            "versions": self.versions,
        }
        result: dict[str, Any] = json.loads(json.dumps(plain))
        return result

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Description":
        """Raises KeyError, TypeError or ValueError when it is not such a dictionary."""
        classes = tuple(plain["classes"])
        network = dict(plain["network"])
        preprocess = {key: tuple(value) if isinstance(value, list) else value for key, value in plain["preprocess"].items()}
        if not classes or not all(isinstance(name, str) and len(name) <= 1000 for name in classes):
            raise ValueError("class names must be text")
        if plain["precision"] not in ("32-true", "bf16-mixed", "16-mixed"):
            raise ValueError(f"unknown precision {plain['precision']!r}")
        if network["num_classes"] != len(classes):
            raise ValueError(f"{len(classes)} class names for {network['num_classes']} classes")
        return cls(
            classes,
            {key: tuple(value) if isinstance(value, list) else value for key, value in network.items()},
            Preprocess(**preprocess),
            str(plain["precision"]),
            float(plain["temperature"]),
            {str(key): float(value) for key, value in plain["metrics"].items()},
            {str(key): str(value) for key, value in plain["versions"].items()},
        )


def load(path: Path) -> tuple[Network, Description]:
    """The network of a checkpoint, in evaluation mode on the CPU, and its description.

    Raises:
        CheckpointError: the file is damaged, not ours, newer than this program, or its weights do not fit its network.
    """
    content = read(path)
    description = _description(content, path)
    try:
        network = build(_checked_network(description.network)).eval()
    except Exception as error:
        raise CheckpointError(f"{path} describes a network that cannot be built: {error}", _REMEDY) from error
    weights = {key.removeprefix(PREFIX): value for key, value in content["state_dict"].items() if key.startswith(PREFIX)}
    _fill(network, weights, path)
    return network, description


def read(path: Path) -> dict[str, Any]:
    """The plain content of a checkpoint file, tensors on the CPU; CheckpointError as `load`."""
    if "://" in str(path):
        raise CheckpointError(f"{path} is an address, not a file", "download it first, then give the file")
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}", _REMEDY)
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)  # it would override weights_only=True
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001  damaged files raise many kinds
        raise CheckpointError(f"{path} ({path.stat().st_size:,} bytes) is not a checkpoint: {_guess(path, error)}", _REMEDY) from error
    if not isinstance(content, dict) or KEY not in content or "state_dict" not in content:
        raise CheckpointError(f"{path} holds weights that vit did not write", _REMEDY)
    return content


def _description(content: dict[str, Any], path: Path) -> Description:
    plain = content[KEY]
    try:
        version = int(plain["format"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} has no readable description", _REMEDY) from error
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, this program reads up to {FORMAT}", "upgrade vit-lightning")
    try:
        return Description.from_dict(plain)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} has a broken description: {error}", _REMEDY) from error


def _checked_network(network: dict[str, Any]) -> dict[str, Any]:
    """The same description, checked value by value: a checkpoint is a stranger's word."""
    decided = {key: network[key] for key in ("image_size", "num_classes")}
    chosen = {key: value for key, value in network.items() if key not in (*decided, "model")}
    return resolve(chosen, **decided)


def _fill(network: Network, weights: dict[str, Tensor], path: Path) -> None:
    expected = network.state_dict()
    wrong = [f"{key} is missing" for key in expected.keys() - weights.keys()]
    wrong += [f"{key} is unknown" for key in weights.keys() - expected.keys()]
    wrong += [
        f"{key} is {tuple(weights[key].shape)}, not {tuple(value.shape)}"
        for key, value in expected.items()
        if key in weights and weights[key].shape != value.shape
    ]
    if wrong:
        raise CheckpointError(f"{path} does not fit its own network: {'; '.join(sorted(wrong)[:5])}", _REMEDY)
    broken = [key for key, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if broken:
        raise CheckpointError(f"{path} has weights that are not numbers, in {broken[0]}", "take an earlier checkpoint of the run")
    network.load_state_dict(weights)


def _guess(path: Path, error: Exception) -> str:
    with open(path, "rb") as file:
        start = file.read(64)
    if start.startswith(b"version https://git-lfs"):
        return "it looks like a git-lfs pointer"
    if start.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return "it is an HTML page"
    if not start.startswith(b"PK"):
        return "it is no PyTorch file"
    if "weights_only" in str(error) or "Unsupported" in str(error):
        return "it holds objects that would run code"
    return "it is damaged or cut short"


class DurableCheckpointIO(TorchCheckpointIO):
    """Writes beside the target, syncs, then renames: after a crash or a full disk the previous file is whole.

    Lightning's own writer goes through the temporary folder without a sync; across file systems a kill left a corrupt
    file, and a full disk destroyed the good one.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        target = Path(path)
        partial = target.with_name(f".{target.name}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(partial, "wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            partial.unlink(missing_ok=True)
            raise ResourceError(f"could not write {target}: {error}", "free space or choose another --out; the previous file is whole") from error

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return read(Path(path))


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
