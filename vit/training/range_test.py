"""The result of a learning-rate range test, and its file in a run folder; imports neither torch nor Lightning"""

from dataclasses import asdict, dataclass
from pathlib import Path

from vit.atomic_files import write_json
from vit.errors import DataError
from vit.plain_files import read_json


@dataclass(frozen=True)
class RangeTest:
    """The result of a range test.

    Attributes:
        rates: learning rate of each step.
        losses: smoothed loss of each step.
        suggestion: a tenth of the learning rate with the lowest loss.
        kept: learning rate of the training.
    """

    rates: list[float]
    losses: list[float]
    suggestion: float
    kept: float

    def write(self, path: Path) -> None:
        """Write the test whole or not at all."""
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "RangeTest":
        """The test that `write` wrote; DataError where the file is damaged."""
        try:
            return cls(**read_json(path))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path} is damaged: {error}", "remove it") from error
