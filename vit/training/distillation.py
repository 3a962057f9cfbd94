"""Distillation: the teacher, checked before the first step, its logits, and the loss of a network that it teaches

The teacher sees the same crop, mirror image and mixture as the network. Beyer et al. 2022 (arXiv 2106.05237) find that
this consistency is what makes distillation work.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from vit.checkpoints.format import Description
from vit.checkpoints.load import read_described
from vit.checkpoints.run import checkpoint_of
from vit.data.core.batch import Batch
from vit.data.core.samples import Samples, Source
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.loader import EVALUATION_BATCH_SIZE, batch_loader
from vit.data.loading.sampler import EvaluationSampler
from vit.data.pixels.images import measured_window
from vit.data.pixels.preprocess import Preprocess, Window, to_device
from vit.errors import CheckpointError, DataError, UsageError, some_of
from vit.inference.engine import Engine
from vit.inference.engines.engine_names import ONNX, OPENVINO
from vit.inference.engines.exported_engines import OnnxEngine
from vit.inference.predictor import load
from vit.models.heads import token_logits
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer
from vit.training.recipes.recipe import DistillConfig
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

    def class_order(self, class_names: tuple[str, ...]) -> list[int]:
        """The number that the teacher has for each of these classes. DataError where its classes are others."""
        its_names = self.description.class_names
        missing, further = set(class_names) - set(its_names), set(its_names) - set(class_names)
        if missing or further:
            words = (("it lacks", missing), ("it also has", further))
            parts = [f"{word} {some_of(map(repr, sorted(names)))}" for word, names in words if names]
            problem = f"--teacher {self.path} has other classes than the training images: {'; '.join(parts)}"
            raise DataError(problem, "give a teacher that was trained on these classes, in any order")
        return [its_names.index(name) for name in class_names]

    def check_input(self, preprocess: Preprocess, train: Samples) -> None:
        """Raise UsageError unless pixels made for another network are those that the teacher was trained on.

        Training images of 8 bits have no window, whatever both networks would do with more.
        """
        own, channels = self.description.preprocess, preprocess.channels
        if own.channels != channels:
            problem = f"--teacher {self.path} sees {own.channels} of an image's channels, and this network {channels}"
            raise UsageError(problem, f"give --model.preprocess.channels {own.channels}, or another teacher")
        by_channel = [
            window * channels if window is not None and len(window) == 2 else window
            for window in (own.window, preprocess.window)
        ]
        if by_channel[0] == by_channel[1] or measured_window(train, channels) is None:
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
        problem = f"--teacher {path} gives an image several labels, and {source.name} has one class for each"
        raise UsageError(problem, "give a teacher that was trained on one class for each image")
    if config.teacher_hash not in (None, teacher.content_hash):
        raise CheckpointError(
            f"the teacher {path} is not the one of the run: its hash is {teacher.content_hash}, and the recipe has "
            f"{config.teacher_hash}",
            "restore the file, or start a new run (without distill.teacher_hash)",
        )
    teacher.class_order(source.class_names)
    return teacher


def with_teacher(config: DistillConfig, teacher: Teacher | None) -> DistillConfig:
    """The options with every choice about the teacher filled in, and the defaults where there is none."""
    if teacher is None:
        return DistillConfig()
    weight = config.weight or (SOFT_WEIGHT if config.kind == "soft" else HARD_WEIGHT)
    path, content_hash = str(teacher.path.absolute()), teacher.content_hash
    return replace(config, teacher=path, weight=weight, teacher_hash=content_hash)


def _values(window: Window | None) -> str:
    return "that files can have" if window is None else ", ".join(f"{value:.12g}" for value in window)


class TeacherLogits:
    """A teacher that sees the input of another network, and answers in the order of that network's classes.

    The input is brought back to pixels from 0 to 255, resized to the teacher's image size, and normalized by the
    teacher's mean and std. The teacher is an `Engine` of predictions, so that it is in evaluation mode, without
    gradients, and no part of a module: neither checkpoints nor optimizers see it. The CPU computes an exported file.
    """

    def __init__(
        self,
        teacher: Teacher,
        preprocess: Preprocess,
        class_names: tuple[str, ...],
        device: torch.device,
        precision: str,
    ) -> None:
        if teacher.path.suffix == ONNX:
            self.engine = load(teacher.path, unfinished=True).engine
        else:
            self.engine = load(teacher.path, str(device), precision, "torch", unfinished=True).engine
        self.preprocess = preprocess
        self.order = torch.tensor(teacher.class_order(class_names), device=device)
        self.device = device
        self.remembered: dict[str, int] = {}
        self._values = torch.zeros(0, len(class_names))

    def of(self, batch: Batch) -> Tensor:
        """Logits (B, C) float32 of an augmented and normalized batch, but for a constant for each image."""
        rows = [self.remembered.get(path, -1) for path in batch.path]
        if min(rows) >= 0:
            return to_device(self._values[rows], self.device)
        return self.of_pixels(self.pixels(batch.image))

    def pixels(self, images: Tensor) -> Tensor:
        """The normalized input of the other network (B, 3, S, S) -> its pixels (B, 3, S, S) uint8."""
        mean, std = to_device(torch.tensor([self.preprocess.mean, self.preprocess.std]), images.device)[..., None, None]
        return ((images * std + mean) * 255).round_().clamp_(0, 255).to(torch.uint8)

    @torch.no_grad()
    def of_pixels(self, pixels: Tensor) -> Tensor:
        """Pixels (B, 3, S, S) uint8 -> logits (B, C) float32, but for a constant for each image."""
        own = self.engine.preprocess
        if own.image_size != pixels.shape[-1]:
            size, interpolation = [own.image_size, own.image_size], InterpolationMode(own.interpolation)
            pixels = TF.resize(pixels, size, interpolation=interpolation, antialias=True)
        if isinstance(self.engine, Engine):
            logits = self.engine.logits(pixels)
        else:  # probabilities p = softmax(v / t): t log p is v but for a constant, which no softmax sees
            probabilities = self.engine.probabilities(pixels.cpu())
            logits = probabilities.clamp_min(torch.finfo(torch.float32).tiny).log() * self.engine.temperature
        return logits.to(self.device).index_select(1, self.order).clone()  # autograd refuses tensors of inference mode

    def remember(self, dataset: ImageDataset, num_workers: int | None) -> None:
        """Compute all images of a dataset now, in its order, and look their logits up from then on.

        The batches do not depend on the training, so that a resumed training has the same logits bit for bit.
        """
        sampler = EvaluationSampler(len(dataset), EVALUATION_BATCH_SIZE)
        paths: list[str] = []
        values: list[Tensor] = []
        for batch in batch_loader(dataset, sampler, num_workers, keep_workers=False):
            paths += batch.path
            values.append(self.of_pixels(batch.image.to(self.device)).cpu())
        self._values = torch.cat(values)
        self.remembered = {path: row for row, path in enumerate(paths)}


@dataclass(frozen=True)
class TeachingLoss:
    """The loss of a batch against its teacher, and its share in the whole loss.

    soft: T^2 KL(softmax(v / T) || softmax(z / T)) for the teacher's logits v and the network's logits z (Hinton et al.
    2015, arXiv 1503.02531, section 2; Touvron et al. 2021, arXiv 2012.12877, equation 2). The gradient of the KL
    divergence falls with 1 / T^2. The factor T^2 keeps the shares of teacher and labels at any temperature.
    hard: cross-entropy of the teacher's most probable class, without label smoothing (Touvron et al. 2021, equation 3
    and section 4).
    """

    kind: Literal["soft", "hard"]  # what the teacher gives
    temperature: float  # T, with soft
    weight: float  # fraction of the teacher in the whole loss

    def of(self, logits: Tensor, teacher_logits: Tensor) -> Tensor:
        """The mean loss of logits (B, C) against the teacher's (B, C), which may lack a constant for each image."""
        if self.kind == "hard":
            return F.cross_entropy(logits, teacher_logits.argmax(dim=1))
        ours = (logits / self.temperature).log_softmax(dim=1)
        wanted = (teacher_logits / self.temperature).log_softmax(dim=1)
        return F.kl_div(ours, wanted, reduction="batchmean", log_target=True) * self.temperature**2

    def whole(self, label_loss: Tensor, teacher_loss: Tensor) -> Tensor:
        return torch.lerp(label_loss, teacher_loss, self.weight)


class Distillation:
    """Labels and a teacher together. It is not a module: no checkpoint, optimizer or average has the teacher's weights.

    A network with a distillation token learns the labels with the head of its class token, and the teacher with the
    head of the distillation token (Touvron et al. 2021, section 4). Its prediction is the mean of both. Any other
    network learns both with its one head.
    """

    def __init__(self, teacher: TeacherLogits, loss: TeachingLoss) -> None:
        self.teacher, self.loss = teacher, loss

    def __deepcopy__(self, memo: object) -> Self:
        """The same object: the averaged weights are a copy of the whole classifier, and need no second teacher."""
        return self

    def of(self, network: Network, batch: Batch, label_loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        if isinstance(network, VisionTransformer) and network.head_dist is not None:  # of a distillation token
            labeled, taught = (logits.float() for logits in token_logits(network, batch.image))
        else:
            labeled = taught = network(batch.image).float()
        return self.loss.whole(label_loss(labeled, batch.label), self.loss.of(taught, self.teacher.of(batch)))
