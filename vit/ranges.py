"""Types of numbers in recipes and networks, whose ranges are checked when they are parsed, and times as texts"""

import operator
import re
from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated, Literal

from vit.errors import UsageError

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Bound:
    """A limit of a number, as in `Annotated[float, Bound(">", 0)]`."""

    sign: Literal[">", ">=", "<", "<="]
    limit: float
    reason: str = ""

    def allows(self, number: float) -> bool:
        """Whether a number is on the right side; NaN is on none."""
        return bool(_COMPARE[self.sign](number, self.limit))

    def __str__(self) -> str:
        return f"{self.sign}{self.limit}{self.reason}" if isfinite(self.limit) else ""


@dataclass(frozen=True)
class Pattern:
    """The pattern of a text, and how the text is described."""

    pattern: str
    about: str

    def allows(self, text: str) -> bool:
        """Whether the whole text has the pattern."""
        return re.fullmatch(self.pattern, text) is not None

    def __str__(self) -> str:
        return self.about


PositiveInt = Annotated[int, Bound(">", 0)]
NonNegativeInt = Annotated[int, Bound(">=", 0)]
ImageSide = Annotated[int, Bound(">", 0), Bound("<=", 8000, ", because images have at most 64,000,000 pixels")]
Magnitude = Annotated[int, Bound(">=", 0), Bound("<=", 30)]
ChannelCount = Annotated[int, Bound(">=", 1), Bound("<=", 16)]
Seed = Annotated[int, Bound(">=", 0), Bound("<", 2**32)]
Port = Annotated[int, Bound(">", 0), Bound("<", 2**16)]
Share = Annotated[float, Bound(">=", 0), Bound("<", 1)]
Fraction = Annotated[float, Bound(">", 0), Bound("<", 1)]
Area = Annotated[float, Bound(">", 0), Bound("<=", 1)]
ClosedUnitInterval = Annotated[float, Bound(">=", 0), Bound("<=", 1)]
Finite = Annotated[float, Bound(">", -inf), Bound("<", inf)]
Positive = Annotated[float, Bound(">", 0), Bound("<", inf)]
NonNegative = Annotated[float, Bound(">=", 0), Bound("<", inf)]
ImportPath = Annotated[str, Pattern(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", "MODULE:NAME")]


def seconds(text: str, flag: str) -> float:
    """A time such as 90s, 10min or 2h in seconds. UsageError: the text of an option `flag` is not a time."""
    parts = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\s*(s|min|h)", text.strip())
    if parts is None:
        raise UsageError(f"{flag} {text}", "give a number with s, min or h: 90s, 10min, 2h")
    return float(parts[1]) * _SECONDS[parts[2]]
