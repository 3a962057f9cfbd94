"""Entries of the catalog for the models of timm, by timm's own names"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import timm

from vit.models.entry import Entry
from vit.models.network import NetworkConfig
from vit.models.timm_network import TimmNetwork


@dataclass(frozen=True)
class TimmEntry(Entry):
    """A model of timm.

    Attributes:
        model: name in timm.
    """

    model: str = ""

    def config(self, image_size: int, num_classes: int, in_chans: int, options: Mapping[str, Any]) -> NetworkConfig:
        return super().config(image_size, num_classes, in_chans, {"model": self.model, **options})


def names(pattern: str) -> list[str]:
    """Names of timm's models that match a shell pattern."""
    found: list[str] = timm.list_models(pattern)
    return found


def entry(name: str) -> TimmEntry | None:
    """The entry of timm's model of that name; None if timm has no such model."""
    if not timm.is_model(name):
        return None
    size = timm.models.get_pretrained_cfg_value(name, "input_size") or (3, 224, 224)
    return TimmEntry(TimmNetwork, size[-1], about="timm", model=name)
