"""Explanations of single images: importance maps by every method, and how faithful each map is"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vit.data.pixels.decode import read_image
from vit.errors import UsageError, nearest
from vit.explain.attention import attention_weights, patch_map
from vit.explain.faithfulness import Faithfulness, faithfulness, grid_size_for, mean_color
from vit.explain.methods import choose_methods, num_readable_blocks
from vit.inference.devices import full_float32
from vit.inference.engine import Engine
from vit.inference.predictor import Predictor
from vit.inference.scores.scored_labels import above
from vit.models.vision_transformer import VisionTransformer
from vit.tasks.label_text import SEPARATOR


@dataclass(frozen=True)
class Explanation:
    """The maps of one image, and their faithfulness."""

    path: str  # path of the image, as given
    label: str  # name of the most probable class; of a model that gives several labels, those of the image as "a|b"
    explained: str  # name of the class that the maps explain
    probability: float  # probability of the class `explained`
    image: Tensor  # input of the network before normalization (3, S, S) uint8
    maps: Mapping[str, Tensor]  # importance (h, w) by method, at least 0
    faithfulness: Mapping[str, Faithfulness]  # deletion and insertion by method, or empty if not measured
    heads: Tensor | None = None  # maps of single attention heads (layers, H, G, G), or None


class Explainer:
    """Explains images one by one, in float32.

    Args:
        methods: comma-separated names, "all" or "best" (see vit/explain/methods.py).
        label: name of the class or label to explain; None: the most probable one of each image.
        layers: comma-separated numbers of blocks, from 0, for maps of single heads; "all", or "" for none.
        with_faithfulness: whether to measure deletion and insertion, by about a hundred predictions for each image.

    Raises:
        UsageError: a method, class or block is unknown, or the network does not have attention heads.
    """

    def __init__(
        self,
        predictor: Predictor,
        methods: str = "all",
        label: str | None = None,
        layers: str = "",
        with_faithfulness: bool = True,
    ) -> None:
        self.predictor = predictor
        if not isinstance(predictor.engine, Engine):
            raise UsageError(
                "vit explain cannot read the layers of an ONNX file", "give the run or checkpoint of the export"
            )
        self.engine = _in_float32(predictor.engine)
        self.network = self.engine.network
        self.methods = choose_methods(methods, self.network)
        if label is not None and label not in predictor.class_names:
            raise UsageError(f"the model has no class {label!r}", nearest(label, predictor.class_names))
        self.number = None if label is None else predictor.class_names.index(label)
        self.layers = self._blocks(layers)
        self.with_faithfulness = with_faithfulness

    @full_float32()
    def explain(self, path: str) -> Explanation:
        """The explanation of one file. Raises ImageError if the file cannot be read."""
        engine, class_names = self.engine, self.predictor.class_names
        image = self.predictor.preprocess(read_image(path, self.predictor.preprocess.decoding))
        probabilities = engine.probabilities(image[None])[0]
        top = int(probabilities.argmax())
        number = top if self.number is None else self.number
        normalized = self.predictor.preprocess.normalize(image[None].to(engine.device))
        asked = torch.tensor([number], device=engine.device)
        maps = {name: method(self.network, normalized, asked)[0].cpu() for name, method in self.methods.items()}
        return Explanation(
            path,
            self._answer(probabilities, top),
            class_names[number],
            float(probabilities[number]),
            image,
            maps,
            self._faithfulness(image, maps, number) if self.with_faithfulness else {},
            self._heads(normalized) if self.layers else None,
        )

    def _answer(self, probabilities: Tensor, top: int) -> str:
        """The predicted class, or all labels above their thresholds."""
        rules, class_names = self.predictor.multilabel, self.predictor.class_names
        if rules is None:
            return class_names[top]
        (has_label,) = above(probabilities[None].numpy(), rules.thresholds)
        return SEPARATOR.join(name for name, has in zip(class_names, has_label, strict=True) if has)

    def _faithfulness(self, image: Tensor, maps: Mapping[str, Tensor], number: int) -> dict[str, Faithfulness]:
        patch_grid_size = self.network.config.grid_size if isinstance(self.network, VisionTransformer) else None
        grid_size = grid_size_for(self.network.image_size, patch_grid_size)

        def probability(images: Tensor) -> Tensor:
            return self.engine.probabilities(images)[:, number]

        return faithfulness(probability, image, mean_color(image), maps, grid_size)

    def _heads(self, normalized: Tensor) -> Tensor:
        weights = attention_weights(self.network, normalized)
        return torch.stack([patch_map(self.network, weights[layer])[0] for layer in self.layers]).cpu()

    def _blocks(self, layers: str) -> Sequence[int]:
        if not layers:
            return ()
        depth = num_readable_blocks(self.network)
        if not depth:
            raise UsageError("the attention heads of this network cannot be read", "leave --layers out")
        if layers == "all":
            return range(depth)
        numbers = [part.strip() for part in layers.split(",")]
        if not all(part.isdecimal() and int(part) < depth for part in numbers):
            raise UsageError(f"--layers is {layers!r}", f"give all, or numbers from 0 to {depth - 1} with commas")
        return [int(part) for part in numbers]


def _in_float32(engine: Engine) -> Engine:
    """The same model in float32, in which the maps are computed too."""
    if engine.precision == "32-true":
        return engine
    return Engine(engine.network, engine.preprocess, engine.device, "32-true", engine.temperature, engine.rules)
