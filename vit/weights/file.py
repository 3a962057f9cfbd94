"""Untrusted files of weights, read as names and float32 tensors: nothing in them is run

Read are .safetensors, .pth, .pt and .bin (with `weights_only=True`), and .npz (without pickles). No file is given more
memory than its own size justifies.
"""

import argparse
import json
import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from vit.checkpoints.io import are_weights, load_plain
from vit.errors import CheckpointError, first_line
from vit.weights.formats.weight_format import Config, Weights

FOLDER_FILES = ("model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors", "open_clip_pytorch_model.bin")
_INDEX = "model.safetensors.index.json"
_WRAPPERS = ("state_dict", "model", "model_ema", "teacher", "module")  # of DeiT, MAE, DINO and Lightning
_MAX_JSON = 64 << 20
_MAX_TENSORS = 100_000
_MAX_EXPANSION = 2  # numbers of trained weights do not compress
_FIX = "give a .safetensors, .pth or .npz file of a ViT, or a folder with config.json and model.safetensors"


def read_weights_file(path: Path) -> Weights:
    """The tensors of a file, or of the weights in a folder; float32, on the CPU.

    Raises:
        CheckpointError: the file is damaged, or holds something else than finite weights.
    """
    if path.is_dir():
        weights: Weights = {}
        for part in _parts(path):
            weights |= read_weights_file(part)
        return weights
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}", _FIX)
    read = {".safetensors": _safetensors, ".npz": _npz}.get(path.suffix, _pytorch)
    try:
        weights = read(path)
    except Exception as error:  # parsers of untrusted bytes raise whatever they meet: TokenError, struct.error, ...
        what = {".safetensors": "safetensors file", ".npz": "file of numpy arrays"}.get(path.suffix, "file of weights")
        size = f"{path.stat().st_size:,} bytes"
        raise CheckpointError(f"{path} ({size}) is not a whole {what}: {first_line(error)}", _FIX) from error
    if not weights:
        raise CheckpointError(f"{path} holds no tensors", _FIX)
    weights = {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}
    broken = next((n for n, value in weights.items() if value.is_floating_point() and not value.isfinite().all()), None)
    if broken is not None:
        raise CheckpointError(f"{path} has weights that are not numbers, in {broken}", "take another file")
    return weights


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a .safetensors file: text beside the tensors.

    Raises:
        CheckpointError: the file cannot be read.
    """
    try:
        _check_header(path)
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except Exception as error:  # as above
        raise CheckpointError(f"{path} is not a whole safetensors file: {first_line(error)}", _FIX) from error


def read_config(path: Path) -> Config:
    """The JSON object of a file, or {} without a file; CheckpointError when the file holds something else."""
    if not path.is_file():
        return {}
    if path.stat().st_size > _MAX_JSON:
        raise CheckpointError(f"{path} has {path.stat().st_size:,} bytes", "remove it, or fix it")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON: {first_line(error)}", "download it again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} does not hold a JSON object", "download it again")
    return content


def _parts(folder: Path) -> list[Path]:
    """The files of a folder that hold its weights: one, or those that an index names."""
    for name in FOLDER_FILES:
        if (folder / name).is_file():
            return [folder / name]
    names = set(map(str, read_config(folder / _INDEX).get("weight_map", {}).values()))
    if not names or any(re.fullmatch(r"[\w.-]+\.safetensors", name) is None for name in names):
        raise CheckpointError(f"{folder} holds no {' or '.join(FOLDER_FILES[:2])}", _FIX)
    return [folder / name for name in sorted(names)]


def _safetensors(path: Path) -> Weights:
    _check_header(path)
    return load_file(path)


def _check_header(path: Path) -> None:
    """Raise ValueError where a header has more bytes or tensors than any network: each tensor costs time and memory."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > min(_MAX_JSON, path.stat().st_size):
            raise ValueError(f"its header has {size:,} bytes")
        num_tensors = file.read(size).count(b'"data_offsets"')
    if num_tensors > _MAX_TENSORS:
        raise ValueError(f"it has {num_tensors:,} tensors; the limit is {_MAX_TENSORS:,}")


def _pytorch(path: Path) -> Weights:
    """A pickled state dict, alone or under a name that trainers use; pickled settings beside it are ignored."""
    with open(path, "rb") as file:
        start = file.read(2)
    if start == b"\x80\x02":
        raise ValueError("it is in PyTorch's format from before version 1.6; save it again with torch.save")
    with torch.serialization.safe_globals([argparse.Namespace]):  # plain settings in DeiT's and MAE's files
        content = load_plain(path)
    for _ in range(3):
        inner = next((content[name] for name in _WRAPPERS if _holds(content, name)), None)
        if inner is None:
            break
        content = inner
    if isinstance(content, Mapping):  # OpenAI's CLIP has numbers beside its weights
        content = {name: value for name, value in content.items() if isinstance(value, Tensor)}
    if not are_weights(content, path.stat().st_size):
        raise ValueError("it does not hold a dictionary of names and tensors")
    return {name: value.detach() for name, value in content.items()}


def _holds(content: object, name: str) -> bool:
    return isinstance(content, Mapping) and isinstance(content.get(name), Mapping)


def _npz(path: Path) -> Weights:
    weights: Weights = {}
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
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
