"""A model of timm as plain values; does not import timm"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from vit.models.options import Options
from vit.weights.formats.weight_format import Config, Weights, below, by_prefix
from vit.weights.trainer_file import State, chosen


@dataclass(frozen=True)
class TimmWeights:
    """Tensors of a file in the names of a model of timm."""

    weights: Weights  # tensors by name
    num_classes: int  # outputs of their classifier; 0: they have none
    dropped: dict[str, str]  # names outside the model, each with the reason
    prefix: str  # prefix below which the model stands in the file


@dataclass(frozen=True)
class TimmModel:
    """A model of timm."""

    name: str  # without the tag of its weights
    config: Config  # timm's pretrained_cfg: input_size, mean, std, interpolation, crop_pct, num_classes
    options: Options | None  # options of our VisionTransformer; None: the model is not a plain ViT
    image_size: int  # side of its images, in pixels
    shapes: Mapping[str, torch.Size]  # shape of each tensor, by name

    def weights_of(self, weights: Weights, state: State | None = None) -> TimmWeights:
        """Tensors of a file in this model's names; `state` chooses where average and raw weights are there.

        ValueError: a tensor is missing, unexpected or of another shape, and is not the classifier's; or several
        networks could be meant.
        """
        heads = self.config.get("classifier") or ()
        heads = (heads,) if isinstance(heads, str) else tuple(heads)
        known = {prefix: len(names & self.shapes.keys()) for prefix, names in by_prefix(weights).items()}
        most = max(known.values(), default=0)
        places = {prefix: below(weights, prefix)[0] for prefix, count in known.items() if count == most > 0}
        prefix = chosen(places, state) if places else ""
        own, dropped = below(weights, prefix)
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
        return TimmWeights(own, len(rows[0]) if rows else 0, dropped, prefix)
