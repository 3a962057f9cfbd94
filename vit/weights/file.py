"""Untrusted files of weights, read as names and float32 tensors: nothing in them is run

Read are .safetensors, .pth, .pt, .bin and .ckpt (with `weights_only=True`), and .npz (without pickles). No file is
given more memory than its own size justifies, or more time than `MAX_TENSORS` take.
"""

import argparse
import json
import math
import os
import pathlib
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from vit.atomic_files import atomic_write
from vit.checkpoints.format import KEY, Description
from vit.checkpoints.io import are_weights, load_plain, runs_code
from vit.checkpoints.model_path import stand_in
from vit.errors import CheckpointError, first_line
from vit.plain_files import MAX_BYTES, read_json
from vit.weights.formats.weight_format import Weights
from vit.weights.preprocess_config import Config
from vit.weights.trainer_file import State, Stated, describe_choice, one_set, stated_of

FOLDER_FILES = ("model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors", "open_clip_pytorch_model.bin")
_INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")  # of weights in several files
MAX_TENSORS = 50_000  # a ViT of 100 blocks has 2,000
_MAX_EXPANSION = 2  # numbers of trained weights do not compress
_FIX = "give a .safetensors, .pth or .npz file of a network, or a folder with config.json and model.safetensors"
_RUNS_CODE = "in the program that wrote it, save the numbers alone: torch.save(model.state_dict(), 'weights.pth')"
_WRAPPERS = re.compile(r"\b(_orig_mod|_checkpoint_wrapped_module|_fsdp_wrapped_module)\.")  # PyTorch's, around any part
# Plain settings and numbers beside the weights. Their constructors keep values and do nothing else.
_PLAIN = [
    argparse.Namespace,
    pathlib.PosixPath,
    pathlib.WindowsPath,
    np.dtype,
    cast(Any, np.float64(0).__reduce__())[0],  # what makes a number of its bytes
    *{type(np.dtype(name)) for name in ("bool", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u8")},
]


@dataclass(frozen=True)
class WeightsFile:
    """The tensors of a file, float32 on the CPU, and what stands beside them."""

    weights: Weights  # tensors by name
    stated: Stated = field(default_factory=Stated)  # what the file states
    place: str = ""  # place of the set that was taken, where a training program keeps several: "state_dict_ema"
    choice: str = ""  # this choice in words; "" where there was none


def read_weights_file(path: Path, state: State | None = None) -> WeightsFile:
    """The tensors of a file, or of a folder: float32, on the CPU. CheckpointError: damaged, or not finite weights."""
    if path.is_dir():
        files = _parts(path)
        parts = [read_weights_file(file, state) for file in files]
        others = [name for name in FOLDER_FILES if (path / name).is_file() and path / name not in files]
        choice = f"{files[0].name}, and not {' and '.join(others)}" if others else parts[0].choice
        weights = {name: value for part in parts for name, value in part.weights.items()}
        return replace(parts[0], weights=weights, choice=choice)
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}", _FIX)
    try:
        if path.suffix == ".npz":
            content = WeightsFile(_npz(path))
        elif path.suffix == ".safetensors":
            _check_header(path)
            content = WeightsFile(load_file(path))
        else:
            content = _pytorch(path, state)
    except Exception as error:  # parsers of untrusted bytes raise whatever they meet: TokenError, struct.error, ...
        what = {".safetensors": "safetensors file", ".npz": "file of numpy arrays"}.get(path.suffix, "file of weights")
        size = f"{path.stat().st_size:,} bytes"
        fix = _RUNS_CODE if "run code" in str(error) else _FIX
        why = stand_in(path) or first_line(error)
        raise CheckpointError(f"{path} ({size}) is not a whole {what}: {why}", fix) from error
    if not content.weights:
        raise CheckpointError(f"{path} holds no tensors", _FIX)
    named = {_WRAPPERS.sub("", name): value for name, value in content.weights.items()}
    weights = {name: value.float() if value.is_floating_point() else value for name, value in named.items()}
    broken = next((name for name, value in weights.items() if _is_broken(name, value)), None)
    if broken is not None:
        raise CheckpointError(f"{path} has weights that are not numbers, in {broken}", "take another file")
    matrices = [value for value in weights.values() if value.ndim > 1]
    if matrices and not any(bool(value.any()) for value in matrices):
        raise CheckpointError(f"all weights of {path} are 0", "take another file; a download may have been cut off")
    return replace(content, weights=weights)


def _is_broken(name: str, value: Tensor) -> bool:
    """Whether a tensor makes NaN of any image: it is not finite, or a variance is negative."""
    is_negative = name.endswith("running_var") and bool((value < 0).any())
    return value.is_floating_point() and (is_negative or not bool(value.isfinite().all()))


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a .safetensors file: text beside the tensors. CheckpointError where the file cannot be read."""
    try:
        _check_header(path)
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except Exception as error:  # as above
        why = stand_in(path) or first_line(error)
        raise CheckpointError(f"{path} is not a whole safetensors file: {why}", _FIX) from error


def write_backbone(description: Description, weights: Mapping[str, Tensor], path: Path) -> None:
    """Write a .safetensors file that `--init_from` takes, whole or not at all: a network without its head."""
    metadata = {KEY: json.dumps(description.to_dict())}  # a single key, because safetensors writes keys in any order
    with atomic_write(path) as partial:
        save_file({name: value.contiguous() for name, value in weights.items()}, partial, metadata=metadata)


def read_config(path: Path) -> Config:
    """The JSON object of a file, or {} without a file; CheckpointError when the file holds something else."""
    if not path.is_file():
        return {}
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{first_line(error)}", f"download {path} again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} does not hold a JSON object", "download it again")
    return content


def _parts(folder: Path) -> list[Path]:
    """The files of a folder that hold its weights: one, or those that an index names."""
    for name in FOLDER_FILES:
        if (folder / name).is_file():
            return [folder / name]
    index = next((file for file in (folder / name for name in _INDICES) if file.is_file()), folder / _INDICES[0])
    names = set(map(str, read_config(index).get("weight_map", {}).values()))
    if not names or any(re.fullmatch(r"[\w.-]+\.(safetensors|bin)", name) is None for name in names):
        raise CheckpointError(f"{folder} holds no {' or '.join(FOLDER_FILES[:2])}", _FIX)
    return [folder / name for name in sorted(names)]


def _check_header(path: Path) -> None:
    """Raise ValueError where a header has more bytes or tensors than any network: each tensor costs time and memory."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > min(MAX_BYTES, path.stat().st_size):
            raise ValueError(f"its header has {size:,} bytes")
        _check_count(file.read(size).count(b'"data_offsets"'))


def _check_count(num_tensors: int) -> None:
    if num_tensors > MAX_TENSORS:
        raise ValueError(f"it names {num_tensors:,} tensors; the limit is {MAX_TENSORS:,}")


def _pytorch(path: Path, state: State | None) -> WeightsFile:
    """A pickled state dict, alone or among what a training program keeps."""
    with open(path, "rb") as file:
        start = file.read(2)
    if start == b"\x80\x02":
        raise ValueError("it is in PyTorch's format from before version 1.6; save it again with torch.save")
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            _check_count(len(archive.infolist()))
    with torch.serialization.safe_globals(_PLAIN):
        content = load_plain(path)
    tensors, place, others = one_set(content, state)
    if isinstance(tensors, dict):  # OpenAI's CLIP has numbers beside its weights
        tensors = {name: value for name, value in tensors.items() if isinstance(value, Tensor)}
    if not are_weights(tensors, path.stat().st_size):
        raise ValueError("it does not hold a dictionary of names and tensors")
    weights = {name: value.detach() for name, value in cast(Weights, tensors).items()}
    return WeightsFile(weights, stated_of(content), place, describe_choice(place, others))


def is_ours(path: Path) -> bool:
    """Whether torch.save wrote a checkpoint of this program, by its content; a damaged one, by its ending."""
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)  # as `load_plain`
    try:
        with torch.serialization.safe_globals(_PLAIN):
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # noqa: BLE001  an untrusted file
        return path.suffix == ".ckpt" and not runs_code(error)
    about = content.get(KEY) if isinstance(content, dict) else None  # some program's network may be called so, too
    return about is not None and not (isinstance(about, dict) and any(isinstance(v, Tensor) for v in about.values()))


def _npz(path: Path) -> Weights:
    weights: Weights = {}
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_count(len(entries))
        if sum(entry.file_size for entry in entries) > _MAX_EXPANSION * path.stat().st_size:
            raise ValueError("it would unpack to more than twice its size")
        for entry in entries:
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                if version not in headers:
                    raise ValueError(f"{entry.filename} has the format {version}")
                shape, _, kind = headers[version](file)
            if math.prod(shape) * kind.itemsize > entry.file_size:
                raise ValueError(f"{entry.filename} says it is {shape}, which is more than it holds")
            with archive.open(entry) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
            if array.dtype.kind == "V" and array.dtype.itemsize == 2:  # bfloat16, which numpy does not know
                tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            elif array.dtype.kind in "fiu":
                tensor = torch.from_numpy(np.ascontiguousarray(array).copy())
            else:
                raise ValueError(f"{entry.filename} holds {array.dtype}, not numbers")
            weights[entry.filename.removesuffix(".npy")] = tensor
    return weights
