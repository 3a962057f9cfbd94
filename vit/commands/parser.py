"""A parser whose errors name the nearest option or value, and whose help ends with an example"""

import re
from argparse import SUPPRESS
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, Namespace

from vit.errors import UsageError, close_name, nearest
from vit.training.recipes.values import plain_values

REMOVED = {  # options of earlier versions, and the option to give today
    "optim.warmup_epochs": "give optim.warmup, a fraction of the training: 5 of 50 epochs are 0.1",
    "optim.min_lr": "give optim.min_lr_ratio, with the same value",
}
_NO_STOPPING = "there is no early stopping: best.ckpt keeps the best weights of all epochs; give --epochs or --time"
_ONE_FOLDER = "give one folder DATA, with train/, val/ and test/ in it, or a CSV with the column split"
OF_OTHERS = {  # options of other programs that have no counterpart here, and what to do
    "patience": _NO_STOPPING, "early_stopping": _NO_STOPPING,
    "val_dir": _ONE_FOLDER, "val_data": _ONE_FOLDER, "test_dir": _ONE_FOLDER,
}  # fmt: skip
SAME = {  # options of other programs, and their names here
    "imgsz": "image_size", "img_size": "image_size", "batch": "batch_size", "arch": "network", "model": "network",
    "pretrained": "init_from", "workers": "num_workers", "output_dir": "out", "val": "validation", "opt": "optimizer",
}  # fmt: skip
_UNKNOWN = re.compile(
    r"unrecognized arguments: (\S+)|option '([\w.]+)' is not accepted"
    r"|key ['\"]?([\w.]+)['\"]? is not expected|unexpected key.*?['\"]([\w.]+)['\"]",
    re.IGNORECASE,
)
_UNKNOWN_IN_GROUP = re.compile(r"Group '(?P<group>[\w.]+)' does not accept option '(?P<key>[^']+)'")
_KEY = re.compile(r"Parser key ['\"]?(?P<key>[\w.]+)['\"]?: ")
_VALUE = re.compile(r"(?:Got|Given) value: (.*)$|Not of type \w+: (\S+) does not conform|: '([^']*)'$|, not '(\w+)'$")
_NAMES = re.compile(r"Literal\[([^\]]*)\]")
_RULE = re.compile(r"does not conform to restriction (v[<>=]+\S+(?: and v[<>=]+\S+)?)")
_KINDS = {  # words of the parser on a wrong value -> the fix
    "invalid literal for int()": "give a whole number",
    "int() argument must be": "give a whole number",
    "Expected a <class 'int'>": "give a whole number",
    "could not convert string to float": "give a number",
    "float() argument must be": "give a number",
    "Expected a <class 'float'>": "give a number",
    "Expected a <class 'bool'>": "give true or false",
}
_GIVEN = {"NoneType": "None", "list": "a list", "dict": "a mapping", "Namespace": "a mapping"}  # names of types
_SECTION = re.compile(r"Parser key \"(?P<key>[\w.]+)\": Unable to load config '(?P<value>[^']*)'")
OF_SECTION = "give its options one by one"  # the fix for a section with a value
_NO_OPTIONS = "Unexpected config: "  # the parser's words on a file that is not a mapping
_MAPPING = "Given value type: <class 'dict'>"  # its values are wrong, though a name would do as well
_LONGEST = 400  # characters of a parser's message


class Parser(ArgumentParser):
    """jsonargparse's parser; it shows defaults and an example in its help, and raises errors as UsageError.

    Args:
        short: other spellings of options, which an error may suggest, and the options with their sections.
    """

    def __init__(self, command: str, description: str, example: str, short: Mapping[str, str] | None = None) -> None:
        super().__init__(
            prog=f"vit {command}",
            description=description,
            epilog=f"example: {example}",
            default_env=False,
            allow_abbrev=False,  # else an option of an earlier version could pass for the beginning of another one
        )
        self.command = command
        self.short = dict(short or {})

    def parse_string(self, content: str, *args: Any, **kwargs: Any) -> Namespace:
        """As jsonargparse, which takes `optim:` alone for a word, and with a comment for an empty section."""
        content += "\n#" * content.rstrip().endswith(":")
        return super().parse_string(content, *args, **kwargs)

    def values(self, arguments: Sequence[str]) -> dict[str, Any]:
        """The plain values of a command line by parameter; UsageError for a wrong argument."""
        found = self.instantiate(self.parse_args(list(self._with_values(arguments))))
        return plain_values(dict(vars(found)))

    def _with_values(self, arguments: Sequence[str]) -> Iterator[str]:
        """The same words with a value for each flag: `--recursive` becomes `--recursive=true`.

        Without the value, argparse takes the next positional argument for the value.
        """
        flags = {flag for action in self._actions if action.const is True for flag in action.option_strings}
        positional = {action.dest for action in self._actions if not action.option_strings}
        words = list(arguments)
        while words and words[0] != "--":
            word = words.pop(0)
            beginning = word.partition("=")[0].partition(".")[0]
            if word.startswith("--") and beginning != word and beginning.removeprefix("--") in positional:
                raise self._unknown(word.partition("=")[0], dashed=True)  # jsonargparse: a value of the positional
            if word in flags:
                word += f"={words.pop(0) if words and words[0] in ('true', 'false') else 'true'}"
            yield word
        yield from words

    def hide(self, names: Iterable[str]) -> None:
        """Leave options out of the help: the command refuses them."""
        hidden = set(names)
        for action in self._actions:
            if action.dest in hidden:
                action.help = SUPPRESS

    def describe(self, texts: Mapping[str, str]) -> None:
        """Give options other texts in the help, by their dotted names."""
        for action in self._actions:
            action.help = texts.get(action.dest, action.help)

    def describe_printing(self) -> None:
        """Say of --print_config what it does in commands whose recipes have layers, where it takes no value."""
        (action,) = (action for action in self._actions if "--print_config" in action.option_strings)
        action.metavar, action.help = "", "print the recipe with every value filled in, and train nothing"

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise UsageError with the problem, and the nearest option or value."""
        text = " ".join(str(ex or message).split())
        grouped = _UNKNOWN_IN_GROUP.search(text)
        if grouped:
            raise self._unknown(f"{grouped['group']}.{grouped['key']}", dashed=False)
        unknown = _UNKNOWN.search(text)
        if unknown:
            given = next(group for group in unknown.groups() if group).split("=")[0]
            if unknown[1] and not given.startswith("-"):
                raise UsageError(f"vit {self.command} cannot use the word {given!r}", "quote a path that has spaces")
            raise self._unknown(given, dashed=given.startswith("-"))
        section = _SECTION.match(text)
        if section:
            raise UsageError(f"{section['key']} is {section['value']}", OF_SECTION)
        if _NO_OPTIONS in text:
            raise UsageError("the file holds no options", f"see 'vit {self.command} --help'")
        raise _wrong_value(text) or UsageError(_tidy(text), f"see 'vit {self.command} --help'")

    def _unknown(self, given: str, dashed: bool) -> UsageError:
        name = given.removeprefix("--")
        fix = REMOVED.get(name) or OF_OTHERS.get(name) or self._nearest(given, dashed)
        dotted = self.short.get(f"--{given}", "").removeprefix("--")
        if dotted:  # a short flag as the key of a file
            *sections, key = dotted.split(".")
            below = " and ".join(f"'{section}:'" for section in sections)
            fix = f"give {dotted}, in a file the key {key!r} below {below}"
        return UsageError(f"vit {self.command} has no option {given}", fix)

    def _nearest(self, given: str, dashed: bool) -> str:
        """The option that is spelled almost as a word, whole or after its last dot; else where all options are."""
        options, word = self._options(dashed), given.removeprefix("--").rpartition(".")[2]
        ends = {
            option.removeprefix("--").rpartition(".")[2]: option for option in sorted(options, key=len, reverse=True)
        }
        wanted = SAME.get(word, word)
        close = ends.get(wanted) or close_name(given, {*options} - {given}) or ends.get(close_name(word, ends) or "")
        return f"see 'vit {self.command} --help'" if close in (None, given) else f"did you mean {close!r}?"

    def _options(self, dashed: bool) -> list[str]:
        shown = [action for action in self._actions if action.help != SUPPRESS]  # see `hide`
        flags = [flag for action in shown for flag in action.option_strings if flag.startswith("--")]
        if dashed:
            return [*flags, *(short for short, option in self.short.items() if option in flags)]
        return [flag.removeprefix("--") for flag in flags]


def _wrong_value(text: str) -> UsageError | None:
    """The error for a value of another type than its option; None for any other message of the parser."""
    key, value = _KEY.search(text), _VALUE.search(text)
    if key is not None and "NestedArg" in text:  # --model.lora.rank 2
        return UsageError(f"{key['key']} has no options of its own", f"give its value: --{key['key']} VALUE")
    if key is None or value is None:
        return None
    given = next(group for group in value.groups() if group is not None)
    given = _GIVEN.get(given, given)
    if key["key"] == "model.network" and given == "None":  # its name, or another value of the network
        return UsageError(f"{key['key']} has None for a value", "give a name of 'vit models', or auto")
    names, rule = _NAMES.search(text), _RULE.search(text)
    if names and _MAPPING not in text:
        known = re.findall(r"'([^']*)'", names[1])
        fix = f"give a whole number above 0, or {known[0]}" if "PositiveInt" in text else nearest(given, known)
    elif rule:
        fix = f"give a number {rule[1].replace('v', '').replace('.0', '').removesuffix(' and <inf')}"
    else:
        fix = next((fix for words, fix in _KINDS.items() if words in text), "")
    return UsageError(f"{key['key']} is {given}", fix) if fix else None


def _tidy(text: str) -> str:
    """The first sentence of a parser's message, without its usage lines and type jargon."""
    text = re.sub(r"^(error: )?Parser key [\"']?([\w.]+)[\"']?: ?", r"\2: ", text)
    text = re.sub(r"Does not validate against any of the Union subtypes.*?Errors: ", "", text)
    return text[:_LONGEST].rstrip(". ;")
