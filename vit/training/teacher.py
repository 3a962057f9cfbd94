"""The teacher of a training: what its file says, checked before the first step"""

from dataclasses import dataclass, replace
from pathlib import Path

from vit.checkpoints.format import Description
from vit.checkpoints.load import read_described
from vit.checkpoints.run import checkpoint_of
from vit.data.core.samples import Samples, Source
from vit.data.pixels.gray_window import measured_window
from vit.data.pixels.preprocess import Preprocess, Window
from vit.errors import CheckpointError, DataError, UsageError, some_of
from vit.inference.engines.engine_names import ONNX, OPENVINO
from vit.inference.engines.onnx_engine import OnnxEngine
from vit.models.spec import Cost
from vit.training.recipes.recipe import DistillConfig, Recipe
from vit.weights.open import weights_hash

SOFT_WEIGHT = 0.9  # with temperature 4 as Tian et al. 2020 (arXiv 1910.10699) and Cho and Hariharan 2019 (1910.01348)
HARD_WEIGHT = 0.5  # Touvron et al. 2021 (arXiv 2012.12877), equation 3
REMEMBERED_BYTES = 2 * 2**30  # logits of more images are computed for each batch


@dataclass(frozen=True)
class Teacher:
    """A trained network as its file describes it."""

    path: Path  # run folder, checkpoint or exported file, as the recipe names it
    description: Description
    content_hash: str  # hash of the file

    @property
    def cost(self) -> Cost:
        return self.description.spec.cost(self.description.preprocess.image_size)

    @property
    def accuracy(self) -> float | None:
        """Accuracy on its own validation images, if the file has it."""
        return self.description.metrics.get("val/acc1")

    def class_order(self, class_names: tuple[str, ...]) -> list[int]:
        """The number that the teacher has for each of these classes. DataError where its classes are others."""
        own = self.description.class_names
        missing, further = set(class_names) - set(own), set(own) - set(class_names)
        if missing or further:
            words = (("it lacks", missing), ("it also has", further))
            parts = [f"{word} {some_of(map(repr, sorted(names)))}" for word, names in words if names]
            raise DataError(
                f"--teacher {self.path} has other classes than the training images: {'; '.join(parts)}",
                "give a teacher that was trained on these classes, in any order",
            )
        return [own.index(name) for name in class_names]

    def check_input(self, preprocess: Preprocess, train: Samples) -> None:
        """Raise UsageError unless pixels made for another network are those that the teacher was trained on.

        Training images of 8 bits have no window, whatever both networks would do with more.
        """
        own, channels = self.description.preprocess, preprocess.channels
        if own.channels != channels:
            raise UsageError(
                f"--teacher {self.path} sees {own.channels} of an image's channels, and this network {channels}",
                f"give --model.preprocess.channels {own.channels}, or another teacher",
            )
        is_same = _by_channel(own.window, channels) == _by_channel(preprocess.window, channels)
        if is_same or measured_window(train, channels) is None:
            return
        theirs, ours = (_values(window) for window in (own.window, preprocess.window))
        raise UsageError(
            f"--teacher {self.path} sees the values {theirs} of an image, and this network {ours}",
            f"give --model.preprocess.window '[{theirs}]'" if own.window else "give a teacher with a window",
        )


def find_teacher(config: DistillConfig, source: Source) -> Teacher | None:
    """The teacher that a recipe names; None where it names none.

    CheckpointError: the file is missing or damaged, or is not the one that the recipe's hash means.
    UsageError: the file is for OpenVINO, or the teacher or the images have several labels for an image.
    DataError: the teacher has other classes.
    """
    if config.teacher is None:
        return None
    path = Path(config.teacher).expanduser()
    source.check_one_class("--teacher")
    if path.suffix == OPENVINO:
        raise UsageError(f"--teacher {path} is a file for OpenVINO", "give the run, its checkpoint or an .onnx file")
    is_onnx = path.suffix == ONNX
    description = OnnxEngine(path).description if is_onnx else read_described(checkpoint_of(path))[0]
    teacher = Teacher(path, description, weights_hash(str(path)))
    if teacher.description.multilabel is not None:
        raise UsageError(
            f"--teacher {path} gives an image several labels, and {source.name} has one class for each",
            "give a teacher that was trained on one class for each image",
        )
    if config.teacher_hash not in (None, teacher.content_hash):
        raise CheckpointError(
            f"the teacher {path} is not the one of the run: its hash is {teacher.content_hash}, and the recipe has "
            f"{config.teacher_hash}",
            "restore the file, or start a new run (without distill.teacher_hash)",
        )
    teacher.class_order(source.class_names)
    return teacher


def with_teacher(recipe: Recipe, teacher: Teacher | None) -> Recipe:
    """The recipe with every choice about its teacher filled in, and with none where it has no teacher."""
    if teacher is None:
        return replace(recipe, distill=DistillConfig())
    weight = recipe.distill.weight or (SOFT_WEIGHT if recipe.distill.kind == "soft" else HARD_WEIGHT)
    path, content_hash = str(teacher.path.absolute()), teacher.content_hash
    return replace(recipe, distill=replace(recipe.distill, teacher=path, weight=weight, teacher_hash=content_hash))


def _by_channel(window: Window | None, channels: int) -> Window | None:
    return window * channels if window is not None and len(window) == 2 else window


def _values(window: Window | None) -> str:
    return "that files can have" if window is None else ", ".join(f"{value:.12g}" for value in window)
