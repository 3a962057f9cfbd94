"""Values with intervals: what the last step to more images has brought, and the errors that are expected with more"""

from dataclasses import dataclass

ALPHA = 0.05  # of every test; intervals cover 1 - ALPHA


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval; an end that the data do not bound is None."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Gain:
    """What the step between the two largest sizes of a series has brought, on the same seeds and test images.

    Attributes:
        fall: part of the errors that the larger size no longer makes; below 0 where it makes more. Its interval covers
            other seeds and other test images.
        points: error of the smaller size minus error of the larger.
        p: p value of the test that the errors do not change, or 1 with one seed.
    """

    from_images: int
    to_images: int
    fall: Interval
    points: Interval
    p: float


@dataclass(frozen=True)
class Expected:
    """The error that a series is expected to have with a number of images, with both ends of its 95 % interval."""

    series: str
    num_images: int
    error: float
    low: float
    high: float

    @property
    def interval(self) -> Interval:
        """The error with its interval."""
        return Interval(self.error, self.low, self.high)


@dataclass(frozen=True)
class Backtest:
    """What the forecast would have said of a measured size, had only the sizes up to `known_to` been measured."""

    series: str
    known_to: int
    num_images: int
    error: float
    low: float
    high: float
    measured: float


@dataclass(frozen=True)
class Forecast:
    """The curve of a series beyond its largest size, up to 4 times.

    Attributes:
        largest: largest measured size.
        why: reason where no number can be given, else empty. The lists are empty then.
        sizes: numbers of images from the largest measured to 4 times as many, evenly spaced in the logarithm.
        mean: expected error at each of `sizes`.
        low: lower end of the 95 % band at each of `sizes`.
        high: upper end of the 95 % band at each of `sizes`.
        expected: at 1.5, 2, 3 and 4 times the largest size.
        backtest: for sizes that were measured.
        for_target: numbers of images between which the target accuracy is reached; the second is None above 4 times
            the largest size. None without such numbers.
        refusal: what is known of the target instead.
    """

    largest: int
    why: str
    sizes: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    expected: list[Expected]
    backtest: list[Backtest]
    for_target: tuple[int, int | None] | None
    refusal: str

    @property
    def at_twice(self) -> Expected | None:
        """With twice the largest size."""
        return self.expected[1] if self.expected else None
