"""Everything that decides a training, as plain values. A recipe file is this tree in YAML; a run keeps it resolved.

This module imports nothing heavy, so that a wrong option is refused in a fraction of a second.
"""

import json
import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import yaml
from jsonargparse.typing import ClosedUnitInterval, NonNegativeInt, PositiveInt, restricted_number_type

from vit.errors import UsageError

if TYPE_CHECKING:
    Share = float
    Area = float
    Magnitude = int
    Seed = int
    Finite = float
    Positive = float
    NonNegative = float
else:
    Share = restricted_number_type("Share", float, [(">=", 0.0), ("<", 1.0)], docstring="a number from 0 to below 1")
    Area = restricted_number_type("Area", float, [(">", 0.0), ("<=", 1.0)], docstring="a number above 0, up to 1")
    Magnitude = restricted_number_type("Magnitude", int, [(">=", 0), ("<=", 30)], docstring="a whole number to 30")
    Seed = restricted_number_type("Seed", int, [(">=", 0), ("<", 2**32)], docstring="a whole number of 32 bits")
    Finite = restricted_number_type("Finite", float, [(">", -inf), ("<", inf)], docstring="a number")
    Positive = restricted_number_type("Positive", float, [(">", 0.0), ("<", inf)], docstring="a number above 0")
    NonNegative = restricted_number_type("NonNegative", float, [(">=", 0.0), ("<", inf)], docstring="0 or more")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
NetworkValue = bool | int | float | str | list[int]


@dataclass
class DataConfig:
    """Where images come from.

    Args:
        source: DATA: a folder, a CSV file, "digits", or the name of a torchvision data set.
        root: the folder that holds torchvision's data sets.
        download: whether torchvision may fetch a data set that is not there.
        validation: share of the images that become validation images where DATA has none.
        test: share of the images that become test images where DATA has none.
        split_seed: decides which; the same for all runs that are to be compared.
        train_images: training images used, smaller choices inside larger ones; null: all.
        subset: their classes: balanced, as many images of each as there are; natural, with the shares of all training
            images; auto: natural where the rarest class has less than half the images of the commonest, else balanced.
        subset_seed: decides which images; null: the seed of the training.
        allow_empty: whether a class folder may be empty.
        cache: "memory" keeps decoded images, "none" reads files every epoch, "auto" keeps up to 2 GiB; the network sees
            the same pixels.
        num_workers: processes that decode images; null: by the number of cores.
    """

    source: str = "digits"
    root: str | None = None
    download: bool = False
    validation: Share = 0.1
    test: Share = 0.2
    split_seed: Seed = 0
    train_images: PositiveInt | None = None
    subset: Literal["auto", "balanced", "natural"] = "auto"
    subset_seed: Seed | None = None
    allow_empty: bool = False
    cache: Literal["auto", "memory", "none"] = "auto"
    num_workers: NonNegativeInt | None = None


@dataclass
class PreprocessConfig:
    """How an image becomes the network's input; null: as the weights to start from, else the value in brackets.

    Args:
        image_size: side of the network's input in pixels; null: what the network is made for.
        crop_fraction: share of the resized shorter side that the middle square keeps (1).
        mean: mean of red, green and blue, as shares of 1 (ImageNet's).
        std: their standard deviation (ImageNet's).
        interpolation: how images are resized (bicubic).
        resize_mode: what is resized before the cut: shortest, the shorter side; squash, both sides (shortest).
    """

    image_size: PositiveInt | None = None
    crop_fraction: Area | None = None
    mean: tuple[Finite, Finite, Finite] | None = None
    std: tuple[Positive, Positive, Positive] | None = None
    interpolation: Literal["bilinear", "bicubic"] | None = None
    resize_mode: Literal["shortest", "squash"] | None = None


@dataclass
class ModelConfig:
    """The network and its input.

    Args:
        network: "name" from `vit models`, and any value of that network: pos_embed, pool, depth, drop_path_rate, ...
            The name "auto" takes the network of the weights to start from, else a ViT by the size of the images.
        preprocess: how an image becomes the network's input.
        init_from: weights to start from: a run, a checkpoint, a file or folder of timm's, torchvision's, Hugging
            Face's, JAX', DINO's, MAE's or CLIP's weights, timm:NAME, torchvision:NAME or hf:ORG/NAME; null: random.
            Weights bring the recipe `finetune` with them: a small learning rate that falls block by block, few epochs.
        freeze: "backbone" fits the last layer alone, to features that are computed once (a linear probe); it needs
            init_from, and of optim it uses nothing.
        lora: rank of LoRA (8 to 32 are usual): linear layers (of a ViT qkv, proj, fc1, fc2 of every block) stay as they
            are and learn a correction of this rank, the head is trained as a whole; it needs init_from and the extra
            `lora`, and brings the recipe `lora` with it; null: none.
    """

    network: dict[str, NetworkValue] = field(default_factory=lambda: {"name": "auto"})
    preprocess: PreprocessConfig = field(default_factory=PreprocessConfig)
    init_from: str | None = None
    freeze: Literal["none", "backbone"] = "none"
    lora: PositiveInt | None = None


@dataclass
class AugmentConfig:
    """How training images are varied; null takes the value that `name` stands for.

    Args:
        name: none; light: shift or crop, and flip; standard: and RandAugment; strong: and mixup, cutmix, erasing.
        crop: smallest share of the area that a random crop keeps.
        shift: largest shift, as a share of the side.
        rotate: largest rotation in degrees.
        zoom: largest change of size, as a share of it.
        flip: probability of a mirror image.
        randaugment: operations per image.
        magnitude: their strength, 0 to 30.
        mixup: alpha of mixup.
        cutmix: alpha of cutmix.
        erasing: probability that a box is erased.
    """

    name: Literal["none", "light", "standard", "strong"] = "light"
    crop: Area | None = None
    shift: Share | None = None
    rotate: NonNegative | None = None
    zoom: Share | None = None
    flip: ClosedUnitInterval | None = None
    randaugment: NonNegativeInt | None = None
    magnitude: Magnitude | None = None
    mixup: NonNegative | None = None
    cutmix: NonNegative | None = None
    erasing: ClosedUnitInterval | None = None

    @property
    def mixes(self) -> bool:
        """Whether images are mixed in pairs, as `Augment.mixes` will say; known without torch."""
        return any(self.name == "strong" if alpha is None else alpha > 0 for alpha in (self.mixup, self.cutmix))


@dataclass
class OptimConfig:
    """How weights are found.

    Args:
        optimizer: adamw; sgd (with Nesterov momentum); muon (matrices of a transformer's blocks; adamw for the rest).
        lr: learning rate after the warm-up.
        epochs: passes over the training images.
        steps: length in optimizer steps, instead of epochs, with five to ten validations; null: by epochs.
        batch_size: images of one optimizer step, over all processes; null: 128, or 64 with init_from;
            less for small sets. With mixup or cutmix each process computes an even number of them.
        accumulate: parts that a batch is computed in, one after another, to save memory; the steps are the same, but
            batch norm takes its statistics from each part alone.
        warmup: share of the training's steps that is a linear warm-up of the learning rate; at most 10,000 steps.
        min_lr: where the cosine ends, as a share of lr.
        weight_decay: decay of matrices; norms, biases, positions and the class token have none.
        momentum: of sgd.
        label_smoothing: share of a label that is spread over all classes.
        clip_norm: largest norm of the gradient; 0: not clipped.
        layer_decay: learning rate of each block as a share of the next one's (fine-tuning); 1: the same for all.
        ema_decay: decay of the averaged weights that are evaluated and saved, lower where training is shorter than
            five times their memory; 0: no averaging.
        on_nan: a loss or gradient that is no number: stop; or skip that step, up to ten in a row (waits for the device
            at every step).
    """

    optimizer: Literal["adamw", "sgd", "muon"] = "adamw"
    lr: Positive = 1e-3
    epochs: PositiveInt = 50
    steps: PositiveInt | None = None
    batch_size: PositiveInt | None = None
    accumulate: PositiveInt = 1
    warmup: Share = 0.1
    min_lr: ClosedUnitInterval = 0.01
    weight_decay: NonNegative = 0.05
    momentum: Share = 0.9
    label_smoothing: Share = 0.1
    clip_norm: NonNegative = 1.0
    layer_decay: Area = 1.0
    ema_decay: Share = 0.0
    on_nan: Literal["stop", "skip"] = "stop"


@dataclass
class TrainerConfig:
    """Where it is computed; the values are Lightning's.

    Args:
        accelerator: auto, cpu, gpu, mps, ...
        devices: how many, or "auto".
        num_nodes: machines.
        strategy: auto, or ddp: every process holds the whole network; fsdp: each keeps a part of every weight.
        precision: "auto" takes bf16-mixed where the hardware computes in it, else 32-true; never 16-mixed.
        checkpoint_every: time between two checkpoints to go on from (90s, 10min, 2h); null: at the end of every epoch
            only.
    """

    accelerator: str = "auto"
    devices: PositiveInt | Literal["auto"] = "auto"
    num_nodes: PositiveInt = 1
    strategy: str = "auto"
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] = "auto"
    checkpoint_every: str | None = "10min"


@dataclass
class Recipe:
    """One training.

    Args:
        data: where images come from.
        model: the network and its input.
        augment: how training images are varied.
        optim: how weights are found.
        trainer: where it is computed.
        seed: of initial weights, order of images, augmentation and dropout.
        out: folder that run folders are made in.
        name: last part of the run folder's name.
        wandb: online, offline, off; auto: online where you are logged in, else offline.
        wandb_media, wandb_model: whether W&B also gets pictures that show images, and file names; the best checkpoint.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: Seed = 0
    out: str = "runs"
    name: str | None = None
    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    wandb_media: bool = False
    wandb_model: bool = False


UNDECIDING = frozenset({"out", "name", "wandb", "wandb_media", "wandb_model"})  # of a recipe: nothing learned follows

Tree = TypeVar("Tree")


def plain_values(tree: Tree) -> Tree:
    """The same tree with plain numbers: the command line's are instances of PositiveInt and its like.

    Those would be pickled into checkpoints by name, which `weights_only=True` refuses to load.
    """
    plain: Any = tree
    if is_dataclass(tree) and not isinstance(tree, type):
        plain = replace(tree, **{item.name: plain_values(getattr(tree, item.name)) for item in fields(tree)})
    elif isinstance(tree, dict):
        plain = {key: plain_values(value) for key, value in tree.items()}
    elif isinstance(tree, list | tuple):
        plain = type(tree)(map(plain_values, tree))
    else:
        for kind in (bool, int, float, str):
            if isinstance(tree, kind):
                return kind(tree)  # type: ignore[return-value]
    return plain


def seconds(text: str) -> float:
    """A time such as 90s, 10min or 2h in seconds; UsageError for anything else."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h)", text.strip())
    if parts is None:
        raise UsageError(f"--checkpoint_every {text}", "give a number with s, min or h: 90s, 10min, 2h")
    return float(parts[1]) * _SECONDS[parts[2]]


def plain(recipe: Recipe) -> dict[str, Any]:
    """A recipe as lists, mappings and plain values."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(recipe)))
    return values


def dump(recipe: Recipe) -> str:
    """A recipe as YAML that `vit train --config` reads back."""
    return yaml.dump(plain(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Quotes a text that looks like a number to YAML 1.2 too, as 1e-3 does: jsonargparse would read it as one."""


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
