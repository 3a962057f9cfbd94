"""Ranges of numbers in a recipe: a number outside is refused when it is parsed"""

from math import inf
from typing import TYPE_CHECKING

from jsonargparse.typing import restricted_number_type

if TYPE_CHECKING:
    Share = float
    Area = float
    Magnitude = int
    Seed = int
    Finite = float
    Positive = float
    NonNegative = float
else:
    Share = restricted_number_type("Share", float, [(">=", 0.0), ("<", 1.0)], docstring="a number from 0 to below 1")
    Area = restricted_number_type("Area", float, [(">", 0.0), ("<=", 1.0)], docstring="a number above 0, up to 1")
    Magnitude = restricted_number_type("Magnitude", int, [(">=", 0), ("<=", 30)], docstring="a whole number to 30")
    Seed = restricted_number_type("Seed", int, [(">=", 0), ("<", 2**32)], docstring="a whole number of 32 bits")
    Finite = restricted_number_type("Finite", float, [(">", -inf), ("<", inf)], docstring="a number")
    Positive = restricted_number_type("Positive", float, [(">", 0.0), ("<", inf)], docstring="a number above 0")
    NonNegative = restricted_number_type("NonNegative", float, [(">=", 0.0), ("<", inf)], docstring="0 or more")
