"""A recipe: every option that decides a training, as dataclasses

A recipe file is this tree in YAML, and a run folder keeps the tree with every choice filled in. This module imports
nothing heavy, so that a wrong option is refused in a fraction of a second.
"""

from dataclasses import dataclass, field
from typing import Literal

from vit import ranges
from vit.own_code import is_path
from vit.training.recipes.image_options import AugmentConfig, DataConfig, PreprocessConfig

NetworkValue = bool | int | float | str | list[int]


@dataclass
class ModelConfig:
    """The network and its input.

    Args:
        network: "name" from `vit models`, and any value of that network: pos_embed, pool, depth, drop_path_rate, ...
            The name "auto" takes the network of the pretrained weights, else a ViT for the size of the images.
        preprocess: preprocessing of the network's input.
        init_from: pretrained weights to start from. They are a run, a checkpoint, a file or folder of timm's,
            torchvision's, Hugging Face's, JAX', DINO's, MAE's or CLIP's weights, timm:NAME, torchvision:NAME or
            hf:ORG/NAME. Pretrained weights bring the recipe `finetune`: a small learning rate that falls from layer to
            layer, and a length that follows from the number of images. random: random weights. auto: published weights
            of the network for photographs, which are refused where these are not available; random weights for images
            of up to 64 pixels. In a study {seed} and {images} stand for those of a cell, and * for any text.
        init_head: initial weights of the last layer, where init_from has none for these classes. probe: those of a
            linear probe (Kumar et al. 2022, LP-FT). auto: where init_from knows some classes by name, they keep
            theirs and new ones start from mean features; else random for networks with attention, probe for others.
        freeze: what stays as in the weights of init_from. batch_stats: the mean and variance of every batch norm, which
            else follow the training images, batch by batch; networks without batch norm train as with none. backbone:
            all but the last layer, which is fitted to features that are computed once (a linear probe). Of
            optim, it uses class_weights, logit_adjustment, multilabel_loss, min_precision and best_metric alone.
        lora: rank of LoRA, usually 8 to 32; null: no LoRA. The linear layers (qkv, proj, fc1 and fc2 of a ViT) keep
            their weights and learn a correction of this rank. The head is trained as a whole. LoRA needs init_from and
            the extra `lora`, and brings the recipe `lora`.
    """

    network: dict[str, NetworkValue] = field(default_factory=lambda: {"name": "auto"})
    preprocess: PreprocessConfig = field(default_factory=PreprocessConfig)
    init_from: str | None = None
    init_head: Literal["auto", "random", "probe"] = "random"
    freeze: Literal["none", "batch_stats", "backbone"] = "none"
    lora: ranges.PositiveInt | None = None


@dataclass
class OptimConfig:
    """Optimizer, learning rate and length of the training.

    Args:
        optimizer: adamw, sgd with Nesterov momentum, or muon for the matrices of a transformer's blocks and adamw for
            the other weights; or the import path of your own (docs/guides/change_it.md).
        lr: learning rate after the warm-up.
        lr_batch_size: batch size that `lr` is for. The learning rate is `lr` times batch_size / lr_batch_size with sgd
            (Goyal et al. 2017), and times its square root with other optimizers (Malladi et al. 2022); null: `lr` is
            for any batch size. No recipe of ours uses it, and we have not measured it.
        epochs: number of passes over the training images. auto: a number of optimizer steps that grows with the number
            of training images, for fine-tuning, and no fewer than 8 passes.
        steps: number of optimizer steps, instead of epochs, rounded up to 5 to 10 equal rounds that end with a
            validation; null: length in epochs.
        time: time of the whole training (90s, 30min, 2h), instead of epochs and steps. The number of steps follows from
            trial steps and a trial validation before the training, and stands in config.yaml as `steps`; null: length
            in epochs or steps.
        patience: number of validations in a row without a better `best_metric` after which the training nears its end.
            The learning rate is constant after the warm-up, and falls in the last fifth of the training. That fifth
            begins when patience ends, so epochs, steps or time are the longest length; null: the rate falls from the
            warm-up on.
        batch_size: number of images of one optimizer step, over all processes; null: 128, or 64 with init_from, less
            for small data sets. auto: on a GPU the largest power of two that fits, found before the training, up to an
            eighth of the training images; on a CPU as null. Each process computes an even number of images with mixup
            or cutmix.
        accumulate: number of micro-batches that a batch is computed in, to save memory. The optimizer steps stay the
            same. Batch norm takes its statistics from each micro-batch. Where memory runs out in the first steps, the
            number is doubled.
        warmup: fraction of the optimizer steps with a linear warm-up of the learning rate; at most 10,000 steps.
        min_lr_ratio: learning rate at the end of the cosine schedule, as a fraction of lr.
        weight_decay: weight decay of matrices; norms, biases, positions and the class token have none.
        momentum: momentum of sgd.
        loss: import path of a training loss of your own, MODULE:NAME; null: cross-entropy, with the options below.
        metric: import path of one more validation metric, MODULE:NAME; null: none.
        label_smoothing: fraction of a label that is spread over all classes; with several labels for an image the
            fraction that is replaced by the label's frequency.
        class_weights: weight of each class in the training loss, with mean 1 over the drawn images. none: equal. auto:
            inverse number of images. effective: inverse effective number of images (Cui et al. 2019), which differs
            from auto where classes have thousands. {name: weight}: your weights; classes without one weigh 1.
        logit_adjustment: strength of the correction for class sizes in the training loss (Menon et al. 2021), usually
            1; 0: none. The logits get the logarithm of the class sizes, in training alone.
        multilabel_loss: training loss where an image may have several labels. bce: binary cross-entropy. asymmetric:
            less weight for labels that are easily seen to be absent (Ridnik et al. 2021).
        min_precision: lowest precision of every label at its threshold, where an image may have several labels. The
            thresholds are chosen on validation images. null: thresholds with the highest F1.
        best_metric: validation metric that decides which weights become the best checkpoint: the lowest loss, or the
            highest accuracy, balanced accuracy or macro F1; with several labels for an image the highest mAP, micro F1,
            macro F1 or exact match. Of equal values the earliest wins. last: the last weights (not for a linear probe).
        clip_norm: largest norm of the gradient; 0: no clipping.
        layer_decay: learning rate of a block as a fraction of the next block's in a network of 12 blocks (fine-tuning).
            In others it falls as far from the first to the last layer, in equal ratios; 1: equal for all; auto: 0.75
            for a transformer, and 1 for a CNN.
        ema_decay: decay of the averaged weights that are evaluated and saved; 0: no averaging. The decay is lower where
            the training is shorter than five times the memory of the average.
        on_nan: answer to a loss or gradient that is not finite. stop: training ends. skip: the step is skipped, up to
            nine in a row; the check waits for the device at every step.
    """

    optimizer: Literal["adamw", "sgd", "muon"] | ranges.ImportPath = "adamw"
    lr: ranges.Positive = 1e-3
    lr_batch_size: ranges.PositiveInt | None = None
    epochs: ranges.PositiveInt | Literal["auto"] = 50
    steps: ranges.PositiveInt | None = None
    time: str | None = None
    patience: ranges.PositiveInt | None = None
    batch_size: ranges.PositiveInt | Literal["auto"] | None = None
    accumulate: ranges.PositiveInt = 1
    warmup: ranges.Share = 0.1
    min_lr_ratio: ranges.ClosedUnitInterval = 0.01
    weight_decay: ranges.NonNegative = 0.05
    momentum: ranges.Share = 0.9
    loss: ranges.ImportPath | None = None
    metric: ranges.ImportPath | None = None
    label_smoothing: ranges.Share = 0.1
    class_weights: Literal["none", "auto", "effective"] | dict[str, ranges.Positive] = "none"
    logit_adjustment: ranges.NonNegative = 0.0
    multilabel_loss: Literal["bce", "asymmetric"] = "bce"
    min_precision: ranges.Share | None = None
    best_metric: Literal["loss", "acc1", "balanced_acc", "macro_f1", "map", "micro_f1", "exact_match", "last"] = "loss"
    clip_norm: ranges.NonNegative = 1.0
    layer_decay: ranges.Area | Literal["auto"] = 1.0
    ema_decay: ranges.Share = 0.0
    on_nan: Literal["stop", "skip"] = "stop"

    @property
    def is_timed(self) -> bool:
        """Whether the length is a time, and the number of steps is not measured yet."""
        return self.time is not None and self.steps is None

    @property
    def scaled_lr(self) -> float:
        """The learning rate after the warm-up for the batch size, as `lr_batch_size` says."""
        if self.lr_batch_size is None or not isinstance(self.batch_size, int):
            return self.lr
        ratio: float = self.batch_size / self.lr_batch_size
        return self.lr * (ratio if self.optimizer == "sgd" else ratio**0.5)


@dataclass
class DistillConfig:
    """A trained network that teaches this one (knowledge distillation). Options without a teacher are refused.

    Args:
        teacher: run, checkpoint or ONNX file of `vit export` with the same classes; null: no teacher. In a study
            {seed} and {images} stand for those of a cell, and * for any text.
        kind: what the teacher gives. soft: its probabilities at `temperature` (Hinton et al. 2015). hard: its most
            probable class (Touvron et al. 2021). The distillation token of a network with pool cls_dist learns it;
            other networks learn it with the head that learns the labels.
        temperature: divisor of the logits of both networks, with soft.
        weight: fraction of the teacher in the loss; labels have the rest; null: 0.9 with soft, 0.5 with hard.
        teacher_hash: hash of the teacher's file, which is checked; null: of the file as it is. A run's config.yaml has
            it, so that a resumed training refuses another teacher.
    """

    teacher: str | None = None
    kind: Literal["soft", "hard"] = "soft"
    temperature: ranges.Positive = 4.0
    weight: ranges.Area | None = None
    teacher_hash: str | None = None


@dataclass
class TrainerConfig:
    """Hardware and precision; the values are Lightning's.

    Args:
        accelerator: kind of device: auto, cpu, gpu, mps.
        devices: number of devices of a machine, or "auto". A cell of a study and a fold train on one.
        num_nodes: number of machines.
        strategy: distribution over processes. auto, ddp: every process holds the whole network. fsdp: each process
            keeps a part of every weight.
        precision: number format of the computation. auto: bf16-mixed where it is faster here, 16-mixed on a GPU with
            tensor cores for float16 alone (V100, T4, RTX 20), else 32-true.
        compile: whether torch.compile compiles the network for the training, which takes about half a minute. auto: on
            one GPU with Triton and a C compiler, where a network of ours trains for 3,000 steps or 10 minutes, which by
            an estimate repay it.
        grad_checkpointing: whether the blocks of our ViTs keep no activations, and are computed again in the backward
            pass: less memory, and a third more computation. The weights are the same.
        checkpoint_every: time between two checkpoints for --resume (90s, 10min, 2h); null: only after an epoch.
        keep_state: whether a finished run keeps last.ckpt, and the state of the optimizer in best.ckpt, which no
            command of vit needs. They take about 7 times the space of the weights.
    """

    accelerator: str = "auto"
    devices: ranges.PositiveInt | Literal["auto"] = "auto"
    num_nodes: ranges.PositiveInt = 1
    strategy: str = "auto"
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] = "auto"
    compile: bool | Literal["auto"] = "auto"
    grad_checkpointing: bool = False
    checkpoint_every: str | None = "10min"
    keep_state: bool = False


@dataclass
class MlflowConfig:
    """The tracker MLflow, which needs the extra `mlflow`.

    Args:
        register: name in MLflow's model registry under which the best checkpoint is registered; null: none.
    """

    register: str | None = None


@dataclass
class Recipe:
    """One training.

    Args:
        data: source and split of the images.
        model: network, input and initial weights.
        augment: augmentation of training images.
        optim: optimizer, learning rate and length.
        distill: teacher of the network.
        trainer: hardware and precision.
        seed: seed of initial weights, order of images, augmentation and dropout.
        out: parent folder of run folders.
        name: last part of the run folder's name.
        tracker: trackers of the training, with commas: wandb, tensorboard, mlflow; null: wandb, unless wandb is off.
            metrics.csv is always written.
        wandb: Weights & Biases; auto: online where you are logged in, else offline. off: only without wandb in tracker.
        tracker_media: whether W&B and an MLflow server also get pictures of your images, and file names with labels.
        tracker_model: whether W&B and MLflow also get the best checkpoint.
        mlflow: the tracker MLflow.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: ranges.Seed = 0
    out: str = "runs"
    name: str | None = None
    tracker: str | None = None
    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    tracker_media: bool = False
    tracker_model: bool = False
    mlflow: MlflowConfig = field(default_factory=MlflowConfig)


TRACKING = frozenset({"tracker", "wandb", "tracker_media", "tracker_model", "mlflow"})
NOT_IN_HASH = TRACKING | {"out", "name"}  # options that do not change the weights
NOT_IN_HASH_PARTS = (  # options inside the parts of a recipe that do not change the weights, by part and name
    ("data", "cache"),
    ("data", "download"),
    ("data", "num_workers"),
    ("trainer", "devices"),
    ("trainer", "num_nodes"),
    ("trainer", "grad_checkpointing"),
    ("trainer", "checkpoint_every"),
    ("trainer", "keep_state"),
)
PLACES_OF_IMAGES = (("data", "source"), ("data", "root"), ("data", "image_column"), ("data", "label_column"))
PLACES = (  # options that name files, by part and name; hashes of contents stand for them
    *PLACES_OF_IMAGES,
    ("model", "init_from"),
    ("distill", "teacher"),
)


def own_code(recipe: Recipe) -> list[str]:
    """The import paths of code outside vit that a recipe names."""
    optim = recipe.optim
    names = (recipe.model.network.get("name"), recipe.augment.own, optim.optimizer, optim.loss, optim.metric)
    return [name for name in names if isinstance(name, str) and is_path(name)]
