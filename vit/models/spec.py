"""The typed description of a network: name, number of classes and options

Imports neither torch nor timm until a network is built, so that results are read without them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vit.errors import UsageError, explained
from vit.models.catalog import Options, Value, entry
from vit.options import read_value
from vit.own_code import is_path, running
from vit.ranges import ChannelCount, PositiveInt

if TYPE_CHECKING:
    from vit.models.network import Network, NetworkConfig


def plain_options(values: Mapping[str, object]) -> dict[str, Value]:
    """The same options with tuples in place of lists, which JSON and YAML have; ValueError: a value is not plain."""
    options: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value, list | tuple) and all(type(number) is int for number in value):
            options[name] = tuple(value)
        elif isinstance(value, bool | int | float | str):
            options[name] = value
        else:
            raise ValueError(f"option {name} of the network is {value!r}")
    return options


@dataclass(frozen=True)
class Cost:
    """What a network costs."""

    parameters: int  # number of parameters
    flops: int  # floating-point operations of one image's forward pass; a multiply-add counts as two


@dataclass(frozen=True)
class NetworkSpec:
    """A network without its weights. The size of its images is in `Preprocess` alone."""

    name: str  # name in the catalog or in timm
    num_classes: int  # number of classes, C
    options: Options = field(default_factory=dict)  # those that the catalog or the user sets: patch_size, depth, ...
    in_chans: int = 3  # number of channels of its images, as in `Preprocess`

    @classmethod
    def named(cls, name: str, num_classes: int, options: Mapping[str, object] | None = None) -> "NetworkSpec":
        """A network of the catalog or of timm, some options changed; UsageError: one is unknown or of another type."""
        known = entry(name)
        return cls(name, num_classes, {**known.options, **known.checked(name, options or {})})

    @classmethod
    def from_plain(cls, plain: Mapping[str, object], num_classes: int, in_chans: int = 3) -> "NetworkSpec":
        """The network that `to_plain` wrote; KeyError, ValueError for others. Building it shows whether it is known."""
        name = plain["name"]
        if not isinstance(name, str):
            raise ValueError(f"the name of the network is {name!r}")
        options = plain_options({key: value for key, value in plain.items() if key != "name"})
        return cls(name, num_classes, options, in_chans)

    def to_plain(self) -> dict[str, Value]:
        """{"name": ..., option: value, ...}: the form of YAML, JSON and checkpoints."""
        return {"name": self.name, **self.options}

    @property
    def default_image_size(self) -> int:
        """Side of the images that the catalog or timm makes this network for, in pixels."""
        return entry(self.name).image_size

    def config(self, image_size: int) -> "NetworkConfig":
        """All values that the network is built from; UsageError: it is unknown, or its options do not fit together."""
        known = entry(self.name)
        options = known.checked(self.name, self.options)
        with self._fitting():
            return known.config(image_size, self.num_classes, self.in_chans, options)

    def all_options(self, image_size: int) -> dict[str, Value]:
        """The values of all options, also of those that are left out; UsageError as `config`."""
        config = self.config(image_size)
        return {name: getattr(config, name) for name in entry(self.name).kinds}

    def build(self, image_size: int) -> "Network":
        """The network with random weights, for images (B, in_chans, image_size, image_size); UsageError as `config`."""
        config = self.config(image_size)
        with self._fitting():
            return entry(self.name).network(config)

    def build_empty(self, image_size: int) -> "Network":
        """The network as shapes alone, on the meta device: it takes no memory, whatever its size."""
        import torch

        from vit.models.network import Undrawn

        with torch.device("meta"), Undrawn():
            return self.build(image_size)

    def cost(self, image_size: int) -> Cost:
        return count(self.build_empty(image_size))

    def _fitting(self) -> AbstractContextManager[None]:
        fix = "change model.network or --image_size"
        if is_path(self.name):
            return running(self.name, "--network", f"correct the code, or {fix}")
        return explained(UsageError, self.name, fix, (ValueError, AssertionError))


def count(network: "Network") -> Cost:
    """The cost of a network on the meta device."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    side, was_training = network.image_size, network.training
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    network.eval().requires_grad_(False)  # the counter refuses views of trained parameters that have no gradient
    with FlopCounterMode(display=False) as counter:
        network(torch.empty(1, network.in_chans, side, side, device="meta"))
    network.train(was_training)
    for parameter in trained:
        parameter.requires_grad_(True)
    return Cost(sum(parameter.numel() for parameter in network.parameters()), counter.get_total_flops())


def create_network(
    name: str, num_classes: int, image_size: int | None = None, in_chans: int = 3, **options: Value
) -> "Network":
    """A network with random weights by its name in the catalog or in timm, or by its import path.

    Examples:
        >>> import torch
        >>> create_network("vit_small_patch16_224", num_classes=10)(torch.zeros(1, 3, 224, 224)).shape
        torch.Size([1, 10])
    """
    name, classes = read_value(str, name, "name"), read_value(PositiveInt, num_classes, "num_classes")
    channels: int = read_value(ChannelCount, in_chans, "in_chans")
    spec = replace(NetworkSpec.named(name, classes, options), in_chans=channels)
    return spec.build(image_size or spec.default_image_size)


def describe(names: Iterable[str], notice: Callable[[str], None]) -> Iterator[tuple[str, int, Cost, str]]:
    """(name, image size, cost with 1,000 classes, about) of each network; skips what timm cannot build.

    A network of the user's that fails is a notice.
    """
    for name in names:
        try:
            spec = NetworkSpec.named(name, 1000)
            cost = spec.cost(spec.default_image_size)
        except Exception as error:  # noqa: BLE001  networks fail in many ways on the meta device; one must not end a list
            if is_path(name):
                notice(f"WARNING: {error.problem if isinstance(error, UsageError) else f'{name} fails: {error!r}'}")
            continue
        yield name, spec.default_image_size, cost, entry(name).about
