"""The checkpoint: one file that is enough to predict.

A checkpoint is Lightning's dictionary, with our description under the key "vit":

    vit: {format: 2, classes: [name, ...], network: {name, image_size, num_classes, ...}, preprocess: {image_size, ...},
          precision: "32-true" | "bf16-mixed", temperature: float, metrics: {name: float}, versions: {package: version}}
    state_dict: {"network.<key>": tensor}            the weights (averaged ones, if the recipe averages)
    progress: {train_loss: [[sum, batches], ...], skipped: int, ...}   of an epoch that is not over, for resuming
    lora: {"network.<key>": tensor}                  with LoRA: the parts that state_dict has the sums of, for resuming
    optimizer_states, lr_schedulers, loops, ...      Lightning's, for resuming

`temperature` divides the logits before the softmax. It is 1 while a training goes on; at its end the one that was
fitted on the validation images (calibration.py) is written into best.ckpt.

Plain values and tensors only: it loads with `weights_only=True`; nothing in it is imported, called or used as a path.
"""

import hashlib
import json
import math
import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from vit.checkpoints.model_path import check_local as check_local
from vit.data.preprocess import Interpolation, Preprocess, ResizeMode
from vit.errors import CheckpointError
from vit.models.catalog import build, resolve
from vit.models.network import Network

FORMAT = 2  # since preprocess has a resize_mode; without one it is "shortest"
KEY = "vit"
PREFIX = "network."
MAX_SIDE = 4096
_REMEDY = "give a run folder or a checkpoint that 'vit train' wrote"


@dataclass(frozen=True)
class Description:
    """What a checkpoint says beside its weights."""

    class_names: tuple[str, ...]
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
            "classes": self.class_names,
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
        class_names = tuple(plain["classes"])
        network = dict(plain["network"])
        preprocess = _checked_preprocess(plain["preprocess"], network["image_size"])
        temperature = float(plain["temperature"])
        if not class_names or not all(isinstance(name, str) and len(name) <= 1000 for name in class_names):
            raise ValueError("class names must be text")
        if plain["precision"] not in ("32-true", "bf16-mixed", "16-mixed"):
            raise ValueError(f"unknown precision {plain['precision']!r}")
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature is {temperature}")
        if network["num_classes"] != len(class_names):
            raise ValueError(f"{len(class_names)} class names for {network['num_classes']} classes")
        return cls(
            class_names,
            {key: tuple(value) if isinstance(value, list) else value for key, value in network.items()},
            preprocess,
            str(plain["precision"]),
            temperature,
            {str(key): float(value) for key, value in plain["metrics"].items()},
            {str(key): str(value) for key, value in plain["versions"].items()},
        )


def _checked_preprocess(plain: dict[str, Any], image_size: object) -> Preprocess:
    """The preprocessing of a description, checked value by value: the decoder and resizer trust it."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    made = Preprocess(**values)
    if type(made.image_size) is not int or made.image_size != image_size or not 0 < made.image_size <= MAX_SIDE:
        raise ValueError(f"image sizes {made.image_size!r} (preprocess) and {image_size!r} (network)")
    if not isinstance(made.crop_fraction, float | int) or not 1 / MAX_SIDE <= made.crop_fraction <= 1:
        raise ValueError(f"crop_fraction is {made.crop_fraction!r}")
    for name, numbers, lowest in (("mean", made.mean, -math.inf), ("std", made.std, 0.0)):
        if len(numbers) != 3 or not all(lowest < float(number) < math.inf for number in numbers):
            raise ValueError(f"{name} is {numbers!r}")
    if made.interpolation not in get_args(Interpolation):
        raise ValueError(f"interpolation is {made.interpolation!r}")
    if made.resize_mode not in get_args(ResizeMode):
        raise ValueError(f"resize_mode is {made.resize_mode!r}")
    return made


def load(path: Path) -> tuple[Network, Description]:
    """The network of a checkpoint, in evaluation mode on the CPU, and its description.

    Raises:
        CheckpointError: the file is damaged, not ours, newer than this program, or its weights do not fit its network.
    """
    content = read(path)
    description = description_of(content, path)
    weights = {
        key.removeprefix(PREFIX): value for key, value in content["state_dict"].items() if key.startswith(PREFIX)
    }
    checked, expected = checked_network(description, len(weights), path)
    _compare(weights, expected, path)
    network = build(checked).eval()
    network.load_state_dict(weights)
    return network, description


def read(path: Path) -> dict[str, Any]:
    """The plain content of a checkpoint file, tensors on the CPU; CheckpointError as `load`."""
    check_local(path)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}", _REMEDY)
    try:
        content = load_plain(path)
    except ValueError as error:
        raise CheckpointError(
            f"{path} ({path.stat().st_size:,} bytes) is not a checkpoint: {error}", _REMEDY
        ) from error
    state = content.get("state_dict") if isinstance(content, dict) and KEY in content else None
    if not are_weights(state, path.stat().st_size):
        raise CheckpointError(f"{path} holds weights that vit did not write", _REMEDY)
    return dict(content)


def load_plain(path: Path) -> Any:
    """The plain values and tensors of a file that torch.save wrote, on the CPU; nothing in it is run.

    Raises:
        ValueError: it is no such file; says what it seems to be.
    """
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)  # it would override weights_only=True
    try:
        _check_archive(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(_guess(path, error)) from error


def _check_archive(path: Path) -> None:
    """Raise an error unless every byte is what was written: torch reads numbers without looking at their checksums.

    Compressed or overlapping entries, which a small file can ask for much memory with, are refused too.
    """
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise zipfile.BadZipFile("it is compressed")
        if sum(entry.file_size for entry in entries) > path.stat().st_size:
            raise zipfile.BadZipFile("its entries overlap")
        if archive.testzip() is not None:
            raise zipfile.BadZipFile("a checksum is wrong")


def are_weights(state: object, limit: int) -> bool:
    """Whether this is a dictionary of names and ordinary tensors, which together are no larger than the file."""
    return (
        isinstance(state, dict)
        and all(
            isinstance(key, str) and isinstance(value, Tensor) and value.layout == torch.strided
            for key, value in state.items()
        )
        and sum(value.numel() * value.element_size() for value in state.values()) <= limit
    )


def description_of(content: dict[str, Any], path: Path) -> Description:
    """The description in a checkpoint's content; CheckpointError as `load`."""
    plain = content[KEY]
    try:
        version = int(plain["format"])
    except Exception as error:  # as below
        raise CheckpointError(f"{path} has no readable description", _REMEDY) from error
    if version > FORMAT:
        raise CheckpointError(
            f"{path} has format {version}, this program reads up to {FORMAT}", "upgrade vit-lightning"
        )
    try:
        return Description.from_dict(plain)
    except Exception as error:  # an untrusted file may hold a tensor, or anything else, wherever a value is expected
        raise CheckpointError(f"{path} has a broken description: {first_line(error)}", _REMEDY) from error


def checked_network(description: Description, tensors: int, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(the network's values, checked one by one; its tensors on the meta device); CheckpointError as `load`.

    Args:
        tensors: how many the file holds.
    """
    try:
        checked = _checked_values(description.network, tensors)
        with torch.device("meta"):  # shapes alone: a stranger's numbers could ask for any amount of memory
            return checked, build(checked).state_dict()
    except Exception as error:
        raise CheckpointError(
            f"{path} describes a network that cannot be built: {first_line(error)}", _REMEDY
        ) from error


def _checked_values(network: dict[str, Any], tensors: int) -> dict[str, Any]:
    """The same description, checked value by value: a checkpoint is a stranger's word.

    A network of more blocks than the file has tensors is refused before anybody begins to build it.
    """
    for blocks in (network.get("depth", 1), *network.get("layers", ())):
        if blocks > tensors:
            raise ValueError(f"{blocks} blocks of {tensors} tensors")
    decided = {key: network[key] for key in ("image_size", "num_classes")}
    chosen = {key: value for key, value in network.items() if key not in (*decided, "model")}
    return resolve(chosen, **decided)


def _compare(weights: dict[str, Tensor], expected: dict[str, Tensor], path: Path) -> None:
    """Raise CheckpointError unless names, shapes and types agree and all numbers are finite."""
    wrong = [f"{key} is missing" for key in expected.keys() - weights.keys()]
    wrong += [f"{key} is unknown" for key in weights.keys() - expected.keys()]
    wrong += [
        f"{key} is {_kind(weights[key])}, not {_kind(value)}"
        for key, value in expected.items()
        if key in weights and _kind(weights[key]) != _kind(value)
    ]
    if wrong:
        raise CheckpointError(f"{path} does not fit its own network: {'; '.join(sorted(wrong)[:5])}", _REMEDY)
    broken = [key for key, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if broken:
        raise CheckpointError(
            f"{path} has weights that are not numbers, in {broken[0]}", "take an earlier checkpoint of the run"
        )


def _kind(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


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


def first_line(error: BaseException) -> str:
    """What an error says, in one line of a length to be read."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
