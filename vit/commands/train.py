"""`vit train DATA`: from images to a classifier in a run folder."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jsonargparse import ActionConfigFile, Namespace

from vit.commands.arguments import Parser, expand, find_config, parse, shipped_configs
from vit.console import ProgressReport, Reporter, duration, interval, percent
from vit.errors import UsageError
from vit.training.recipe import AugmentConfig, DataConfig, ModelConfig, OptimConfig, Recipe, TrainerConfig, plain_values

SHORT = {
    "--network": "--model.network.name",
    "--image_size": "--model.preprocess.image_size",
    "--augment": "--augment.name",
    "--epochs": "--optim.epochs",
    "--batch_size": "--optim.batch_size",
    "--lr": "--optim.lr",
    "--precision": "--trainer.precision",
    "--devices": "--trainer.devices",
    "--num_nodes": "--trainer.num_nodes",
    "--strategy": "--trainer.strategy",
}
SECTIONS = {"data": DataConfig, "model": ModelConfig, "augment": AugmentConfig, "optim": OptimConfig, "trainer": TrainerConfig}


def train(arguments: Sequence[str]) -> int:
    """Train, show the plan and the progress, and leave a run folder."""
    parser = make_parser()
    config = _parse(parser, arguments)
    if config.resume:
        return _train(_resumed(config.resume, arguments), Path(config.resume))
    return _train(to_recipe(parser, config), None)


def make_parser() -> Parser:
    """The command line of `vit train`; recipes are checked by it too."""
    flags = ", ".join(f"{short} ({dotted[2:]})" for short, dotted in SHORT.items())
    parser = Parser(
        "train",
        "Train a classifier on DATA: a folder of class folders, a folder with train/ and test/, a CSV with path,label[,split], "
        f"'digits', or a torchvision data set by name. Short flags: {flags}.",
        "vit train photos/ --network vit_tiny_patch16_224 --epochs 30",
        SHORT,
    )
    parser.add_argument("--config", action=ActionConfigFile, help="a recipe: a YAML file, or a shipped one by name (fashion_mnist)")
    parser.add_argument("--resume", type=str | None, default=None, metavar="RUN", help="go on with an unfinished run")
    for name, section in SECTIONS.items():
        parser.add_class_arguments(section, name)
    defaults = Recipe()
    parser.add_argument("--seed", type=Recipe.__annotations__["seed"], default=defaults.seed, help="of everything random")
    parser.add_argument("--out", type=str, default=defaults.out, help="folder that run folders are made in")
    parser.add_argument("--name", type=str | None, default=None, help="last part of the run folder's name")
    parser.add_argument("--wandb", type=Recipe.__annotations__["wandb"], default=defaults.wandb, help="Weights & Biases")
    return parser


def _parse(parser: Parser, arguments: Sequence[str]) -> Namespace:
    expanded = expand(arguments, SHORT, "data.source")
    names = [token.partition("=")[0] for token in expanded]
    if not {"--config", "--resume", "--help"} & set(names):
        source = expanded[names.index("--data.source") + 1] if "--data.source" in names else Recipe().data.source
        if source in shipped_configs():  # a data set that comes with a recipe is trained by it
            expanded = ["--config", source, *expanded]
    for place, token in enumerate(expanded[:-1]):
        if token == "--config":
            expanded[place + 1] = str(find_config(expanded[place + 1]))
    config: Namespace = parse(parser, expanded)
    return config


def to_recipe(parser: Parser, config: Namespace) -> Recipe:
    """A parsed command line or file as a Recipe."""
    whole = parser.instantiate_classes(config)
    return plain_values(Recipe(**{key: getattr(whole, key) for key in Recipe.__annotations__}))


def _resumed(run: str, arguments: Sequence[str]) -> Recipe:
    from vit.training.run import RunDirectory

    others = [token for token in arguments if token.startswith("--") and not token.startswith("--resume")]
    if others:
        raise UsageError(f"{others[0]} beside --resume", "a run goes on as it began; start a new run to change it")
    directory = RunDirectory.open(Path(run))
    if directory.result.is_file():
        raise UsageError(f"{run} is finished", f"see {directory.result}, or start a new run")
    if not directory.last.is_file():
        raise UsageError(f"{run} has no checkpoint yet", "start it again as a new run")
    parser = make_parser()
    config: Namespace = parse(parser, ["--config", str(directory.config)])
    return to_recipe(parser, config)


def _train(recipe: Recipe, resumed: Path | None) -> int:
    from vit.report.run_figures import draw_run
    from vit.training.fit import fit
    from vit.training.plan import make_plan
    from vit.training.run import RunDirectory
    from vit.training.tracking import open_tracker

    first = int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0
    reporter = Reporter(quiet=not first)
    plan = make_plan(recipe)
    if resumed is not None:
        run = RunDirectory(resumed)
    elif first:
        run = RunDirectory.create(recipe.out, plan.source.name, plan.network["name"], recipe.name)
        _write_beginning(run, plan)
    else:
        run = RunDirectory(Path(recipe.out))  # never written to: Lightning hands the first process's folder round
    _show_plan(reporter, plan, run)
    mode = recipe.wandb if first else "off"
    tracker = open_tracker(mode, run.path, _plain(plan.recipe), run.path.name, reporter.notice)
    watcher = _Watcher(reporter, tracker, recipe.optim.epochs)
    fitted = fit(plan, run, [watcher], resume=resumed is not None)
    watcher.close()
    if not fitted.is_first_process:
        return 0
    fitted.result.write(run.result)
    draw_run(run, plan, fitted, tracker)
    tracker.finish()
    _show_result(reporter, run, fitted.result)
    return 0


def _write_beginning(run: Any, plan: Any) -> None:
    from vit.data.split import write_splits
    from vit.training.run import write_json

    run.config.write_text(dump(plan.recipe), encoding="utf-8")
    write_json(run.classes, {"classes": list(plan.source.classes)})
    write_splits(plan.source, run.splits)


def dump(recipe: Recipe) -> str:
    """A recipe as YAML that `vit train --config` reads back."""
    import yaml

    return yaml.safe_dump(_plain(recipe), sort_keys=False, allow_unicode=True)


def _plain(recipe: Recipe) -> dict[str, Any]:
    import json

    plain: dict[str, Any] = json.loads(json.dumps(asdict(recipe)))
    return plain


def _show_plan(reporter: Reporter, plan: Any, run: Any) -> None:
    optim, source = plan.recipe.optim, plan.source
    images = ", ".join(f"{len(samples):,} {split}" for split, samples in source.splits.items())
    classes = ", ".join(source.classes[:6]) + (", ..." if len(source.classes) > 6 else "")
    parts = f" in {optim.accumulate} parts" if optim.accumulate > 1 else ""
    processes = f" on {plan.world_size} processes" if plan.world_size > 1 else ""
    augment = ", ".join(f"{key} {value:g}" for key, value in plan.augment.to_dict().items() if value not in (0, 1.0) and key != "magnitude")
    reporter.line(f"Training {plan.network['name']} on {source.name}")
    reporter.facts(
        [
            ("data", f"{images}; {len(source.classes)} classes: {classes}"),
            *(("note", note) for note in source.notes),
            ("network", f"{plan.parameters:,} parameters, {plan.flops / 1e6:,.0f} MFLOPs an image, {plan.preprocess.image_size} pixels"),
            ("augment", augment or "none"),
            ("batch", f"{plan.batch_size} images{parts}{processes}"),
            ("optimiser", f"{optim.optimizer}, learning rate {optim.lr:g}, weight decay {optim.weight_decay:g}"),
            ("steps", f"{plan.total_steps:,} ({optim.epochs} epochs of {plan.steps_per_epoch:,}), seed {plan.recipe.seed}"),
            ("device", f"{plan.device.type}, {plan.precision}"),
            ("run", str(run.path)),
        ]
    )


class _Watcher:
    """Shows steps and rows, and hands rows to the tracker."""

    def __init__(self, reporter: Reporter, tracker: Any, epochs: int) -> None:
        self.reporter, self.tracker, self.epochs = reporter, tracker, epochs
        self.progress = ProgressReport(reporter, "step")

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        self.progress.update(done, total, f"loss {loss:.3f}, {images_per_second:,.0f} images/s")

    def row(self, row: dict[str, float], step: int) -> None:
        self.tracker.log({key: value for key, value in row.items() if key != "step"}, step)
        if "val/acc1" in row:
            self.reporter.notice(
                f"epoch {int(row['epoch']) + 1}/{self.epochs}  train loss {row['train/loss']:.3f}  "
                f"val loss {row['val/loss']:.3f}  val acc {percent(row['val/acc1'])}"
            )

    def close(self) -> None:
        self.progress.close()


def _show_result(reporter: Reporter, run: Any, result: Any) -> None:
    reporter.line(f"\nBest epoch {result.best_epoch + 1}, after {duration(result.seconds)}, {result.images_per_second:,.0f} images/s")
    facts = [("validation accuracy", percent(result.validation["val/acc1"]))] if result.validation else []
    if result.metrics:
        facts.append(("test accuracy", f"{interval(result.metrics['acc1'])}, {result.images['test']:,} images, 95 % interval"))
        facts.append(("test calibration error", percent(result.metrics["ece"]["value"])))
    reporter.facts([*facts, ("figures", str(run.figures)), ("checkpoint", str(run.best))])
    reporter.next_command(f"vit predict {shlex.quote(str(run.path))} FOLDER_OF_IMAGES --gallery true")
