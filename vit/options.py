"""Options of commands and networks: what a signature or dataclass says, and values from words, YAML and Python"""

import inspect
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from vit.errors import UsageError, nearest

REQUIRED: Any = inspect.Parameter.empty  # as the default of an option
_WORDS: dict[str, object] = {"null": None, "true": True, "false": False}
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(?P<exponent>[eE][-+]?\d+)?")
_SCALARS: dict[Any, tuple[Any, str]] = {  # type of a signature -> type of a value, and the fix for other values
    bool: (bool, "give true or false"),
    int: (Integral, "give a whole number"),
    float: (Real, "give a number"),
    str: (str, "give a text, in quotes where it looks like a number or a date"),
}
_COLLECTIONS: dict[Any, str] = {dict: "a mapping", list: "a list", tuple: "a list"}


@dataclass(frozen=True)
class Option:
    """An option of a command, or a positional argument."""

    name: str  # name with the sections before it, such as "optim.lr"
    kind: Any  # type of its values
    about: str = ""  # text of the help
    default: Any = REQUIRED  # its value where none is given; REQUIRED: it must be given
    metavar: str = ""  # word for its value in the help; empty: one that its type says
    is_positional: bool = False  # whether it is given without its name
    takes_several: bool = False  # whether each word is one item of a list; an option is then repeated
    is_hidden: bool = False  # whether the command refuses it, so that the help does not show it

    @property
    def is_flag(self) -> bool:
        """Whether its value may be left out, and is then true."""
        return self.kind is bool and self.default is False

    @property
    def section(self) -> str:
        """The section of a recipe that the option belongs to; empty: none."""
        return self.name.partition(".")[0] if "." in self.name else ""


def docstring_arguments(text: str) -> dict[str, str]:
    """The texts of arguments or attributes of a Google-style docstring without indentation, each as one line."""
    texts: dict[str, str] = {}
    name = ""
    is_inside = False
    for line in text.splitlines():
        if line.strip() and not line.startswith(" "):
            is_inside = line in ("Args:", "Attributes:")
        elif is_inside and (entry := re.match(r" {4}(\w+): (.*)", line)):
            name = entry[1]
            texts[name] = entry[2].strip()
        elif is_inside and line.strip():
            texts[name] += f" {line.strip()}"
    return texts


def options_of(kind: type, section: str = "") -> list[Option]:
    """An option for each attribute of a dataclass and of the dataclasses in it, with the text of its docstring."""
    abouts: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        abouts |= docstring_arguments(inspect.getdoc(base) or "")
    hints = get_type_hints(kind, include_extras=True)
    options: list[Option] = []
    for item in fields(kind):
        name, default = f"{section}{item.name}", item.default
        if is_dataclass(hints[item.name]):
            options += options_of(hints[item.name], f"{name}.")
            continue
        if item.default_factory is not MISSING:
            default = item.default_factory()
        elif default is MISSING:
            default = REQUIRED
        options.append(Option(name, hints[item.name], abouts.get(item.name, ""), default))
    return options


def union_members(kind: Any) -> tuple[Any, ...]:
    """The types of a union; of another type itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def mapping_type(kind: Any) -> Any:
    """The type of the values where an option may be a mapping, else None."""
    return next((get_args(member)[1] for member in union_members(kind) if get_origin(member) is dict), None)


def choices(kind: Any) -> list[str]:
    """The words that an option takes, where they are few."""
    members = union_members(kind)
    words = [str(word) for member in members if get_origin(member) is Literal for word in get_args(member)]
    return words + ["true", "false"] * (bool in members)


def read_word(kind: Any, word: str, name: str) -> Any:
    """The value of an option from a word, which is YAML unless the option takes any text; UsageError with its name."""
    return _read(kind, _parsed(word), word, name)


def read_value(kind: Any, value: object, name: str) -> Any:
    """The value of an option from YAML or Python, with plain numbers, which a checkpoint can store; as `read_word`."""
    if value is None and NoneType not in union_members(kind):
        raise UsageError(f"{name} is None", "give a value, or leave it out")
    # PIL's images, NumPy's, torch's; an array of texts is a list
    is_array = hasattr(value, "__array_interface__") or hasattr(value, "__array__")
    is_text = getattr(getattr(value, "dtype", None), "kind", "") == "U"
    takes_text = {str} <= {*union_members(kind)} <= {str, NoneType}
    if is_array and takes_text and not is_text and getattr(value, "shape", None) != ():
        raise UsageError(f"{name} is an array in memory", "give files; vit.load(RUN).predict takes images in memory")
    return _read(kind, _plain(value), None, name)


def _plain(value: Any) -> Any:
    """A value of Python as YAML has it: also of a path, a range, and numbers and arrays of NumPy and torch."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "__array__") and hasattr(value, "tolist") else value


class _WrongValueError(Exception):
    """A value of another type: the value, the fix, and the key where the value is in a mapping."""

    def __init__(self, value: object, fix: str, key: str = "") -> None:
        super().__init__(value, fix, key)
        self.value, self.fix, self.key = value, fix, key


def _read(kind: Any, value: object, word: str | None, name: str) -> Any:
    try:
        return _fit(kind, value, word)
    except _WrongValueError as error:
        shown = _COLLECTIONS.get(type(error.value), error.value)
        if error.value is value and word is not None and not isinstance(value, list | dict):
            shown = word
        raise UsageError(f"{name}{'.' * bool(error.key)}{error.key} is {shown}", error.fix) from None


def _parsed(word: str) -> object:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if re.fullmatch(r"[-+]?\d{1,4000}", word):  # Python reads no longer ones
        return int(word)
    if _NUMBER.fullmatch(word):
        return float(word)
    if word.startswith(("[", "{")):
        from vit.plain_files import parse_yaml

        with suppress(ValueError):
            return parse_yaml(word)
    return word


def _fit(kind: Any, value: Any, word: str | None = None) -> Any:
    """A value as a type, or `_WrongValueError`. It comes from a word of the command line; None: from YAML or Python."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _fit_one_of(parts, value, word)
    if origin is Annotated:
        fitted = _fit(parts[0], value, word)
        if all(rule.allows(fitted) for rule in parts[1:]):
            return fitted
        rules = " and ".join(filter(None, map(str, parts[1:])))
        raise _WrongValueError(value, f"give {rules}" if parts[0] is str else f"give a number {rules}".rstrip())
    if origin is Literal:
        for choice in parts:
            if word == str(choice) or (type(value) is type(choice) and value == choice):
                return choice
        raise _WrongValueError(value, nearest(str(value), map(str, parts)))
    if origin is dict and isinstance(value, Mapping):
        fitted = {}
        for key, item in value.items():
            try:
                fitted[str(key)] = _fit(parts[1], item)  # YAML has the number 7
            except _WrongValueError as error:
                raise _WrongValueError(error.value, error.fix, str(key)) from error
        return fitted
    length = len(parts) if origin is tuple and Ellipsis not in parts else None
    if origin in (list, tuple) and isinstance(value, list | tuple) and length in (None, len(value)):
        return origin(_fit(parts[0], item) for item in value)
    if origin in _COLLECTIONS:
        raise _WrongValueError(value, f"give {_COLLECTIONS[origin]}" + ("" if length is None else f" of {length}"))
    if kind is str and word is not None:
        return word
    if kind in _SCALARS:
        accepted, fix = _SCALARS[kind]
        is_number = kind in (int, float) and isinstance(value, str)  # in quotes in YAML, or nan
        if is_number or (isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))):
            with suppress(ValueError, OverflowError):
                return kind(value)
        raise _WrongValueError(value, fix)
    if value is not None:
        raise _WrongValueError(value, "give null")
    return None


def _fit_one_of(members: tuple[Any, ...], value: Any, word: str | None) -> Any:
    """A value as one of several types, and as a text only where it is nothing else."""
    number = _NUMBER.fullmatch(value) if isinstance(value, str) and word is None and float in members else None
    if number and number["exponent"]:
        value = float(value)  # 1e-3 is a text to YAML 1.1
    is_text = isinstance(value, str) and str in members
    failures: dict[Any, _WrongValueError] = {}
    for member in members:
        if member is not str and (not is_text or get_origin(member) is Literal):
            try:
                return _fit(member, value, word)
            except _WrongValueError as error:
                failures[member] = error
    if str in members and (is_text or (word is not None and value is not None)):
        return _fit(str, value, word)
    for failure in failures.values():
        if isinstance(value, dict | list) and failure.value is not value:
            raise failure
    words = choices(Union[members])  # noqa: UP007  of a tuple
    others = [failure.fix for member, failure in failures.items() if get_origin(member) is not Literal]
    fixes = [fix.removeprefix("give ") for fix in dict.fromkeys(others) if fix != "give null"]
    if value is None and str in members:
        fix = "give a value, or leave it out"
    elif str in members:
        text = _SCALARS[str][1].removeprefix("give ")
        fix = f"give {', '.join(fixes)}{', or ' * bool(fixes)}{text}"
    elif words:
        numbers = [fix for fix in fixes if "number" in fix]
        fix = f"give {numbers[0]}, or {', '.join(words)}" if numbers else nearest(str(value), words)
    else:
        fix = "give a value, or leave it out" if value is None else f"give {fixes[-1]}"
    raise _WrongValueError(value, fix)
