"""One line of the catalog: a network, the size of its images, and its options"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vit.models.network import Network, NetworkConfig
from vit.models.options import Options

_DECIDED = ("image_size", "num_classes", "in_chans", "model")  # by the images, the classes and the name


@dataclass(frozen=True)
class Entry:
    """One line of the catalog.

    Attributes:
        network: class of the network.
        image_size: side of the images that the network is made for, in pixels.
        options: options that differ from the defaults of the network's config.
        about: one line for `vit models`.
    """

    network: type[Network]
    image_size: int
    options: Options = field(default_factory=dict)
    about: str = ""

    @property
    def kinds(self) -> dict[str, object]:
        """Type of every option that may be set."""
        hints = typing.get_type_hints(self.network.config_class)
        return {name: kind for name, kind in hints.items() if name not in _DECIDED}

    def config(self, image_size: int, num_classes: int, in_chans: int, options: Mapping[str, Any]) -> NetworkConfig:
        """The values that the network is built from; ValueError where they do not fit together."""
        return self.network.config_class(image_size=image_size, num_classes=num_classes, in_chans=in_chans, **options)
