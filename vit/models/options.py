"""Options of a network: plain values, checked against the types in the network's config

Imports neither torch nor timm. A checked option can name nothing to import or to call.
"""

import math
import types
import typing
from collections.abc import Mapping
from typing import Literal, Union, get_args, get_origin

from vit.errors import UsageError, nearest

Value = bool | int | float | str | tuple[int, ...]
Options = Mapping[str, Value]

_ZERO_MEANS_NONE = ("num_registers", "layer_scale")
_DECIDED_ELSEWHERE = ("num_classes", "image_size", "in_chans")


def plain_options(values: Mapping[str, object]) -> dict[str, Value]:
    """The same options with tuples in place of lists, which JSON and YAML have; ValueError: a value is not plain."""
    options: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value, list | tuple) and all(type(number) is int for number in value):
            options[name] = tuple(value)
        elif isinstance(value, bool | int | float | str):
            options[name] = value
        else:
            raise ValueError(f"option {name} of the network is {value!r}")
    return options


def checked_options(network: str, given: Mapping[str, object], kinds: Mapping[str, object]) -> dict[str, Value]:
    """The options of a network, each of its type in `kinds` and in its range; UsageError for any other."""
    for name in given:
        if name in _DECIDED_ELSEWHERE:
            raise UsageError(
                f"model.network.{name} is not set here",
                "the data, --image_size and --model.preprocess.channels decide it",
            )
        if name not in kinds:
            raise UsageError(f"{network} has no option {name!r} (model.network.{name})", nearest(name, kinds))
    return {name: _checked(f"model.network.{name}", value, kinds[name]) for name, value in given.items()}


def _checked(key: str, value: object, kind: object) -> Value:
    """`value` if it is of type `kind` and in range. Integers pass for floats, lists for tuples."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UsageError(f"{key} is {value!r}", nearest(str(value), map(str, get_args(kind))))
        return typing.cast(Value, value)
    if get_origin(kind) is tuple:
        length = len(get_args(kind))
        if isinstance(value, list | tuple) and len(value) == length and all(type(v) is int and v > 0 for v in value):
            return tuple(value)
        raise UsageError(f"{key} is {value!r}", f"give {length} whole numbers of 1 or more")
    if get_origin(kind) in (Union, types.UnionType) or not isinstance(kind, type):
        raise TypeError(f"{key}: options of networks are plain values, {kind} is not")
    accepted = (int, float) if kind is float else kind  # isinstance: the command line's numbers are of subclasses
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{key} is {value!r}", f"give a value of type {kind.__name__}")
    plain: Value = kind(value)
    _check_range(key, plain)
    return plain


def _check_range(key: str, value: Value) -> None:
    zero = key.endswith(_ZERO_MEANS_NONE)
    if type(value) is int and value < 1 - zero:
        raise UsageError(f"{key} is {value!r}", f"give {1 - zero} or more")
    if type(value) is float:
        is_rate = key.endswith("_rate")
        low, high = (0.0, 1.0) if is_rate else (0.0 if zero else math.ulp(0.0), math.inf)
        if not low <= value < high:
            raise UsageError(
                f"{key} is {value!r}", "give a number from 0 to below 1" if is_rate else "give a number above 0"
            )
