"""Differences between two checkpoints."""

from typing import Any

import torch


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Paths at which two trees of tensors and plain values differ. Paths of checkpoints may differ."""
    if isinstance(one, torch.Tensor):
        return [] if isinstance(other, torch.Tensor) and torch.equal(one, other) else [path]
    if isinstance(one, dict) and isinstance(other, dict):
        keys = one.keys() | other.keys()
        return [bad for key in keys for bad in differences(one.get(key), other.get(key), f"{path}/{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = list(zip(one, other, strict=False))
        found = [bad for index, pair in enumerate(pairs) for bad in differences(*pair, f"{path}/{index}")]
        return found + [path] * (len(one) != len(other))
    return [] if one == other or str(one).endswith((".ckpt", "checkpoints")) else [path]
