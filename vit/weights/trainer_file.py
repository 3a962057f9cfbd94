"""What the checkpoint of a training program holds: sets of weights, of which one is taken, and what it states of them

timm, DeiT, torchvision's references, Lightning, DINO and programs that follow tutorials name their parts differently.
The sets of weights are found by their shape: mappings of names to tensors, the largest of them. Names tell only which
set is the average of the weights over the training (EMA).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from torch import Tensor

from vit.errors import CheckpointError

State = Literal["ema", "raw"]

_AVERAGE = re.compile(r"(?:^|[_./])(?:ema|swa|teacher|target|momentum|averaged?)(?=[_./\d]|$)", re.IGNORECASE)
_USUAL = ("state_dict", "model", "model_state_dict", "module", "net", "network", "student")  # the trained network
_DEPTH = 3  # of mappings: {"state": {"model": {"state_dict": ...}}}
_SMALL = 0.5  # a set with a smaller part of the largest set's numbers is a head, a loss or a state of the optimizer
_NETWORK_KEYS = ("arch", "architecture", "model_name", "model", "backbone", "encoder", "network", "net")
_NAMES_KEYS = (
    "class_names", "classes", "class_to_idx", "idx_to_class", "id2label", "label2id", "label_names", "labels"
)  # fmt: skip
SIZE_KEYS = ("input_size", "img_size", "image_size", "val_crop_size")  # of images; programs have one of them
_PIXEL_KEYS = (("mean",), ("std",), ("crop_pct",), ("interpolation",), SIZE_KEYS)
_SETTINGS = ("hyper_parameters", "hparams", "config", "cfg", "opt", "args")  # later ones stand above earlier ones


@dataclass(frozen=True)
class Stated:
    """What a file of weights states beside them."""

    # plain values of the training by place, "args" or "" for the file itself; later ones stand above earlier ones
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The values of all places."""
        return {key: value for part in self.parts.values() for key, value in part.items()}

    def check_pixels(self, where: str) -> None:
        """Raise CheckpointError where two places or keys state other values of the same setting of pixels."""
        for keys in _PIXEL_KEYS:
            stated = [(key, place, part.get(key)) for key in keys for place, part in self.parts.items()]
            known = [(key, place, _plain(key, value)) for key, place, value in stated if value not in (None, "")]
            if len({value for _, _, value in known}) > 1:
                both = " and ".join(f"{key} {value} in {place or 'the file itself'}" for key, place, value in known)
                raise CheckpointError(f"{where} contradicts itself: {both}", "correct one of them")

    def class_names(self, where: str) -> tuple[str, ...] | None:
        """The names of the classes; None without any. CheckpointError: two lists differ in the order alone.

        Numbers with gaps give (), which fits no classifier. transformers' LABEL_0, ... are not names.
        """
        places = [(key, place) for key in _NAMES_KEYS for place in reversed([*self.parts])]
        values = {f"{place}.{key}".lstrip("."): self.parts[place].get(key) for key, place in places}
        lists = {key: names for key, value in values.items() if (names := _listed_names(value)) is not None}
        named = {key: names for key, names in lists.items() if names[0] != "LABEL_0"}
        if not named:
            has_gaps = any(value and isinstance(value, Mapping) for key, value in values.items() if key not in lists)
            return () if has_gaps else None
        taken, names = next(iter(named.items()))
        for key, others in named.items():
            if others != names and sorted(others) == sorted(names):
                problem = f"{where}: {taken} and {key} number the classes in different orders"
                raise CheckpointError(problem, "correct one of them")
        return names

    @property
    def networks(self) -> tuple[str, ...]:
        """Names that may be those of the network, the most telling first."""
        words = [self.settings.get(key) for key in _NETWORK_KEYS]
        return tuple(word.rpartition("/")[2] for word in words if isinstance(word, str))


def one_set(content: object, state: State | None) -> tuple[object, str, list[str]]:
    """(the set of weights that is taken, its place: "" or "state_dict_ema", places of the others); ValueError."""
    if not isinstance(content, Mapping):
        return content, "", []
    sets = dict(_sets(content))
    most = max(map(_size, sets.values()), default=0)
    sets = {place: weights for place, weights in sets.items() if _size(weights) >= _SMALL * most}
    if not sets:
        return next((content[key] for key in _USUAL if isinstance(content.get(key), Mapping)), content), "", []
    if {"state_dict", "current_model_state"} <= sets.keys():  # Lightning's WeightAveraging
        sets = {"averaged/state_dict": sets["state_dict"], "current_model_state": sets["current_model_state"]}
    place = chosen_place(sets, state)
    return sets[place], place, [other for other in sets if other != place]


def chosen_place(sets: Mapping[str, Mapping[str, Tensor]], state: State | None) -> str:
    """The place of the average (EMA) of the weights, else of the trained network; ValueError: several fit."""
    averages = [place for place in sets if _AVERAGE.search(place)]
    others = [place for place in sets if place not in averages]
    alike = [place for place in averages if not others or any(_alike(sets[place], sets[one]) for one in others)]
    taken = alike if alike and state != "raw" else others or averages
    if len(taken) > 1:
        taken = [place for word in _USUAL for place in taken if place.strip("./") == word][:1] or taken
    if len(taken) > 1:
        names = ", ".join(sorted(place or "the file itself" for place in taken))
        raise ValueError(f"it holds several networks: {names}; save one of them as a file of its own")
    return taken[0]


def describe_choice(place: str, others: Sequence[str]) -> str:
    """Which set of weights was taken, in words; "" where there is nothing to choose and no average."""
    is_average = _AVERAGE.search(place) is not None
    if not others:
        return f"{place}, an average over the training (EMA)" if is_average else ""
    beside = ", ".join(others)
    if is_average:
        return f"{place}, the average over the training (EMA); --weights raw takes {beside}"
    return f"{place or 'the tensors of the file itself'}, and not {beside}"


def check_state(places: Sequence[str], state: State | None, path: str) -> None:
    """Raise CheckpointError if what was taken, by its places in file and set, is not what the user asks for."""
    if state is not None and any(map(_AVERAGE.search, places)) != (state == "ema"):
        lack, other = ("averaged weights (EMA)", "raw") if state == "ema" else ("raw weights", "ema")
        raise CheckpointError(f"{path} holds no {lack}", f"leave --weights out, or give --weights {other}")


def stated_of(content: object) -> Stated:
    """What a file states beside its tensors."""
    if not isinstance(content, Mapping):
        return Stated()
    parts: dict[str, Mapping[str, Any]] = {}
    for place, part in (*((key, content.get(key)) for key in _SETTINGS), ("", content)):
        plain = part if isinstance(part, Mapping) else vars(part) if hasattr(part, "__dict__") else {}
        parts[place] = {key: value for key, value in plain.items() if isinstance(key, str) and _is_plain(value)}
    return Stated(parts)


def _plain(key: str, value: object) -> str:
    """The text of a value, which is the same for a tuple and a list, and for the side of a square and its size."""
    if key in SIZE_KEYS and isinstance(value, list | tuple) and len({*value[-2:]}) == 1:
        return str(value[-1])
    return str([*value] if isinstance(value, tuple) else value)


def _listed_names(value: object) -> tuple[str, ...] | None:
    """Class names of a list, of {name: number} or of {number: name}; None where a value is none of these."""
    if isinstance(value, Mapping):
        pairs = [(name, number) for name, number in value.items()]
        if all(isinstance(number, Integral) for _, number in pairs):
            pairs = [(number, name) for name, number in pairs]
        if not all(str(number).isdecimal() for number, _ in pairs):
            return None
        by_number = {int(number): name for number, name in pairs}
        value = [by_number.get(number) for number in range(len(pairs))]
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return None
    return tuple(value) if all(isinstance(name, str) for name in value) else None


def _is_plain(value: object) -> bool:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else (value,)
    return all(part is None or isinstance(part, str | float | Integral) for part in parts)


def _sets(content: Mapping[Any, Any], place: str = "", depth: int = 0) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """(place, tensors by name) of each mapping that holds weights: at least one matrix."""
    tensors = {name: value for name, value in content.items() if isinstance(name, str) and isinstance(value, Tensor)}
    if any(value.ndim > 1 for value in tensors.values()):
        yield place, tensors
    if depth < _DEPTH:
        for key, part in content.items():
            if isinstance(key, str) and isinstance(part, Mapping):
                yield from _sets(part, f"{place}/{key}" if place else key, depth + 1)


def _size(weights: Mapping[str, Tensor]) -> int:
    return sum(value.numel() for value in weights.values())


def _alike(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether two sets have the same shapes, as a network and its average have. Counters do not count."""
    shapes = [sorted(tuple(v.shape) for v in weights.values() if v.ndim) for weights in (one, other)]
    return shapes[0] == shapes[1]
