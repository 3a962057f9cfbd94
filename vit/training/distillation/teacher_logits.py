"""The teacher's logits for the images of a batch: the same crop, mirror image and mixture that the network sees

Beyer et al. 2022 (arXiv 2106.05237) find that this consistency is what makes distillation work.
"""

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from vit.data.core.batch import Batch
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.loader import EVALUATION_BATCH_SIZE, batch_loader
from vit.data.loading.sampler import EvaluationSampler
from vit.data.pixels.preprocess import Preprocess
from vit.inference.engine import Engine
from vit.inference.engines.engine_names import ONNX
from vit.inference.predictor import load
from vit.training.distillation.teacher import Teacher


class TeacherLogits:
    """A teacher that sees the input of another network, and answers in the order of that network's classes.

    The input is brought back to pixels from 0 to 255, resized to the teacher's image size, and normalized by the
    teacher's mean and std. The teacher is an `Engine` of predictions, so that it is in evaluation mode, without
    gradients, and no part of a module: neither checkpoints nor optimizers see it.

    Args:
        preprocess: preprocessing of the other network.
        class_names: classes of the other network.
        device: device of the training; an exported file is computed on the CPU.
        precision: precision of the training.

    Attributes:
        remembered: {path: row of the remembered logits} of images that look the same in every epoch.
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
        self.order = teacher.class_order(class_names)
        self.device = device
        self.remembered: dict[str, int] = {}
        self._values = torch.zeros(0, len(class_names))

    def of(self, batch: Batch) -> Tensor:
        """Logits (B, C) float32 of an augmented and normalized batch, but for a constant for each image."""
        rows = [self.remembered.get(path, -1) for path in batch.path]
        if min(rows) >= 0:
            return self._values[rows].to(self.device)
        return self.of_pixels(self.pixels(batch.image))

    def pixels(self, images: Tensor) -> Tensor:
        """The normalized input of the other network (B, 3, S, S) -> its pixels (B, 3, S, S) uint8."""
        mean = torch.tensor(self.preprocess.mean, device=images.device)[:, None, None]
        std = torch.tensor(self.preprocess.std, device=images.device)[:, None, None]
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
        return logits[:, self.order].to(self.device).clone()  # autograd refuses tensors of inference mode

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
