"""Values given for a recipe, in layers: shipped recipes, recipe files above them, options above all"""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vit.commands.configs import find_config, shipped_configs
from vit.commands.parser import OF_SECTION, Parser
from vit.commands.recipe_options import FROM_RANDOM, SECTIONS, SHORT, kept_parser, to_recipe
from vit.errors import UsageError
from vit.layout import RunLayout
from vit.models.network_names import check_network
from vit.models.own_code import is_path, trust
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.pretrain_recipe import PretrainRecipe
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.values import plain

Tree = dict[str, object]  # sections, options and their values

FINETUNE, LORA = "finetune", "lora"  # shipped recipes that pretrained weights and LoRA bring
AUTO = "auto"  # as init_from: published weights where they fit and can be had
_LENGTHS = {"optim.time": "--time", "optim.epochs": "--epochs", "optim.steps": "--optim.steps"}  # and their flags
_OF_COMMANDS = ("resume", "dry_run")  # options of the parser that are not those of a recipe
_DEFAULT: Tree = {"model": {"network": {"name": "auto"}, "init_from": AUTO}}
_UNTRAINED: Tree = {"model": {"network": {"name": "auto"}, "init_from": None}}


@dataclass(frozen=True)
class Given:
    """What a user gives for a recipe.

    Attributes:
        configs: recipe files, and names of shipped recipes; a later one stands above an earlier one.
        options: values of options, which stand above all files.
        kind: class of the recipe: of a training, or of a pretraining.
    """

    configs: tuple[str, ...] = ()
    options: Tree = field(default_factory=dict)
    kind: type[Recipe] = Recipe

    def with_option(self, name: str, value: object) -> "Given":
        """The same with one more option, by its dotted name."""
        return replace(self, options=_merged(self.options, nested(name, value)))

    def without_data(self) -> "Given":
        """The same without DATA."""
        data = self.options.get("data")
        kept = {name: value for name, value in data.items() if name != "source"} if isinstance(data, dict) else {}
        return replace(self, options={**self.options, "data": kept})

    @property
    def run(self) -> Path | None:
        """The run folder that is given as DATA, which is to be trained further; None: DATA are images."""
        source = _value(self.options, "data.source")
        run = RunLayout(Path(str(source)).expanduser())
        return run.path if source is not None and run.is_run else None

    @property
    def has_length(self) -> bool:
        """Whether epochs, steps or a time are given."""
        return any(self.says(name) for name in _LENGTHS)

    def has_option(self, name: str) -> bool:
        """Whether an option, by its dotted name, is given beside the files."""
        return _has(self.options, name)

    def names(self) -> list[str]:
        """Dotted names of all options that are given beside the files."""
        return [
            f"{section}.{key}" for section, values in self.options.items() if isinstance(values, dict) for key in values
        ]

    def says(self, name: str) -> bool:
        """Whether an option, by its dotted name, is given beside the files or in one of them."""
        parser = kept_parser(self.kind)
        trees = [self.options, *(_read(parser, config) for config in self.configs)]
        return any(_has(tree, name) for tree in trees)

    def recipe(self) -> Recipe:
        """The recipe of these values above the shipped recipes for the data set, for pretrained weights and for LoRA.

        With pretrained weights the recipe for the data set gives its split alone: the rest is for random weights.
        Its init_from is "auto" where nothing says what to start from.
        """
        parser = kept_parser(self.kind)
        files = [_read(parser, config) for config in self.configs]
        if self.kind is PretrainRecipe:
            return to_recipe(parser, parser.parse_object(self._above(self._of_pretraining(files), files)))
        below = [_DEFAULT]
        given = self._above(below, files)
        for name in ("model.network.name", "optim.optimizer", "optim.loss"):
            if is_path(path := str(_value(given, name))):  # the user's own words; a run folder's do not come here
                trust(path)
        source = _value(given, "data.source") or DataConfig().source
        is_pretrained = _is_pretrained(given)
        if not self.configs and source in shipped_configs():
            shipped = _read(parser, _shipped(str(source), str(_value(given, "model.network.name") or "auto")))
            below.append({"data": shipped["data"]} if is_pretrained else shipped)
        given = self._above(below, files)
        if is_pretrained:
            below.append(_read(parser, FINETUNE))
        if _value(given, "model.lora") is not None:
            below.append(_read(parser, LORA))
        return to_recipe(parser, parser.parse_object(self._above(below, files)))

    def replaced_recipe(self) -> str:
        """A note where recipe files replace the recipe for the data set and are not whole themselves; else ""."""
        shipped = shipped_configs()
        if not self.configs or shipped.keys() & set(self.configs):
            return ""
        parser = kept_parser(self.kind)
        given = self._above([], [_read(parser, config) for config in self.configs])
        source = _value(given, "data.source") or DataConfig().source
        if source not in shipped or _has(given, "optim.optimizer"):
            return ""
        words = " ".join(f"--config {shlex.quote(config)}" for config in self.configs)
        return f"{words} takes the place of the recipe {source}; --config {source} {words} changes that recipe"

    def note_for_cpu(self) -> str:
        """A note where the recipe for the data set is for a GPU, and a shipped one is for a CPU; else ""."""
        given = self._above([_DEFAULT], [])
        source, shipped = str(_value(given, "data.source") or DataConfig().source), shipped_configs()
        if self.configs or source not in shipped or f"{source}_cpu" not in shipped or _is_pretrained(given):
            return ""
        name = _shipped(source, str(_value(given, "model.network.name")))
        for_cpu = name.replace(source, f"{source}_cpu")
        (time,) = re.findall("^# time: +(.+)$", shipped[for_cpu].read_text(encoding="utf-8"), re.MULTILINE)
        return f"the recipe {name} is for a GPU; --config {for_cpu} is for a CPU: {time}"

    def recipe_above(self, base: Recipe) -> Recipe:
        """The recipe of these values above another recipe."""
        parser = kept_parser(type(base))
        files = [_read(parser, config) for config in self.configs]
        recipe = to_recipe(parser, parser.parse_object(self._above([plain(base)], files)))
        if recipe.optim.time is not None and recipe.optim.time == base.optim.time:
            recipe.optim.steps = base.optim.steps  # of a run: as measured when it began
        return recipe

    def _of_pretraining(self, files: Sequence[Tree]) -> list[Tree]:
        """The layers below a pretraining: the network for its data set, and the recipe of its method."""
        parser, below = kept_parser(self.kind), [_UNTRAINED]
        given = self._above([_UNTRAINED, {"method": PretrainRecipe().method}], files)
        source = _value(given, "data.source") or DataConfig().source
        is_pretrained = _is_pretrained(given)
        if not self.configs and source in shipped_configs() and not is_pretrained:
            below.append({"model": _read(parser, str(source))["model"]})
        return [*below, _read(parser, f"pretrain_{given['method']}" + "_further" * is_pretrained)]

    def _above(self, below: Sequence[Tree], files: Sequence[Tree]) -> Tree:
        """All layers as one tree. The network of a file takes the place of the networks in the layers below.

        Another name in the options takes the place of the size of the network below, whose other options stay.
        A given augmentation takes the place of all augmentation in the layers below: "none" means none.
        Epochs, steps and a time are one choice: each takes the place of the others in the layers below.

        Raises:
            UsageError: the options give two lengths.
        """
        first, *others = [name for name in _LENGTHS if _value(self.options, name) is not None] or [""]
        if others:
            shown = f"{_LENGTHS[first]} {_value(self.options, first)}"
            raise UsageError(f"{shown} with --{others[0]}: both are lengths", "leave one out")
        whole: Tree = {}
        for layer in (*below, *files):
            if _has(layer, "model.network"):
                whole = _merged(whole, nested("model.network", None))
            whole = _merged(_without_replaced(whole, layer, any(layer is file for file in files)), layer)
        whole = _without_replaced(_without_size(whole, _value(self.options, "model.network.name")), self.options, True)
        return _merged(whole, self.options)


def first_values_of_pretraining(parser: Parser) -> Tree:
    """Values by dotted name that `vit pretrain` without options begins with, which its help shows."""
    found = parser.parse_path(str(find_config(f"pretrain_{PretrainRecipe().method}")), defaults=False)
    return dict(found.items())


def nested(name: str, value: object) -> Tree:
    """A tree of one value, by its dotted name or short flag: nested("epochs", 3) is {"optim": {"epochs": 3}}."""
    dotted = SHORT.get(f"--{name}", name).removeprefix("--")
    tree: object = os.fspath(value) if isinstance(value, os.PathLike) else value
    for part in reversed(dotted.split(".")):
        tree = {part: tree}
    assert isinstance(tree, dict)
    return tree


def _without_replaced(below: Tree, layer: Tree, is_given: bool) -> Tree:
    """A tree without what a layer above it replaces: its length, and where it is given, augmentation.

    A layer with epochs and another length is the config.yaml of a run, whose epochs decide nothing.
    """
    if is_given and _has(layer, "augment.name"):
        below = {**below, "augment": {}}
    if any(_value(layer, name) is not None for name in _LENGTHS):
        below = _merged(_merged(below, nested("optim.steps", None)), nested("optim.time", None))
    return below


def _is_pretrained(given: Tree) -> bool:
    """Whether init_from names weights."""
    return _value(given, "model.init_from") not in (None, AUTO, *FROM_RANDOM)


def _without_size(below: Tree, name: object) -> Tree:
    """A tree without the size of its network, where a network of another name takes its place.

    The size is what the catalog states for one of the two networks. Options that the other network lacks go, too.
    Options beside the name "auto" belong to no network, and stay.

    Args:
        name: the other network; None: there is none.

    Raises:
        UsageError: there is no network of one of the two names.
    """
    network = _value(below, "model.network")
    before = network.get("name", "auto") if isinstance(network, dict) else "auto"
    if not isinstance(network, dict) or name in (None, before) or before == "auto" or len(network) == 1:
        return below
    for one in {str(name), str(before)} - {"auto"}:
        check_network(one)  # a wrong name is an error before torch is imported

    from vit.models.catalog import entry

    other = entry("vit" if name == "auto" else str(name))
    size = {*other.options, *entry(str(before)).options}
    kept = {key: value for key, value in network.items() if key in other.kinds and key not in size}
    return _merged(_merged(below, nested("model.network", None)), nested("model.network", {**kept, "name": before}))


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


def _read(parser: Parser, config: str) -> Tree:
    """The values in a recipe file, where an empty section has none.

    Raises:
        UsageError: the file does not exist, or holds an unknown option or a wrong value; the text names the file.
    """
    path = find_config(config)
    try:
        tree: Tree = parser.parse_path(str(path), defaults=False).as_dict()
    except UsageError as error:
        raise UsageError(f"{path}: {error.problem}", error.fix) from error
    for name in _OF_COMMANDS:
        if name in tree:
            raise UsageError(f"{path} has {name!r}, which is not an option of a recipe", f"give --{name} instead")
    return _with_sections(tree, SECTIONS, path)


def _with_sections(tree: Tree, sections: Iterable[str], path: Path, beginning: str = "") -> Tree:
    """A tree without its empty sections; UsageError for a section that is a value."""
    result = dict(tree)
    for name in sections:
        section = result.get(name)
        if name not in result:
            continue
        if section is None:
            del result[name]
        elif not isinstance(section, dict):
            raise UsageError(f"{path}: {beginning}{name} is {section}", OF_SECTION)
        elif name == "model":
            result[name] = _with_sections(section, ("network", "preprocess"), path, "model.")
    return result


def _merged(below: Tree, above: Mapping[str, object]) -> Tree:
    """Two trees as one, where values of the second stand above those of the first."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = _merged(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return result


def _value(tree: Tree, name: str) -> object:
    """A value by its dotted name; None where the tree has none."""
    found: object = tree
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _has(tree: Tree, name: str) -> bool:
    section, _, key = name.rpartition(".")
    found = _value(tree, section) if section else tree
    return isinstance(found, dict) and key in found
