"""A model of timm as plain values; does not import timm"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from vit.models.options import Options
from vit.weights.formats.weight_format import Config, Weights

_WRAPPERS = ("", "module.", "_orig_mod.", "model.", "timm_model.", "backbone.", "visual.trunk.")


@dataclass(frozen=True)
class TimmModel:
    """A model of timm.

    Attributes:
        name: without the tag of its weights.
        config: timm's pretrained_cfg: input_size, mean, std, interpolation, crop_pct, num_classes.
        options: options of our VisionTransformer; None: the model is not a plain ViT.
        image_size: side of its images, in pixels.
        shapes: shape of each tensor, by name.
    """

    name: str
    config: Config
    options: Options | None
    image_size: int
    shapes: Mapping[str, torch.Size]

    def weights_of(self, weights: Weights) -> tuple[Weights, int]:
        """(tensors of a file in this model's names, outputs of their classifier; 0: they have none).

        Raises:
            ValueError: a tensor is missing, unexpected or of another shape, and is not the classifier's.
        """
        heads = self.config.get("classifier") or ()
        heads = (heads,) if isinstance(heads, str) else tuple(heads)
        outer = max(_WRAPPERS, key=lambda w: sum(f"{w}{name}" in weights for name in self.shapes))
        own = {name.removeprefix(outer): value for name, value in weights.items() if name.startswith(outer)}
        counters = (name for name in self.shapes if name.endswith(".num_batches_tracked"))
        own = {name: torch.tensor(0) for name in counters} | own  # old files lack them: 0, as in BatchNorm2d
        body = {
            name: shape for name, shape in self.shapes.items() if not name.startswith(tuple(f"{h}." for h in heads))
        }
        rest = {name: value for name, value in own.items() if not name.startswith(tuple(f"{h}." for h in heads))}
        wrong = [f"{name} is missing" for name in body.keys() - rest.keys()]
        wrong += [f"{name} is unexpected" for name in rest.keys() - body.keys()]
        wrong += [
            f"{name} is {tuple(rest[name].shape)}, not {tuple(shape)}"
            for name, shape in body.items()
            if name in rest and rest[name].shape != shape
        ]
        if wrong:
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise ValueError("; ".join(sorted(wrong)[:3]) + more)
        rows = [own[f"{head}.weight"] for head in heads if f"{head}.weight" in own]
        return own, len(rows[0]) if rows else 0
