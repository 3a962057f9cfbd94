"""The command that the last line of an answer names, as words, so that a test can give it."""

import shlex

from tests.conftest import Answer


def next_words(answer: Answer, **places: str) -> list[str]:
    """The words after `Next: vit`; a place such as DATA has the value that is given for it."""
    last = answer.out.strip().splitlines()[-1]
    assert last.startswith("Next: vit "), answer.err or last
    return [places.get(word, word) for word in shlex.split(last.removeprefix("Next: vit "))]
