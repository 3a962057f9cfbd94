"""A trained model that predicts files: the Python interface of `vit predict`"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, cast

import torch
from torch import Tensor

from vit.checkpoints import load as checkpoint
from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.novelty import FEWEST_IMAGES, Novelty, is_unlike
from vit.checkpoints.run import check_finished, checkpoint_of
from vit.checkpoints.validation_scores import ValidationScores, fitted_text
from vit.data.core.image_bytes import ImageError, ImageReader
from vit.data.core.image_header import Frames
from vit.errors import UsageError, some_of
from vit.inference.answers.answers import AnswerRule
from vit.inference.deployment import LoadedModel, probabilities_of
from vit.inference.devices import choose_device
from vit.inference.engine import Engine, trained_engine
from vit.inference.engines.engine_names import ONNX, OPENVINO, EngineName, check_engine
from vit.inference.engines.exported_engines import ExportedEngine, OnnxEngine, OpenVinoEngine, convert, read
from vit.inference.files import ListedImages, list_images
from vit.inference.prediction import Image, Named, Prediction, is_one, named, read_input, rows_of
from vit.inference.scores.scored_images import above
from vit.options import read_value
from vit.ranges import PositiveInt
from vit.tasks.task import task_with

Input = tuple[str, Tensor | ImageError]  # name, and the input of a network or the reason for a failure

BATCH_SIZE = 64


class Predictor:
    """A network with its class names and preprocessing, from a checkpoint or an exported file alone.

    Attributes:
        preprocess: how images become the network's input.
        network: the network in evaluation mode; None where another library than torch computes.
        multilabel: rules of the labels, if the model gives an image several; None: one class for an image.
        task: whether an image has one class, or any number of labels.
        validation_scores: what the network gave its validation images; None where the file has no such numbers.
        fitted_on: images that temperature, thresholds and novelty are fitted to, in words.
        novelty: what recognizes images unlike the training images; None where the file or the engine has none.
        license: license of the weights that the training started from; None: random weights, or not stated.
        is_exported: whether the model is a file of `vit export`, not a checkpoint.
        lacks: what the training lacks, such as "7 of 60 epochs, no temperature"; "" where it is finished.
        members: several models, whose probabilities are averaged; [] for one model.
        first_frames: files read so far that have several frames or pages, of which the first was read.
    """

    def __init__(
        self,
        engine: Engine | ExportedEngine,
        class_names: tuple[str, ...],
        validation_scores: ValidationScores | None,
        novelty: Novelty | None = None,
        license: str | None = None,
        is_exported: bool = False,
        lacks: str = "",
    ) -> None:
        self.engine, self.class_names, self.license = engine, class_names, license
        self.preprocess, self.multilabel, self.task = engine.preprocess, engine.rules, task_with(engine.rules)
        self.network = engine.network if isinstance(engine, Engine) else None
        self.validation_scores = validation_scores
        self.fitted_on = fitted_text(None if validation_scores is None else validation_scores.split)
        has_features = novelty is not None and isinstance(engine, Engine) and engine.keep_features()
        self.novelty = novelty if has_features else None
        self.is_exported, self.lacks, self.members = is_exported, lacks, list[Predictor]()
        self.first_frames, self._rule = Frames(), AnswerRule()

    @property
    def can_tell_unlike(self) -> bool:
        """Whether enough validation images say how far images like them are from the training images."""
        return self.novelty is not None and len(self.novelty.validation) >= FEWEST_IMAGES

    def __repr__(self) -> str:
        names, side, engine = self.class_names, self.preprocess.image_size, self.engine
        lacks = f"; not finished: {self.lacks}" * bool(self.lacks)
        where = f"{side} x {side} pixels, {engine.device.type}, {engine.precision}, {engine.name}"
        return f"<Predictor of {len(names):,} classes ({some_of(names)}), {where}{lacks}>"

    @property
    def rule(self) -> AnswerRule:
        """Which images get a label, and which set of classes. `answer_rule` makes one.

        UsageError where a rule is set for a model that gives an image several labels.
        """
        return self._rule

    @rule.setter
    def rule(self, rule: AnswerRule) -> None:
        if self.multilabel is not None and (rule.sets is not None or rule.reject_below > 0):
            raise UsageError(
                "a rule chooses between classes that exclude each other, and the model gives an image several labels",
                "use the labels of each prediction, which are above their thresholds",
            )
        self._rule = rule

    def predict(
        self, images: Image | Iterable[Image], top_k: int = 5, recursive: bool = False, batch_size: int = BATCH_SIZE
    ) -> Iterator[Prediction]:
        """One Prediction for each image, in order, as they come. An image that is given twice has two.

        Args:
            images: files, folders or patterns, PIL images, uint8 arrays (H, W) or (H, W, 3), uint8 tensors (3, H, W),
                or batches of these. A folder or a pattern stands for its files, in order. An image without a file is
                called by its place in the list: "image 0", "image 1", ... An animated or multi-page PIL image gives
                the frame that it shows.
            top_k: number of classes in `top`; of several labels, every label of the image is there too.
        """
        top_k, batch_size = _counts(top_k, batch_size)
        inputs = cast(Iterable[Image], [images] if is_one(images) else images)
        paths, rows = list[str | os.PathLike[str]](), list[Named | None]()  # None: the next of the paths
        for index, item in enumerate(inputs):
            if isinstance(item, str | os.PathLike):
                paths.append(item)
                rows.append(None)
            else:
                rows.append(named(item, index, [one.preprocess for one in self.members or (self,)]))
        listed = list_images(paths, recursive, keep_repeats=True) if paths or not rows else ListedImages([])
        files, counts = iter(listed.paths), iter(listed.counts)
        items: list[Named] = []
        for row in rows:
            items += [row] if row is not None else [(path, path) for path in islice(files, next(counts))]
        return self._predict(items, top_k, batch_size, listed.reader)

    def predict_files(
        self, paths: Sequence[str], top_k: int = 5, batch_size: int = BATCH_SIZE, reader: ImageReader | None = None
    ) -> Iterator[Prediction]:
        """The predictions for a list of files, or for images of shards, which `reader` reads."""
        top_k, batch_size = _counts(top_k, batch_size)
        return self._predict([(path, path) for path in paths], top_k, batch_size, reader)

    def predict_inputs(self, inputs: Sequence[Input], top_k: int) -> list[Prediction]:
        """The predictions for inputs that `read_input` made, each with its name."""
        return list(rows_of(self.engine, inputs, BATCH_SIZE, None, lambda part: self._predict_batch(part, top_k)))

    def _predict(
        self, named: Sequence[Named], top_k: int, batch_size: int, reader: ImageReader | None = None
    ) -> Iterator[Prediction]:
        """A Prediction for each (name, image)."""

        def read(item: Named) -> Input:
            return item[0], read_input(item[1], self.preprocess, item[0], reader, self.first_frames)

        return rows_of(self.engine, named, batch_size, read, lambda part: self._predict_batch(part, top_k))

    def _predict_batch(self, part: Sequence[Input], top_k: int) -> Iterator[Prediction]:
        """The predictions for inputs. An accelerator begins at once, and the first prediction waits for it."""
        read = [(path, image) for path, image in part if isinstance(image, Tensor)]
        answers: Iterator[Prediction] = iter(())
        if read:
            inputs, features = torch.stack([image for _, image in read]), None
            if not isinstance(engine := self.engine, Engine):
                probabilities = engine.probabilities(inputs)
            else:
                if self.novelty is None:
                    logits = engine.logits(inputs)
                else:
                    logits, features = engine.logits_and_features(inputs)
                probabilities = probabilities_of(logits, engine.temperature, engine.rules)
            answers = self._answers([path for path, _ in read], inputs, probabilities, features, top_k)
        return (
            Prediction(path, image.kind, error=image.reason) if isinstance(image, ImageError) else next(answers)
            for path, image in part
        )

    def _answers(
        self, paths: Sequence[str], inputs: Tensor, probabilities: Tensor, features: Tensor | None, top_k: int
    ) -> Iterator[Prediction]:
        """The predictions for inputs (B, 3, S, S), probabilities (B, C) and features (B, D)."""
        probabilities, novelty = probabilities.cpu(), list[float | None]([None] * len(paths))
        if self.novelty is not None and features is not None:
            novelty = self.novelty.of_features(features.cpu()).tolist()
        if self.multilabel is not None:
            yield from self._several(paths, probabilities, novelty, top_k, self.multilabel)
            return
        values, indices = probabilities.topk(min(top_k, len(self.class_names)), dim=1)
        sets = self.rule.members(probabilities.numpy(), inputs.numpy())
        groups = self.rule.groups(probabilities.numpy())
        for path, numbers, top_values, members, novel, group in zip(
            paths, indices.tolist(), values.tolist(), sets, novelty, groups, strict=True
        ):
            top = tuple((self.class_names[c], p) for c, p in zip(numbers, top_values, strict=True))
            yield self._answer(path, top, group, tuple(self.class_names[c] for c in members), novel)

    def _answer(
        self,
        path: str,
        top: tuple[tuple[str, float], ...],
        group: str,
        labels: tuple[str, ...] = (),
        novelty: float | None = None,
    ) -> Prediction:
        """The prediction by the rule, for the most probable classes, the surest group and a prediction set."""
        (label, probability), engine = top[0], self.engine.name
        if reason := self._reason_of_novelty(novelty):
            return Prediction(path, "novel", "", probability, top, reason, engine, labels, novelty)
        if probability < self.rule.reject_below:
            reason = self.rule.reason(label)
            return Prediction(path, "unsure", "", probability, top, reason, engine, labels, novelty, group)
        answer = label if self.rule.levels else ""
        return Prediction(path, "ok", label, probability, top, "", engine, labels, novelty, answer)

    def _reason_of_novelty(self, novelty: float | None) -> str:
        """Why an image of this novelty gets no label; "" if it gets one."""
        least = self.rule.reject_novelty
        if least is None or novelty is None or not is_unlike(novelty, least):
            return ""
        return f"it is less like the training images than {least:.0%} of {self.fitted_on}"

    def _several(
        self, paths: Sequence[str], outputs: Tensor, novelty: Sequence[float | None], top_k: int, rules: LabelRules
    ) -> Iterator[Prediction]:
        """The predictions of a model that gives several labels, for probabilities (B, K) and novelties (B,).

        `top` has every label of an image, because a program looks for their probabilities there.
        """
        has_label = above(outputs.numpy(), rules.thresholds)
        order = outputs.argsort(dim=1, descending=True, stable=True).tolist()
        engine = self.engine.name
        for path, values, numbers, flags, novel in zip(paths, outputs.tolist(), order, has_label, novelty, strict=True):
            reason = self._reason_of_novelty(novel)
            label_numbers = [] if reason else [k for k in numbers if flags[k]]
            ranked = [k for place, k in enumerate(numbers) if place < top_k or k in label_numbers]
            top = tuple((self.class_names[k], values[k]) for k in ranked)
            labels = tuple(self.class_names[k] for k in label_numbers)
            yield Prediction(path, "novel" if reason else "ok", "", None, top, reason, engine, labels, novel)


def load(
    path: str | os.PathLike[str],
    device: str = "auto",
    precision: str = "auto",
    engine: EngineName = "auto",
    unfinished: bool = False,
) -> Predictor:
    """The model of a run folder, a checkpoint or an exported file.

    Args:
        path: a run folder (its best checkpoint), a checkpoint, or an .onnx or .xml file of `vit export`.
        device: "cpu", "cuda", "mps", or "auto" for the first accelerator. Exported files and OpenVINO run on the CPU.
        precision: "32-true", "bf16-mixed", or "auto" for that of the training, where the hardware has it. ONNX files
            run at "32-true".
        engine: what computes a checkpoint: "torch", which is also "auto", or "openvino". An export has its own engine.
        unfinished: whether to load a model whose training is not finished, as it is.

    CheckpointError: there is no checkpoint, or it cannot be used. UsageError: there is no such device, the engine is
    not installed, or the model does not support the device, the precision or the engine.
    """
    path = Path(read_value(str, path, "path"))
    check_engine(engine, path, device)
    computing: Engine | ExportedEngine
    novelty, is_exported = None, path.suffix in (ONNX, OPENVINO)
    if is_exported:
        if path.suffix == ONNX and precision not in ("auto", "32-true"):
            problem = f"--precision {precision}, but an ONNX file is computed with 32-true"
            raise UsageError(problem, "leave --precision out")
        computing = OnnxEngine(path) if path.suffix == ONNX else OpenVinoEngine(read(path), precision, path)
        about = computing.description
        lacks = check_finished(path, unfinished, about.unfinished)
    else:
        read_value(EngineName, engine, "engine")
        read_value(Literal["auto", "32-true", "bf16-mixed"], precision, "precision")
        file = checkpoint_of(path)
        network, about, novelty = checkpoint.load_with_novelty(file)
        if precision == "auto" and about.precision == "32-true":
            precision = "32-true"
        trained, lacks = LoadedModel(network, about), check_finished(path, unfinished, about.unfinished)
        if engine == "openvino":
            computing = OpenVinoEngine(convert(trained, "--engine openvino"), precision, file)
        else:
            computing = trained_engine(trained, choose_device(device), precision)
    scores = about.validation_scores
    return Predictor(computing, about.class_names, scores, novelty, about.license, is_exported, lacks)


def _counts(top_k: int, batch_size: int) -> tuple[int, int]:
    return read_value(PositiveInt, top_k, "top_k"), read_value(PositiveInt, batch_size, "batch_size")
