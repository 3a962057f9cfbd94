"""Command lines: short flags, positional arguments, and errors that name the nearest option."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentParser

from vit.errors import UsageError, nearest

_UNKNOWN = re.compile(
    r"unrecognized arguments: (\S+)|option '([\w.]+)' is not accepted"
    r"|key ['\"]?([\w.]+)['\"]? is not expected|unexpected key.*?['\"]([\w.]+)['\"]",
    re.IGNORECASE,
)
_UNKNOWN_IN_GROUP = re.compile(r"Group '(?P<group>[\w.]+)' does not accept option '(?P<key>[^']+)'")
REMOVED = {  # options of earlier versions, and what says the same today
    "optim.warmup_epochs": "give optim.warmup, a share of the training: 5 of 50 epochs are 0.1"
}
_CHOICE = re.compile(r"(?P<key>[\w.]+)['\"]?: .*?Literal\[(?P<names>[^\]]*)\].*?Got value: (?P<value>\S+)")


class Parser(ArgumentParser):
    """jsonargparse's parser whose errors are ours, with defaults and an example in its help."""

    def __init__(self, command: str, description: str, example: str, short: Iterable[str] = ()) -> None:
        super().__init__(
            prog=f"vit {command}", description=description, epilog=f"example: {example}", default_env=False
        )
        self.command = command
        self.short = list(short)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise UsageError: what is wrong, and the nearest option."""
        text = " ".join(str(ex or message).split())
        grouped = _UNKNOWN_IN_GROUP.search(text)
        if grouped:
            given = f"{grouped['group']}.{grouped['key']}"
            raise self._unknown(given, dashed=False)
        unknown = _UNKNOWN.search(text)
        if unknown:
            given = next(group for group in unknown.groups() if group).split("=")[0]
            raise self._unknown(given, dashed=given.startswith("-"))
        choice = _CHOICE.search(text)
        if choice:
            raise UsageError(
                f"{choice['key']} is {choice['value']}",
                nearest(choice["value"], re.findall(r"'([^']*)'", choice["names"])),
            )
        raise UsageError(_tidy(text), f"see 'vit {self.command} --help'")

    def _unknown(self, given: str, dashed: bool) -> UsageError:
        fix = REMOVED.get(given.removeprefix("--")) or nearest(given, self._options(dashed))
        return UsageError(f"vit {self.command} has no option {given}", fix)

    def _options(self, dashed: bool) -> list[str]:
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        flags += self.short
        return flags if dashed else [flag.removeprefix("--") for flag in flags]


def _tidy(text: str) -> str:
    """The first sentence of a parser's message, without its usage lines and type jargon."""
    text = re.sub(r"^(error: )?Parser key [\"']?([\w.]+)[\"']?: ?", r"\2: ", text)
    text = re.sub(r"Does not validate against any of the Union subtypes.*?Errors: ", "", text)
    return text[:400].rstrip(". ;")


def parse(parser: Parser, arguments: Sequence[str]) -> Any:
    """The namespace of a command line; UsageError for anything that does not fit."""
    return parser.parse_args(list(arguments))


def expand(arguments: Sequence[str], short: Mapping[str, str], positional: str) -> list[str]:
    """Write short flags out as dotted options, and the one positional argument as `positional`, each as --name=value.

    Every option but --help, --print_config and --dry_run takes a value, so what is neither an option nor a value is
    positional.
    """
    result: list[str] = []
    loose: list[str] = []
    rest = iter(arguments)
    for token in rest:
        if token in ("-h", "--help", "--print_config"):
            result.append("--help" if token == "-h" else token)
            continue
        if token == "--dry_run":
            result.append("--dry_run=true")
            continue
        if not token.startswith("--"):
            loose.append(token)
            continue
        name, equals, value = token.partition("=")
        following = value if equals else next(rest, None)
        if following is None:
            raise UsageError(f"{token} needs a value", "see --help")
        result.append(f"{short.get(name, name)}={following}")
    if len(loose) > 1:
        raise UsageError(f"DATA is given twice: {loose[0]!r} and {loose[1]!r}", "quote a path that has spaces")
    return [*result, *(f"--{positional}={token}" for token in loose)]


def fraction(option: str, value: float | str | None) -> float | None:
    """The value of an option that is a share, such as an accuracy; None where none is given.

    Raises:
        UsageError: it is not a number between 0 and 1.
    """
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        shown = value if isinstance(value, str) else f"{value:g}"
        raise UsageError(f"{option} {shown} is not between 0 and 1", "give a fraction such as 0.95")
    return number


def new_file(wanted: str) -> Path:
    """The file of --output; UsageError where it exists, because nothing is ever written over."""
    path = Path(wanted).expanduser()
    if path.exists():
        raise UsageError(f"--output {path} exists", "give another name, or remove it")
    return path


def find_config(name: str) -> Path:
    """The file of --config: a path, or the name of a recipe that comes with the program.

    Raises:
        UsageError: neither exists.
    """
    given = Path(name).expanduser()
    if given.is_file():
        _check_keys(given)
        return given
    shipped = shipped_configs()
    if name in shipped:
        return shipped[name]
    raise UsageError(f"there is no config {name!r}", nearest(name, shipped))


def _check_keys(path: Path) -> None:
    """Raise UsageError where a key stands twice: YAML parsers take the last one silently."""
    import yaml

    try:
        waiting = [yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)]
    except (yaml.YAMLError, UnicodeDecodeError):
        return  # the parser says it, with the line
    seen = set()  # an anchor is met at each of its aliases
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if lines.setdefault(str(key.value), line) != line:
                    first = lines[str(key.value)]
                    raise UsageError(
                        f"{path} has {key.value!r} in line {first} and again in line {line}", "keep one of the two"
                    )
                waiting.append(value)


def shipped_configs() -> dict[str, Path]:
    """Recipes, networks and studies by name; inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    folders = (package / "configs", package.parent / "configs")
    return {
        str(path.relative_to(folder).with_suffix("")): path for folder in folders for path in folder.rglob("*.yaml")
    }
