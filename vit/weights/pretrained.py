"""Pretrained weights with everything that is known of them, and the network that they fill"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.run import unfinished_text
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.pixels.preprocess import Preprocess
from vit.errors import CheckpointError, UsageError, first_line, some_of
from vit.models.catalog import CATALOG, Options
from vit.models.network import Network
from vit.models.spec import NetworkSpec
from vit.models.vision_transformer import VisionTransformer
from vit.models.vit_config import ViTConfig
from vit.weights.adapt import Classes, LoadReport, adapt, fill
from vit.weights.formats.weight_format import NOT_BELOW, ShownNetwork, UndecidedError, Weights, shown_network
from vit.weights.hubs import UNKNOWN, license_text
from vit.weights.preprocess_config import PreprocessValues

IMAGENET = 1000  # classes
_OF_VIT = ("vit", "vit export")  # formats of our own trainings
_WORDNET = re.compile(r"n\d{8}")  # a folder of ImageNet
PREPROCESSING = ("mean", "std", "crop_fraction", "interpolation")
_COMPUTED = ("num_heads", "activation", "norm_placement", "pos_embed")  # tensors of the same shapes fit all values


@dataclass(frozen=True)
class OwnNetwork:
    """The network that weights were made for."""

    name: str  # name in the catalog or in timm
    image_size: int  # side of its images, in pixels
    options: Options = field(default_factory=dict)  # values of its options


@dataclass(frozen=True)
class FilledNetwork:
    """A network with pretrained weights."""

    network: Network
    spec: NetworkSpec
    preprocess: Preprocess
    report: LoadReport


@dataclass(frozen=True)
class PretrainedWeights:
    """Weights to start from."""

    source: str  # file, folder or name, as the user gave it
    format: str  # weight format, for the terminal
    weights: Weights  # tensors in our names
    num_classes: int  # number of outputs of their classifier; 0: they have none
    class_names: tuple[str, ...] | None  # names of the classes; None: unknown
    preprocess: PreprocessValues  # values of `Preprocess` that are known
    preprocess_from: str  # who states them
    dropped: dict[str, str] = field(default_factory=dict)  # names that have no place in our networks, and the reason
    network: OwnNetwork | None = None  # the network that the weights are for; None: shapes and `options` show it
    options: Options = field(default_factory=dict)  # options of the network that shapes do not show
    image_size: int | None = None  # side of their images in pixels, as timm states it, where no positions show it
    undecided: tuple[str, ...] = ()  # options that nothing shows, and that published networks choose differently
    multilabel: LabelRules | None = None  # rules of several labels for an image; None: one class for an image
    temperature: float = 1.0  # divisor of the logits, fitted to the network that the weights are for
    validation_scores: ValidationScores | None = None  # what that network gave its validation images; None: unknown
    license: str = UNKNOWN  # license of the weights; "not stated" where it is unknown
    choice: str = ""  # which set of weights was taken of a file that holds several, in words; "": it holds one
    guessed: tuple[str, ...] = ()  # values of `preprocess`, "class_names" and "image_size", that nothing states
    unfinished: str = ""  # what the training of a checkpoint of ours lacks; "": it is finished, or is not ours
    made_of: str | None = None  # the runs whose weights are averaged here; None: the weights are of one training

    @property
    def outside(self) -> list[str]:
        """Names of weights beside the network in a file that are not of a copy of it, such as another classifier."""
        return [name for name, why in self.dropped.items() if why.startswith(NOT_BELOW) and name.endswith(".weight")]

    @property
    def warning(self) -> str:
        """What the weights lack for a command without classes: the end of their training, or values; "" for nothing."""
        sentences = [unfinished_text(self.unfinished)]
        if guesses := self.guesses({"class_names"}):
            sentences.append(f"{self.source} does not settle these values, so they are guesses: {guesses}")
        return "; ".join(filter(None, sentences))

    def guesses(self, given: Set[str] = frozenset(), options: Options | None = None) -> str:
        """What is guessed, in words, without what is `given` ("class_names", ...) and options; "" for nothing."""
        guesses: list[str] = []
        if self.network is None:
            with suppress(CheckpointError):
                shown = self._shown(options or {}).guesses
                guesses += [words for name, words in shown.items() if name not in given]
        texts = {"class_names": f"class names ({'of ImageNet' if self.class_names else 'numbers: no list fits'})"}
        guesses += [texts.get(name, name) for name in self.guessed if name not in given]
        return ", ".join(guesses)

    def guesses_of_training(self, network: Network, used: Preprocess) -> str:
        """`guesses` of a training from these weights, without what the user has replaced."""
        replaced = {name for name, value in self.preprocess.items() if getattr(used, name) != value}
        replaced |= {"class_names", "image_size"}
        if isinstance(network, VisionTransformer) and self.network is None:
            with suppress(CheckpointError):  # nothing is guessed where the user had to give it
                is_usual = self.own_network().options["num_heads"] == network.config.num_heads
                replaced |= set() if is_usual else {"num_heads", "activation", "pool"}
        return self.guesses(replaced)

    def with_preprocess(self, given: Mapping[str, object]) -> "PretrainedWeights":
        """The same weights with values of `Preprocess` that the user gives; UsageError: one is out of range."""
        for name, values in given.items():
            numbers = values if isinstance(values, tuple) else (values,)
            limits = {"mean": (0, 1), "std": (1e-6, 1), "crop_fraction": (1e-6, 1)}.get(name)
            if limits is not None and not all(limits[0] <= float(str(number)) <= limits[1] for number in numbers):
                raise UsageError(f"--{name} {_short(values)} is not between 0 and 1", "give fractions of 1")
        values = cast(PreprocessValues, {**self.preprocess, **given})
        source = f"{self.preprocess_from}, but for {' and '.join(given)}"
        guessed = tuple(name for name in self.guessed if name not in given)
        return replace(self, preprocess=values, preprocess_from=source, guessed=guessed)

    def facts(self, used: Preprocess | None = None) -> list[tuple[str, str]]:
        """Names and values for the terminal; `used` is the preprocessing of a training, with the user's values."""
        stated = {name: _short(value) for name, value in self.preprocess.items()}
        shown = stated if used is None else {name: _short(getattr(used, name)) for name in stated}
        changed = " and ".join(name for name in shown if shown[name] != stated[name])
        whose = f"{self.preprocess_from}, but for {changed}" if changed else self.preprocess_from
        values = ", ".join(f"{name} {value}" for name, value in shown.items())
        facts = [("names", self.format), ("preprocessing", f"{values} ({whose})")]
        facts += [("taken", self.choice)] if self.choice else []
        facts += [("unfinished", self.unfinished)] if self.unfinished else []
        zeros = [name for name, value in self.weights.items() if value.ndim > 1 and not value.any()]
        facts += [("zeros", f"all numbers of {some_of(zeros, 5)}: is the file whole?")] if zeros else []
        return facts + ([] if self.license == UNKNOWN else [("license", license_text(self.license))])

    def contradicted(self, options: Options) -> Options:
        """Options of a plain ViT that the source states otherwise, as it states them, though tensors fit both."""
        stated = self.options
        if self.network is not None:
            stated = {**{name: getattr(ViTConfig, name) for name in _COMPUTED}, **self.network.options}
        common = (name for name in _COMPUTED if name in options and name in stated)
        return {name: stated[name] for name in common if stated[name] != options[name]}

    def own_network(self, given: Options | None = None) -> OwnNetwork:
        """The network that these weights are for, with options that the user has `given`. CheckpointError: unknown."""
        given = given or {}
        if self.network is not None:
            return OwnNetwork(self.network.name, self.network.image_size, {**self.network.options, **given})
        shown = self._shown(given)
        stated = None if "pos_embed" in self.weights else self.image_size
        vits = {name: entry.options for name, entry in CATALOG.items() if entry.network is VisionTransformer}
        same = (name for name, options in vits.items() if name != "vit" and options.items() <= shown.options.items())
        return OwnNetwork(next(same, "vit"), stated or shown.image_size, shown.options)

    def _shown(self, given: Options) -> ShownNetwork:
        """The ViT that shapes, config and user show. CheckpointError: they do not show enough."""
        known = {**self.options, **given}
        if missing := [name for name in self.undecided if name not in known]:
            problem = f"{self.source}: names and shapes do not show its {' and '.join(missing)}"
            raise CheckpointError(problem, _deciding(missing))
        try:
            return shown_network(self.weights, known, given.keys() - self.options.keys())
        except UndecidedError as error:
            raise CheckpointError(f"{self.source}: {error}", _deciding([error.option])) from error
        except Exception as error:  # an untrusted file may hold tensors of any shape
            raise CheckpointError(f"{self.source}: {first_line(error)}", "give weights of a plain RGB ViT") from error

    def build(self, num_classes: int, image_size: int | None = None, given: Options | None = None) -> FilledNetwork:
        """The network that these weights are for, filled with them, for images of its own or another size.

        CheckpointError: they do not say enough, or do not fit. UsageError: the network has no such option or size.
        """
        own = self.own_network(given)
        preprocess = Preprocess(image_size or own.image_size, **self.preprocess)
        spec = replace(NetworkSpec.named(own.name, num_classes, own.options), in_chans=preprocess.channels)
        network = spec.build(preprocess.image_size)
        return FilledNetwork(network, spec, preprocess, self.fill(network))

    def fill(self, network: Network, class_names: Sequence[str] | None = None, keeps_rows: bool = False) -> LoadReport:
        """Fill a network but a head for other classes, which may keep rows of those that a training of ours names."""
        with self._fitting(network):
            return fill(network, self.weights, self.dropped, self._classes(class_names, keeps_rows))

    def _classes(self, new: Sequence[str] | None, keeps_rows: bool = False) -> Classes | None:
        """The names to compare; None where they cannot be: ImageNet's folders have numbers, and its classes names."""
        old = self.class_names
        if new is None or old is None or old == imagenet_classes(self.num_classes):
            return None
        is_of_folders = len(new) == IMAGENET and are_numbers(new) and not are_numbers(old)
        return None if is_of_folders else Classes(old, new, keeps_rows and self.format in _OF_VIT)

    def check_fit(
        self,
        network: Network,
        given: Options | None = None,
        class_names: Sequence[str] | None = None,
        keeps_rows: bool = False,
    ) -> LoadReport:
        """What `fill` would do with a network, which may be on the meta device.

        CheckpointError: as `fill`; or heads, activation, norms or positions differ, and are not `given` by the user.
        """
        with self._fitting(network):
            _, report = adapt(network, self.weights, classes=self._classes(class_names, keeps_rows))
            if isinstance(network, VisionTransformer):
                used = {name: getattr(network.config, name) for name in _COMPUTED if name not in (given or {})}
                for name, stated in self.contradicted(used).items():
                    raise ValueError(f"its {name} is {stated}, the network's {used[name]}")
        return report

    @contextmanager
    def _fitting(self, network: Network) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise CheckpointError(f"{self.source} does not fit the network: {error}", self._other(network)) from error

    def _other(self, network: Network) -> str:
        """What to do about a network that the weights do not fit: another network, or other weights."""
        try:
            own = self.own_network()
            spec = replace(NetworkSpec.named(own.name, network.num_classes, own.options), in_chans=network.in_chans)
            shapes = {name: value.shape for name, value in spec.build_empty(own.image_size).state_dict().items()}
        except (CheckpointError, UsageError):
            return "choose the --network and --image_size it was made for"
        if shapes == {name: value.shape for name, value in network.state_dict().items()}:
            return "choose other weights, because the network is already the one of these"
        return f"leave out --network, --model.network.* and --image_size, for {own.name} of {own.image_size} pixels"


def _deciding(options: Sequence[str]) -> str:
    """How to give options that nothing shows."""
    ours, short = (" ".join(f"--{prefix}{name}" for name in options) for prefix in ("model.network.", ""))
    return f"give {ours} ('vit convert': {short}), or rename the file as timm names the model"


def are_numbers(class_names: Sequence[str]) -> bool:
    """Whether all names are WordNet's numbers, as those of ImageNet's folders are."""
    return all(map(_WORDNET.fullmatch, class_names))


def imagenet_classes(num_classes: int) -> tuple[str, ...] | None:
    """The names of ImageNet's 1,000 classes in their usual order; None for another number of classes."""
    if num_classes != IMAGENET:
        return None
    from torchvision.models import ViT_B_16_Weights

    return tuple(ViT_B_16_Weights.IMAGENET1K_V1.meta["categories"])


def _short(value: Any) -> str:
    """A value of the preprocessing for the terminal; numbers with four digits."""
    if isinstance(value, tuple | list):
        return " ".join(map(_short, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
