"""A trained model that says why: maps of an image by every method, and how faithful each one is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vit.data.decode import read_image
from vit.errors import UsageError, nearest
from vit.explain.attention import attention_weights, read_patches
from vit.explain.faithfulness import Faithfulness, cells_of, faithfulness, mean_color
from vit.explain.methods import choose_methods
from vit.inference.engine import Engine
from vit.inference.predictor import Predictor
from vit.models.vision_transformer import VisionTransformer


@dataclass(frozen=True)
class Explanation:
    """What is known of one image.

    Attributes:
        path: as it was given.
        label: the most probable class.
        explained: the class that the maps explain.
        probability: of `explained`.
        image: (3, S, S) uint8, what the network saw.
        maps: importance (h, w) by method, not below 0.
        faithfulness: by method; empty where it was not asked for.
        heads: attention of single heads (layers, H, G, G), what the head of the network gets of each patch; or None.
    """

    path: str
    label: str
    explained: str
    probability: float
    image: Tensor
    maps: Mapping[str, Tensor]
    faithfulness: Mapping[str, Faithfulness]
    heads: Tensor | None = None


class Explainer:
    """Explains images one by one; maps are computed in float32.

    Args:
        predictor: what `vit.load` gives.
        methods: comma separated names, "all" or "best" (see vit/explain/methods.py).
        label: the class to explain; None: the most probable one of each image.
        layers: blocks whose heads are shown one by one, counted from 0; "all", or "" for none.
        measured: whether deletion and insertion are measured, which costs a hundred predictions for each image.

    Raises:
        UsageError: there is no such method, class or block, or the network has no attention to show.
    """

    def __init__(
        self,
        predictor: Predictor,
        methods: str = "all",
        label: str | None = None,
        layers: str = "",
        measured: bool = True,
    ) -> None:
        self.predictor = predictor
        if not isinstance(predictor.engine, Engine):
            raise UsageError("an ONNX file cannot be looked into", "give the run or checkpoint that it was made from")
        self.network = predictor.engine.network
        self.methods = choose_methods(methods, self.network)
        if label is not None and label not in predictor.class_names:
            raise UsageError(f"the model has no class {label!r}", nearest(label, predictor.class_names))
        self.number = None if label is None else predictor.class_names.index(label)
        self.layers = self._blocks(layers)
        self.measured = measured

    def explain(self, path: str) -> Explanation:
        """Everything about one file; ImageError if it cannot be read."""
        engine, class_names = self.predictor.engine, self.predictor.class_names
        image = self.predictor.preprocess(read_image(path))
        probabilities = engine.probabilities(image[None])[0]
        top = int(probabilities.argmax())
        number = top if self.number is None else self.number
        normalized = self.predictor.preprocess.normalize(image[None].to(engine.device))
        asked = torch.tensor([number], device=engine.device)
        maps = {name: method(self.network, normalized, asked)[0].cpu() for name, method in self.methods.items()}
        return Explanation(
            path,
            class_names[top],
            class_names[number],
            float(probabilities[number]),
            image,
            maps,
            self._faithfulness(image, maps, number) if self.measured else {},
            self._heads(normalized) if self.layers else None,
        )

    def _faithfulness(self, image: Tensor, maps: Mapping[str, Tensor], number: int) -> dict[str, Faithfulness]:
        grid = self.network.config.grid_size if isinstance(self.network, VisionTransformer) else None
        cells = cells_of(self.network.image_size, grid)
        return faithfulness(self.predictor.engine.probabilities, image, mean_color(image), maps, cells, number)

    def _heads(self, normalized: Tensor) -> Tensor:
        assert isinstance(self.network, VisionTransformer)
        weights = attention_weights(self.network, normalized)
        return torch.stack([read_patches(self.network, weights[place])[0] for place in self.layers]).cpu()

    def _blocks(self, layers: str) -> Sequence[int]:
        if not layers:
            return ()
        if not isinstance(self.network, VisionTransformer):
            raise UsageError(
                f"a {type(self.network).__name__} has no attention heads that could be shown", "leave --layers out"
            )
        depth = len(self.network.blocks)
        if layers == "all":
            return range(depth)
        numbers = [part.strip() for part in layers.split(",")]
        if not all(part.isdecimal() and int(part) < depth for part in numbers):
            raise UsageError(f"--layers is {layers!r}", f"give all, or numbers from 0 to {depth - 1} with commas")
        return [int(part) for part in numbers]
