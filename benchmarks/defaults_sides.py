"""The commands of `vit train` and of the tools beside it, and how the answers of each are read."""

import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Length = Literal["first example", "same epochs", "same seconds"]
PEER = str(Path(__file__).with_name("defaults_peer.py"))


@dataclass(frozen=True)
class Trial:
    """One training.

    Attributes:
        images: folder with train/CLASS, val/CLASS and test/CLASS.
        weights: safetensors file with timm's names, called after timm's network.
        size: side of the images in pixels.
        epochs: passes over the training images that `vit train` makes by default.
        out: empty folder, which receives answers.csv.
        python: interpreter of the tool.
        scripts: folder with train.py of timm, run_image_classification.py of transformers, and the metric accuracy/.
    """

    images: Path
    weights: Path
    size: int
    seed: int
    epochs: int
    out: Path
    python: str
    scripts: Path

    @property
    def network(self) -> str:
        """timm's name of the network."""
        return self.weights.stem

    def peer(self, action: str, out: Path, *words: str) -> list[str]:
        """A command of defaults_peer.py."""
        given = (action, str(self.images), str(self.weights), self.network, str(out), "--size", str(self.size))
        return [self.python, PEER, *given, *words]


@dataclass(frozen=True)
class Side:
    """A tool with a length.

    Attributes:
        tool: name of the tool.
        length: which passes over the training images: those of its documentation's first example, as many as
            `vit train` makes, or `epochs`, which take about as many CPU seconds as those of the other tools.
        options: options that are not in that example.
        epochs: passes of the length "same seconds".
    """

    tool: str
    length: Length = "first example"
    options: tuple[str, ...] = ()
    epochs: int = 0

    def passes(self, trial: Trial) -> int | None:
        """Passes over the training images; None for those of the first example."""
        return {"first example": None, "same epochs": trial.epochs, "same seconds": self.epochs}[self.length]

    def commands(self, trial: Trial) -> list[list[str]]:
        """The commands, the last of which leaves the answers."""
        return _COMMANDS[self.tool](self, trial)


def _vit(side: Side, trial: Trial) -> list[list[str]]:
    passes = side.passes(trial)
    return [[
        sys.executable, "-m", "vit", "train", str(trial.images), "--init_from", str(trial.weights),
        "--image_size", str(trial.size), "--seed", str(trial.seed), "--out", str(trial.out / "runs"),
        *(("--optim.epochs", str(passes)) if passes else ()), *side.options,
    ]]  # fmt: skip


def _fastai(side: Side, trial: Trial) -> list[list[str]]:
    passes = (side.passes(trial) or 2) - 1  # fine_tune trains the head alone for one epoch before
    words = ("--seed", str(trial.seed), "--epochs", str(passes), *side.options)
    return [trial.peer("train_fastai", trial.out, *words)]


def _timm(side: Side, trial: Trial) -> list[list[str]]:
    num_classes = sum(1 for _ in (trial.images / "train").iterdir())
    positions = ("--model-kwargs", f"img_size={trial.size}") if "deit" in trial.network else ()
    passes = side.passes(trial)
    length = ("--epochs", str(passes)) if passes else ()
    train = [
        trial.python, str(trial.scripts / "timm_train.py"), "--data-dir", str(trial.images), "--val-split", "val",
        "--model", trial.network, "--pretrained", "--pretrained-path", str(trial.weights),
        "--num-classes", str(num_classes), "--img-size", str(trial.size), *positions, "--device", "cpu", "-j", "1",
        "--seed", str(trial.seed), "--output", str(trial.out), "--experiment", "run", "--checkpoint-hist", "1",
        *length, *side.options,
    ]  # fmt: skip
    return [train, trial.peer("answer_timm", trial.out)]


def _transformers(side: Side, trial: Trial) -> list[list[str]]:
    model, run = trial.out / "model", trial.out / "run"
    passes = side.passes(trial)
    length = ("--num_train_epochs", str(passes)) if passes else ()
    train = [
        trial.python, str(trial.scripts / "run_image_classification.py"), "--model_name_or_path", str(model),
        "--ignore_mismatched_sizes", "--train_dir", str(trial.images / "train"),
        "--validation_dir", str(trial.images / "val"), "--output_dir", str(run),
        "--cache_dir", str(trial.out / "cache"), "--remove_unused_columns", "False", "--do_train", "--do_eval",
        "--seed", str(trial.seed), *length, *side.options,
    ]  # fmt: skip
    return [trial.peer("lay_out_model", model), train, trial.peer("answer_transformers", trial.out)]


def _lightly(side: Side, trial: Trial) -> list[list[str]]:
    words = ("--seed", str(trial.seed), "--epochs", str(side.passes(trial)), "--set", *side.options)
    return [trial.peer("train_lightly", trial.out, *words)]


def _autogluon(side: Side, trial: Trial) -> list[list[str]]:
    passes = side.passes(trial)
    length = (f"optim.max_epochs={passes}",) if passes else ()
    return [trial.peer("train_autogluon", trial.out, "--seed", str(trial.seed), "--set", *length, *side.options)]


_COMMANDS: dict[str, Callable[[Side, Trial], list[list[str]]]] = {
    "vit": _vit, "fastai": _fastai, "timm": _timm, "transformers": _transformers,
    "lightly-train": _lightly, "autogluon": _autogluon,
}  # fmt: skip


def _timm_options(rate: str) -> tuple[str, ...]:
    """The fine-tuning of timm's model card with a batch of 16."""
    return ("-b", "16", "--opt", "adamw", "--opt-eps", "1e-6", "--weight-decay", ".01", "--lr", rate, "--warmup-lr",
            "0", "--sched-on-updates", "--clip-grad", "1.0", "--layer-decay", "0.8")  # fmt: skip


def _autogluon_options(rate: str) -> tuple[str, ...]:
    return ("env.batch_size=16", f"optim.lr={rate}")


_WARM_UP = "lr_warmup_steps=19"  # a tenth of the steps of 30 epochs, where its default is all of them
SIDES = (
    Side("vit"), Side("fastai"), Side("transformers"), Side("timm", "same epochs", _timm_options("5e-4")),
    Side("fastai", "same epochs", ("--batch_size", "16")),
    Side("transformers", "same epochs", ("--learning_rate", "2e-4")), Side("lightly-train", "same epochs", (_WARM_UP,)),
    Side("autogluon"), Side("autogluon", "same epochs", _autogluon_options("1e-3")),
    # about 90 CPU seconds each at 96 pixels, with the best options of ALTERNATIVES
    Side("vit", "same seconds", epochs=90), Side("timm", "same seconds", _timm_options("1e-3"), 43),
    Side("transformers", "same seconds", ("--learning_rate", "5e-5"), 42),
    Side("lightly-train", "same seconds", (_WARM_UP, "lr=1e-4"), 51),
    Side("autogluon", "same seconds", (*_autogluon_options("2.5e-4"), "optim.patience=1000"), 38),
    Side("fastai", "same seconds", ("--batch_size", "16", "--base_lr", "5e-3"), 49),
)  # fmt: skip
ALTERNATIVES = (  # tried on images that no result is about
    Side("fastai", "same epochs"), Side("transformers", "same epochs"),
    Side("transformers", "same epochs", ("--learning_rate", "5e-4")),
    Side("timm", "same epochs", _timm_options("5e-5")),
    # a tenth of the rate from scratch: its author's advice
    Side("timm", "same epochs", ("-b", "16", "--lr-base", "0.01")),
    Side("lightly-train", "same epochs"),
    *(Side("lightly-train", "same epochs", (lr,)) for lr in ("lr=1e-3", "lr=1e-4")),
    *(Side("lightly-train", "same epochs", (_WARM_UP, *lr)) for lr in ((), ("lr=1e-3",), ("lr=1e-4",))),
    Side("autogluon", "same epochs", ("env.batch_size=16",)),
    *(Side("autogluon", "same epochs", _autogluon_options(rate)) for rate in ("5e-4", "1e-3", "2e-3")),
    *(Side("vit", "same seconds", words, 90) for words in ((), ("--augment", "standard"), ("--augment", "strong"))),
    *(Side("timm", "same seconds", _timm_options(rate), 43) for rate in ("2.5e-4", "5e-4", "1e-3", "2e-3")),
    *(Side("transformers", "same seconds", ("--learning_rate", rate), 42) for rate in ("5e-5", "1e-4", "2e-4", "5e-4")),
    Side("lightly-train", "same seconds", (_WARM_UP,), 51),
    *(Side("lightly-train", "same seconds", (_WARM_UP, lr), 51) for lr in ("lr=5e-5", "lr=1e-4", "lr=5e-4")),
    *(
        Side("autogluon", "same seconds", (*_autogluon_options(rate), "optim.patience=1000"), 38)
        for rate in ("2.5e-4", "5e-4", "1e-3", "2e-3")
    ),
    *(
        Side("fastai", "same seconds", ("--batch_size", "16", "--base_lr", rate), 49)
        for rate in ("5e-4", "2e-3", "5e-3")
    ),
)  # fmt: skip


def read_answers(folder: Path) -> dict[str, str]:
    """{path of a test image, CLASS/FILE: class that was predicted} of answers.csv, or of the test table of `vit`."""
    tables = [folder / "answers.csv", *folder.glob("runs/*/*/*/predictions/test.csv")]
    found = [path for path in tables if path.is_file()]
    if len(found) != 1:
        raise SystemExit(f"{folder} has {len(found)} tables of answers in place of one")
    with found[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {"/".join(Path(row["path"]).parts[-2:]): row["predicted"] for row in rows}
