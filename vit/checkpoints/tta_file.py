"""The file beside a checkpoint with what was fitted for its test-time augmentation

`vit evaluate --tta` fits a temperature to validation images and writes this file. `vit predict --tta` reads it.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from vit.atomic_files import write_json
from vit.checkpoints.io import file_hash
from vit.checkpoints.validation_scores import ValidationScores
from vit.errors import CheckpointError, first_line
from vit.layout import tta_path
from vit.plain_files import read_json


@dataclass(frozen=True)
class FittedTta:
    """What belongs to a kind of test-time augmentation of a checkpoint.

    Attributes:
        temperature: number that divides the mean logits.
        scores: what the augmented network gave its validation images.
    """

    temperature: float
    scores: ValidationScores

    def write(self, checkpoint: Path, tta: str) -> None:
        """Write the file beside a checkpoint. OSError where the folder cannot be written."""
        content = {"checkpoint": file_hash(checkpoint), "temperature": self.temperature}
        write_json(tta_path(checkpoint, tta), {**content, "validation_scores": self.scores.to_plain()})

    @classmethod
    def read(cls, checkpoint: Path, tta: str, num_classes: int) -> "FittedTta | None":
        """What was fitted; None without a file, or with the file of an earlier content of the checkpoint.

        Raises:
            CheckpointError: the file is damaged.
        """
        path = tta_path(checkpoint, tta)
        if not path.is_file():
            return None
        try:
            plain = read_json(path)
            temperature = float(plain["temperature"])
            if not 0 < temperature < math.inf:
                raise ValueError(f"the temperature is {temperature}")
            fitted = cls(temperature, ValidationScores.from_plain(plain["validation_scores"], num_classes))
            is_current = plain["checkpoint"] == file_hash(checkpoint)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged: {first_line(error)}", "remove it: vit evaluate --tta") from error
        return fitted if is_current else None
