"""What a training leaves: its duration and counts, and the result of its run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingStats:
    """Duration and counts of a training.

    Attributes:
        seconds: duration of the whole training; the parts of an interrupted training add up.
        images_per_second: training images per second, without validation and saving.
        steps: number of optimizer steps.
        skipped_steps: number of steps without an update, because a loss or gradient was not finite.
        unreadable_images: number of training images that could not be read.
        is_first_process: whether this is the first of the processes that trained together.
    """

    seconds: float
    images_per_second: float
    steps: int
    skipped_steps: int = 0
    unreadable_images: int = 0
    is_first_process: bool = True
