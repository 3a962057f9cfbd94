"""Whether the numbers of a section of docs/claims.md agree with what its claim says. Words follow from numbers.

A claim says for each of its comparisons what it expects: "more", "less" or "same". A comparison holds where the
corrected test tells the two apart, in the expected direction. "same" holds where the interval of the difference lies
within 1 point. A claim of "same" alone says that nothing differs, and only a difference that is found contradicts it.
A pair with one common seed has no test, and decides nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from definitions import Claim
from kept import Answers
from lines import Lines
from sentences import Compared, away_from_zero, compared, compared_by_condition, ends

MEANING = (
    (
        "Supported",
        "every comparison of the claim is as it says, by the corrected test; for lines by the interval; the same where "
        "the interval lies within 1 point",
    ),
    ("Partly supported", "some of them are, and the others decide nothing"),
    ("Mixed", "some agree with the claim, and some contradict it"),
    ("Not shown", "none of them can be told apart, which does not prove that they are equal"),
    ("Contradicted", "some differ in the other direction, and none as the claim says"),
    ("Not contradicted", "the claim says that nothing differs, and no test finds a difference"),
    ("Measured", "the claim is a number, and its distance from the measured one is given"),
)
SAME = 0.01  # error: what is nearer counts as the same beside comparisons that differ
FEW = 2  # kinds of test images that a verdict lists; of more it counts


@dataclass(frozen=True)
class Verdict:
    """What the numbers say of a claim.

    Attributes:
        label: a word of MEANING, with how many comparisons agree where there are several.
        sentence: the comparison that decides, with its interval.
    """

    label: str
    sentence: str


def verdict_of(claim: Claim, found: Answers | Lines) -> Verdict:
    """The verdict on a claim, from its answers or its lines of numbers."""
    if isinstance(found, Lines):
        return _of_lines(claim, found)
    if claim.by_condition:
        return _of_conditions(claim, found)
    expected = dict(zip(claim.compare, claim.expects, strict=True))
    judged = [(one, expected[one.first, one.second]) for one in compared(found, claim.compare)]
    judged = [(one, word) for one, word in judged if word]
    agree = _agreement(judged)
    # One sentence for each kind of outcome: a contradiction first, then what agrees, then what cannot be told apart.
    shown = [judged[agree.index(outcome)][0] for outcome in (False, True, None) if outcome in agree]
    return Verdict(_label(agree, [word for _, word in judged]), " ".join(one.sentence(claim.names) for one in shown))


def _agreement(judged: Sequence[tuple[Compared, str]]) -> list[bool | None]:
    """For each comparison of errors: True where it is as expected, False where it contradicts, None where neither."""
    nothing_differs = all(word == "same" for _, word in judged)
    return [_agrees(one, word, nothing_differs=nothing_differs) for one, word in judged]


def _agrees(one: Compared, word: str, *, nothing_differs: bool) -> bool | None:
    if not one.found.is_tested:
        return None
    if one.is_apart:
        return word != "same" and (one.gap.value > 0) == (word == "more")
    if word != "same":
        return None
    assert one.gap.low is not None
    assert one.gap.high is not None
    return True if nothing_differs or max(-one.gap.low, one.gap.high) < SAME else None


def _label(agree: Sequence[bool | None], words: Sequence[str]) -> str:
    holds, against = sum(one is True for one in agree), sum(one is False for one in agree)
    if holds == len(agree):
        return "Not contradicted" if set(words) == {"same"} else "Supported"
    count = f" ({holds} of {len(agree)})" if len(agree) > 1 else ""
    if holds and against:
        return f"Mixed{count}"
    if holds:
        return f"{'Not contradicted' if set(words) == {'same'} else 'Partly supported'}{count}"
    return f"Contradicted{count}" if against else "Not shown"


def _of_conditions(claim: Claim, answers: Answers) -> Verdict:
    """The verdict on one pair of series under several kinds of test images."""
    (first, second), (default,) = claim.compare[0], claim.expects
    everything = compared_by_condition(answers, claim.compare[0])
    words = claim.kinds or {one.condition: default for one in everything if one.condition != "unchanged"}
    judged = [one for one in everything if one.condition in words]
    # Expectations are about accuracy or a share of the images; comparisons are about errors.
    turned = {"more": "less", "less": "more", "same": "same"}
    agree = _agreement([(one, turned[words[one.condition]]) for one in judged])
    label = _label(agree, [words[one.condition] for one in judged])
    names = claim.names.get(first, first), claim.names.get(second, second)
    if len(judged) <= FEW:
        return Verdict(label, " ".join(_share(one, names) for one in judged))
    better = [sum(one.is_apart and (one.gap.value < 0) is ahead for one in judged) for ahead in (True, False)]
    is_share = claim.value != "test accuracy"
    ahead, on = ("has the larger share", "in") if is_share else ("is better", "on")
    counted = (
        f"Of {len(judged)} kinds of changed images, {names[0]} {ahead} {on} {better[0]}, and {names[1]} {on} "
        f"{better[1]}. The others cannot be told apart."
    )
    if not any(better):
        counted = f"None of {len(judged)} kinds of changed images tells {names[0]} and {names[1]} apart."
    largest = max(judged, key=lambda one: (one.is_apart, abs(one.gap.value)))
    if largest.is_apart:
        counted = f"{counted} The largest difference: {_share(largest, names)}"
    return Verdict(label, counted)


def _share(one: Compared, names: tuple[str, str]) -> str:
    shares = [f"{100 - 100 * error:.2f} %" for error in one.errors]
    kind = one.condition[:1].upper() + one.condition[1:]
    words = f"{kind}: {names[0]} {shares[0]}, {names[1]} {shares[1]}"
    if not one.found.is_tested:
        return f"{words}, with one seed."
    if not one.is_apart:
        turned = type(one.gap)(-one.gap.value, *(None if end is None else -end for end in (one.gap.high, one.gap.low)))
        return f"{words}, which cannot be told apart ({ends(turned)} points)."
    side = "higher" if one.gap.value < 0 else "lower"
    return f"{words}, {100 * abs(one.gap.value):.2f} points {side} ({away_from_zero(one.gap)})."


def _of_lines(claim: Claim, lines: Lines) -> Verdict:
    """The verdict on changes along a line of numbers; without expectations the largest distance of two lines."""
    if not claim.kinds:
        return Verdict("Measured", " ".join(lines.sentences(claim.compare, claim.names)).replace("- **", "**"))
    agree: list[bool | None] = []
    sentences = []
    for name, word in claim.kinds.items():
        change, base = lines.change(name), 0.0 if lines.is_share else 1.0
        low, high = change.low, change.high
        side = None if low is None or high is None or low <= base <= high else "more" if low > base else "less"
        agree.append(side is None if word == "same" else None if side is None else side == word)
        sentences.append(lines.describe_change(name, claim.names))
    return Verdict(_label(agree, list(claim.kinds.values())), " ".join(sentences))


def meanings() -> Iterator[str]:
    """What the words of the verdicts mean, as items of a list."""
    yield from (f"- **{word}**: {meaning}." for word, meaning in MEANING)
