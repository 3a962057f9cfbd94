"""The options of a recipe in layers: shipped recipes, recipe files above them, the user's options above all

A layer has values by dotted name: {"optim.epochs": 3, "model.network": {"name": "vit_tiny_cifar"}}.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from vit.commands.cli.recipe_options import AUTO, FROM_RANDOM, make_parser, read_config, shipped_configs, to_recipe
from vit.errors import UsageError
from vit.layout import RunLayout
from vit.models.catalog import check_network, entry
from vit.own_code import is_path, trust
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.pretrain_recipe import PretrainRecipe
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.values import plain

Layer = dict[str, Any]

FINETUNE, LORA = "finetune", "lora"  # shipped recipes that pretrained weights and LoRA bring
LENGTHS = {"optim.time": "--time", "optim.epochs": "--epochs", "optim.steps": "--optim.steps"}  # and their flags
_OWN_CODE = ("augment.own", "optim.optimizer", "optim.loss", "optim.metric")  # options that may hold import paths
_UNTRAINED: Layer = {"model.network": {"name": "auto"}, "model.init_from": None}


@dataclass(frozen=True)
class RecipeLayers:
    """What a user gives for a recipe."""

    configs: tuple[str, ...] = ()  # recipe files, and names of shipped recipes; a later one stands above an earlier one
    options: Layer = field(default_factory=dict)  # values of options by dotted name, which stand above all files
    kind: type[Recipe] = Recipe  # class of the recipe: of a training, or of a pretraining

    def with_option(self, name: str, value: object) -> "RecipeLayers":
        """The same with one more option, by its dotted name or its short flag."""
        return replace(self, options=_merged(self.options, make_parser(self.kind).read_values({name: value})))

    @property
    def run(self) -> Path | None:
        """The run folder that is given as DATA, which is to be trained further; None: DATA are images."""
        source = self.options.get("data.source")
        run = RunLayout(Path(str(source)).expanduser())
        return run.path if source is not None and run.is_run else None

    def says(self, name: str) -> bool:
        """Whether an option, by its dotted name, is given beside the files or in one of them."""
        return name in self.options or any(name in layer for layer in self.files)

    def recipe(self) -> Recipe:
        """The recipe of these values above the shipped recipes for the data set, for pretrained weights and for LoRA.

        With pretrained weights the recipe for the data set gives its split alone: the rest is for random weights.
        Its init_from is "auto" where nothing says what to start from.
        """
        for layer in (*self.files, self.options):  # the user's own words; a run folder's do not come here
            for name in ((layer.get("model.network") or {}).get("name"), *map(layer.get, _OWN_CODE)):
                if is_path(path := str(name)):
                    trust(path)
        if self.kind is PretrainRecipe:
            return self._pretraining()
        below = [{**_UNTRAINED, "model.init_from": AUTO}]
        layers = self._above(below)
        source, is_pretrained = _source(layers), _is_pretrained(layers)
        if not self.configs and source in shipped_configs():
            shipped = self._read(_shipped(source, _network(layers)))
            below.append(_section("data", shipped) if is_pretrained else shipped)
        if is_pretrained:
            below.append(self._read(FINETUNE))
        if layers.get("model.lora") is not None:
            below.append(self._read(LORA))
        return to_recipe(self.kind, self._above(below))

    def replaced_recipe(self) -> str:
        """A note where recipe files replace the recipe for the data set and are not whole themselves; else ""."""
        shipped = shipped_configs()
        if not self.configs or shipped.keys() & set(self.configs):
            return ""
        layers = self._above([])
        source = _source(layers)
        if source not in shipped or "optim.optimizer" in layers:
            return ""
        words = " ".join(f"--config {shlex.quote(config)}" for config in self.configs)
        return f"{words} takes the place of the recipe {source}; --config {source} {words} changes that recipe"

    def note_for_cpu(self) -> str:
        """A note where the recipe for the data set is for a GPU, and a shipped one is for a CPU; else ""."""
        layers = self._above([_UNTRAINED])
        source, shipped = _source(layers), shipped_configs()
        if self.configs or source not in shipped or f"{source}_cpu" not in shipped or _is_pretrained(layers):
            return ""
        name = _shipped(source, _network(layers))
        for_cpu = name.replace(source, f"{source}_cpu")
        (time,) = re.findall("^# time: +(.+)$", shipped[for_cpu].read_text(encoding="utf-8"), re.MULTILINE)
        return f"the recipe {name} is for a GPU; --config {for_cpu} is for a CPU: {time}"

    def recipe_above(self, base: Recipe) -> Recipe:
        """The recipe of these values above another recipe."""
        layer = make_parser(type(base)).read_tree(plain(base))
        recipe = to_recipe(type(base), self._above([layer]))
        if recipe.optim.time is not None and recipe.optim.time == base.optim.time:
            recipe.optim.steps = base.optim.steps  # of a run: as measured when it began
        return recipe

    def _pretraining(self) -> Recipe:
        """The recipe of a pretraining: above the network for its data set, and above the recipe of its method."""
        below = [_UNTRAINED]
        layers = self._above([{**_UNTRAINED, "method": PretrainRecipe().method}])
        source, is_pretrained = _source(layers), _is_pretrained(layers)
        if not self.configs and source in shipped_configs() and not is_pretrained:
            below.append(_section("model", self._read(source)))
        below.append(self._read(f"pretrain_{layers['method']}" + "_further" * is_pretrained))
        return to_recipe(self.kind, self._above(below))

    def _above(self, below: Sequence[Layer]) -> Layer:
        """All layers as one: those below, the files, and the options.

        The network of a file takes the place of the networks below it. Another name in the options takes the place of
        the size of the network alone. A given augmentation takes the place of all augmentation below: "none" means
        none. Epochs, steps and a time are one choice: each takes the place of the others, and options give one at most.
        """
        first, *others = [name for name in LENGTHS if self.options.get(name) is not None] or [""]
        if others:
            shown = f"{LENGTHS[first]} {self.options[first]}"
            raise UsageError(f"{shown} with {LENGTHS[others[0]]}: both are lengths", "leave one out")
        whole: Layer = {}
        for number, layer in enumerate([*below, *self.files]):
            if "model.network" in layer:
                whole = {name: value for name, value in whole.items() if name != "model.network"}
            whole = _merged(_without_replaced(whole, layer, number >= len(below)), layer)
        name = (self.options.get("model.network") or {}).get("name")
        return _merged(_without_replaced(_without_size(whole, name), self.options, True), self.options)

    @cached_property
    def files(self) -> list[Layer]:
        """The values of the recipe files, a later one above an earlier one."""
        return [self._read(config) for config in self.configs]

    def _read(self, config: str) -> Layer:
        return read_config(config, make_parser(self.kind))


def _section(section: str, layer: Layer) -> Layer:
    return {name: value for name, value in layer.items() if name.startswith(f"{section}.")}


def _source(layer: Layer) -> str:
    return str(layer.get("data.source") or DataConfig().source)


def _network(layer: Layer) -> str:
    return str(layer["model.network"].get("name", "auto"))


def _without_replaced(below: Layer, layer: Layer, is_given: bool) -> Layer:
    """A layer without what another layer above it replaces: its length, and where that is given, augmentation."""
    if is_given and "augment.name" in layer:
        below = {name: value for name, value in below.items() if not name.startswith("augment.")}
    if any(layer.get(name) is not None for name in LENGTHS):
        below = {**below, "optim.steps": None, "optim.time": None}
    return below


def _is_pretrained(layer: Layer) -> bool:
    return layer.get("model.init_from") not in (None, AUTO, *FROM_RANDOM)


def _without_size(below: Layer, name: object) -> Layer:
    """A layer without the size of its network, which the catalog states, and without options that network `name` lacks.

    None: the name stays. Options beside the name "auto" belong to no network, and stay.
    """
    network = below.get("model.network") or {}
    before = network.get("name", "auto")
    if name in (None, before) or before == "auto" or len(network) <= 1:
        return below
    for network_name in {str(name), str(before)} - {"auto"}:
        check_network(network_name)  # a wrong name is an error before torch is imported

    replacement = entry("vit" if name == "auto" else str(name))
    size = {*replacement.options, *entry(str(before)).options}
    shared = {key: value for key, value in network.items() if key in replacement.kinds and key not in size}
    return {**below, "model.network": {**shared, "name": before}}


def _shipped(source: str, network: str) -> str:
    """The name of a data set's shipped recipe: SOURCE, or SOURCE_cnn for a network that Muon cannot train."""
    cnn = f"{source}_cnn"
    if network == "auto" or cnn not in shipped_configs():
        return source
    check_network(network)  # a wrong name is an error before torch is imported

    from vit.models.spec import NetworkSpec
    from vit.training.optim import matrices_of_blocks

    spec = NetworkSpec.named(network, num_classes=10)
    empty = spec.build_empty(spec.default_image_size)
    return source if matrices_of_blocks(empty.named_parameters()) else cnn


def _merged(below: Layer, above: Mapping[str, Any]) -> Layer:
    """Two layers as one, where values of the second stand above those of the first, also in mappings."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        result[name] = {**under, **value} if isinstance(under, dict) and isinstance(value, dict) else value
    return result
