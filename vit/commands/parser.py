"""A parser whose errors name the nearest option or value, and whose help ends with an example"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from jsonargparse import ArgumentParser

from vit.errors import UsageError, nearest
from vit.training.recipe_values import plain_values

REMOVED = {  # options of earlier versions, and the option to give today
    "optim.warmup_epochs": "give optim.warmup, a fraction of the training: 5 of 50 epochs are 0.1",
    "optim.min_lr": "give optim.min_lr_ratio, with the same value",
}
_UNKNOWN = re.compile(
    r"unrecognized arguments: (\S+)|option '([\w.]+)' is not accepted"
    r"|key ['\"]?([\w.]+)['\"]? is not expected|unexpected key.*?['\"]([\w.]+)['\"]",
    re.IGNORECASE,
)
_UNKNOWN_IN_GROUP = re.compile(r"Group '(?P<group>[\w.]+)' does not accept option '(?P<key>[^']+)'")
_CHOICE = re.compile(r"(?P<key>[\w.]+)['\"]?: .*?Literal\[(?P<names>[^\]]*)\].*?Got value: (?P<value>\S+)")
_LONGEST = 400  # characters of a parser's message


class Parser(ArgumentParser):
    """jsonargparse's parser; it shows defaults and an example in its help, and raises errors as UsageError.

    Args:
        short: other spellings of options, which an error may suggest.
    """

    def __init__(self, command: str, description: str, example: str, short: Iterable[str] = ()) -> None:
        super().__init__(
            prog=f"vit {command}",
            description=description,
            epilog=f"example: {example}",
            default_env=False,
            allow_abbrev=False,  # else an option of an earlier version could pass for the beginning of another one
        )
        self.command = command
        self.short = list(short)

    def values(self, arguments: Sequence[str]) -> dict[str, Any]:
        """The plain values of a command line by parameter; UsageError for a wrong argument."""
        found = self.instantiate(self.parse_args(list(self._with_values(arguments))))
        return plain_values(dict(vars(found)))

    def _with_values(self, arguments: Sequence[str]) -> Iterator[str]:
        """The same words with a value for each flag: `--recursive` becomes `--recursive=true`.

        Without the value, argparse takes the next positional argument for the value.
        """
        flags = {flag for action in self._actions if action.const is True for flag in action.option_strings}
        words = list(arguments)
        while words and words[0] != "--":
            word = words.pop(0)
            if word in flags:
                word += f"={words.pop(0) if words and words[0] in ('true', 'false') else 'true'}"
            yield word
        yield from words

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise UsageError with the problem, and the nearest option or value."""
        text = " ".join(str(ex or message).split())
        grouped = _UNKNOWN_IN_GROUP.search(text)
        if grouped:
            raise self._unknown(f"{grouped['group']}.{grouped['key']}", dashed=False)
        unknown = _UNKNOWN.search(text)
        if unknown:
            given = next(group for group in unknown.groups() if group).split("=")[0]
            raise self._unknown(given, dashed=given.startswith("-"))
        choice = _CHOICE.search(text)
        if choice:
            names = re.findall(r"'([^']*)'", choice["names"])
            raise UsageError(f"{choice['key']} is {choice['value']}", nearest(choice["value"], names))
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
    return text[:_LONGEST].rstrip(". ;")
