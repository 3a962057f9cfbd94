"""Options of a network: plain values, checked against the types in the network's config

Imports neither torch nor timm. A checked option can name nothing to import or to call.
"""

from collections.abc import Mapping

from vit.errors import UsageError, nearest
from vit.options import read_value

Value = bool | int | float | str | tuple[int, ...]
Options = Mapping[str, Value]

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
    """The options of a network, each of its type in `kinds`; UsageError for any other."""
    for name in given:
        if name in _DECIDED_ELSEWHERE:
            raise UsageError(
                f"model.network.{name} is not set here",
                "the data, --image_size and --model.preprocess.channels decide it",
            )
        if name not in kinds:
            raise UsageError(f"{network} has no option {name!r} (model.network.{name})", nearest(name, kinds))
    return {name: read_value(kinds[name], value, f"model.network.{name}") for name, value in given.items()}
