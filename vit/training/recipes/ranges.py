"""Ranges of numbers in a recipe, which are checked when they are parsed, and times as texts"""

import re
from math import inf
from typing import TYPE_CHECKING

from jsonargparse.typing import restricted_number_type, restricted_string_type

from vit.errors import UsageError

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}

if TYPE_CHECKING:
    Share = float
    Area = float
    Magnitude = int
    ChannelCount = int
    Seed = int
    Finite = float
    Positive = float
    NonNegative = float
    ImportPath = str
else:
    Share = restricted_number_type("Share", float, [(">=", 0.0), ("<", 1.0)], docstring="a number from 0 to below 1")
    Area = restricted_number_type("Area", float, [(">", 0.0), ("<=", 1.0)], docstring="a number above 0, up to 1")
    Magnitude = restricted_number_type("Magnitude", int, [(">=", 0), ("<=", 30)], docstring="a whole number to 30")
    ChannelCount = restricted_number_type("ChannelCount", int, [(">=", 1), ("<=", 16)], docstring="1 to 16")
    Seed = restricted_number_type("Seed", int, [(">=", 0), ("<", 2**32)], docstring="a whole number of 32 bits")
    Finite = restricted_number_type("Finite", float, [(">", -inf), ("<", inf)], docstring="a number")
    Positive = restricted_number_type("Positive", float, [(">", 0.0), ("<", inf)], docstring="a number above 0")
    NonNegative = restricted_number_type("NonNegative", float, [(">=", 0.0), ("<", inf)], docstring="0 or more")
    ImportPath = restricted_string_type("ImportPath", r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", docstring="MODULE:NAME")


def seconds(text: str, flag: str) -> float:
    """A time such as 90s, 10min or 2h in seconds.

    Args:
        flag: option that has the text, for the error.

    Raises:
        UsageError: the text is not a time.
    """
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h)", text.strip())
    if parts is None:
        raise UsageError(f"{flag} {text}", "give a number with s, min or h: 90s, 10min, 2h")
    return float(parts[1]) * _SECONDS[parts[2]]
