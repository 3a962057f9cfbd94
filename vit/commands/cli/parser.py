"""Values of options from words, YAML and Python, and errors that name the nearest option"""

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vit.commands.cli.help_text import help_text
from vit.commands.cli.option_values import REQUIRED, mapping_type, read_value, read_word
from vit.commands.cli.options import CommandOptions, Option
from vit.commands.cli.schema import SCHEMA, schema_text
from vit.errors import UsageError, close_name

_ONE_FOLDER = "give one folder DATA, with train/, val/ and test/ in it, or a CSV with the column split"
OF_OTHERS = {  # options of other programs that have no counterpart here, and what to do
    "val_dir": _ONE_FOLDER, "val_data": _ONE_FOLDER, "test_dir": _ONE_FOLDER,
}  # fmt: skip
SAME = {  # options of other programs, and their names here
    "imgsz": "image_size", "img_size": "image_size", "batch": "batch_size", "arch": "network", "model": "network",
    "pretrained": "init_from", "workers": "num_workers", "output_dir": "out", "val": "validation", "opt": "optimizer",
    "early_stopping": "patience", "sort": "sort_into",
}  # fmt: skip
OF_SECTION = "give its options one by one"  # the fix for a section with a value


class Parser(CommandOptions):
    """Reads the options of a command."""

    def read_words(self, words: Sequence[str]) -> dict[str, Any]:
        """The values that a command line gives, by name; `--help` and `--print_schema` print and end the program.

        Raises:
            UsageError: a word is unknown, or not a value of its option.
        """
        values: dict[str, Any] = {}
        rest = deque(words)
        flag_before: Option | None = None  # an option without a value directly before the word
        waiting = deque(option for option in self.options if option.is_positional)
        while rest:
            word = rest.popleft()
            if word in ("--help", "-h"):
                print(help_text(self, rest.popleft() if rest and not rest[0].startswith("-") else ""))
                raise SystemExit(0)
            if word == SCHEMA and self.takes_files:
                print(schema_text(self))
                raise SystemExit(0)
            if word == "--":
                for text in rest:
                    self._take(text, waiting, values)
                break
            if not word.startswith("-") or word == "-":
                if flag_before and not waiting:
                    raise UsageError(f"{flag_before.name} is {word}", "give true or false, or no value")
                self._take(word, waiting, values)
                flag_before = None
                continue
            if waiting and waiting[0].takes_several and waiting[0].name in values:
                waiting.popleft()  # words after an option are not further items
            flag, equals, text = word.partition("=")
            option, key = self.find(flag.removeprefix("--")) or (None, "")
            if option is None or option.is_positional or not flag.startswith("--"):
                raise self.unknown(flag)
            is_next = False
            if not equals:
                following = rest[0] if rest else "--"
                is_next = following in ("true", "false") if option.is_flag else not following.startswith("--")
                if not is_next and not option.is_flag:
                    raise UsageError(f"{flag} needs a value", self.hint)
                text = rest.popleft() if is_next else "true"
            flag_before = option if option.is_flag and not equals and not is_next else None
            _store(values, option, key, text)
        return values

    def read_tree(self, tree: Mapping[str, Any], beginning: str = "") -> dict[str, Any]:
        """The values of a YAML file by name, where an empty section has none.

        Args:
            tree: sections and options with their values.
            beginning: name of the section with its dot.

        Raises:
            UsageError: an option is unknown or has a wrong value.
        """
        values: dict[str, Any] = {}
        for key, value in tree.items():
            name = f"{beginning}{key}"
            option = self.by_name.get(name)
            is_section = any(other.startswith(f"{name}.") for other in self.by_name)
            if value is None and (is_section or (option is not None and mapping_type(option.kind) is not None)):
                continue
            if option is not None:
                inner = {name: read_value(option.kind, value, name)}
            elif not is_section:
                first = next(iter(value), "") if isinstance(value, dict) else ""
                raise self.unknown(f"{name}.{first}" if first else name)
            elif isinstance(value, dict):
                inner = self.read_tree(value, f"{name}.")
            else:
                raise UsageError(f"{name} is {value}", OF_SECTION)
            for twice in values.keys() & inner.keys():  # once in its section, once with a dot
                raise UsageError(f"{twice} is given twice", "keep one of the two")
            values |= inner
        return values

    def read_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of Python by name, also of keys of mappings ("data.root"); errors as those of `read_tree`."""
        checked: dict[str, Any] = {}
        for given, value in values.items():
            option, key = self.find(given) or (None, "")
            if option is None:
                raise self.unknown(f"--{given}" if self.short else given)
            if key:
                item = read_value(mapping_type(option.kind), value, f"{option.name}.{key}")
                checked[option.name] = {**checked.get(option.name, {}), key: item}
            elif option.takes_several:
                is_one = isinstance(value, str | os.PathLike) or not isinstance(value, Iterable)
                items = [value] if is_one else value
                checked[option.name] = [read_value(option.kind, item, option.name) for item in items]
            else:
                checked[option.name] = read_value(option.kind, value, option.name)
        return checked

    def with_defaults(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values with the defaults of all other options; UsageError where a value is missing."""
        missing = [option.name for option in self.options if option.default is REQUIRED and option.name not in values]
        if missing:
            raise UsageError(f"the following arguments are required: {', '.join(missing)}", self.hint)
        return {option.name: values.get(option.name, option.default) for option in self.options}

    def unknown(self, given: str) -> UsageError:
        """The error for an unknown option, a flag or the key of a file, with the nearest one."""
        name, is_flag = given.removeprefix("--"), given.startswith("-")
        above = self.by_name.get(name.rpartition(".")[0])
        if above is not None and not above.is_positional:
            return UsageError(f"{above.name} has no options of its own", f"give its value: --{above.name} VALUE")
        if name in self.sections:
            return UsageError(f"vit {self.command} has no option {given}", f"see 'vit {self.command} --help {name}'")
        fix = OF_OTHERS.get(name) or self._nearest(given, is_flag)
        dotted = self.short.get(f"--{name}", "").removeprefix("--")
        if dotted and not is_flag:
            *sections, key = dotted.split(".")
            below = " and ".join(f"'{section}:'" for section in sections)
            fix = f"give {dotted}, in a file the key {key!r} below {below}"
        return UsageError(f"vit {self.command} has no option {given}", fix)

    def _nearest(self, given: str, is_flag: bool) -> str:
        """The option that is spelled almost as a word, whole or after its last dot; else where all options are."""
        names = [option.name for option in self.options if not option.is_positional and not option.is_hidden]
        if is_flag:
            hidden = {f"--{option.name}" for option in self.options if option.is_hidden}
            names = [f"--{name}" for name in names] + [flag for flag, own in self.short.items() if own not in hidden]
        word = given.removeprefix("--").rpartition(".")[2]
        ends = {name.removeprefix("--").rpartition(".")[2]: name for name in sorted(names, key=len, reverse=True)}
        close = ends.get(SAME.get(word, word)) or close_name(given, names) or ends.get(close_name(word, ends) or "")
        return self.hint if close in (None, given) else f"did you mean {close!r}?"

    def _take(self, word: str, waiting: "deque[Option]", values: dict[str, Any]) -> None:
        """Store a positional argument."""
        if not waiting:
            data = next((option for option in self.options if option.is_positional and option.metavar == "DATA"), None)
            problem = f"vit {self.command} cannot use the word {word!r}"
            if data is not None and data.name in values:
                problem = f"DATA is given twice: {values[data.name]!r} and {word!r}"
            raise UsageError(problem, "quote a path that has spaces")
        _store(values, waiting[0] if waiting[0].takes_several else waiting.popleft(), "", word)


def _store(values: dict[str, Any], option: Option, key: str, word: str) -> None:
    """Store the value of a word; a key adds to the mapping of its option."""
    if key:
        item = read_word(mapping_type(option.kind), word, f"{option.name}.{key}")
        mapping = values.get(option.name)
        values[option.name] = {**(mapping if isinstance(mapping, dict) else {}), key: item}
    elif option.takes_several:
        values.setdefault(option.name, []).append(read_word(option.kind, word, option.name))
    else:
        values[option.name] = read_word(option.kind, word, option.name)
