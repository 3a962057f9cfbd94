"""Train a plan into a run folder."""

import logging
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer, seed_everything
from lightning.pytorch.strategies import DDPStrategy, Strategy
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from vit.checkpoints.format import Description
from vit.checkpoints.io import store_temperature
from vit.checkpoints.load import load
from vit.checkpoints.result import RunResult, TrainingStats, pack, versions
from vit.checkpoints.run import RunDirectory
from vit.data.module import ImageDataModule
from vit.errors import DivergedError, ProcessesError, ResourceError, StoppedError, UsageError, is_out_of_memory
from vit.inference.calibration import Temperature, fit_temperature
from vit.inference.engine import Engine, score
from vit.inference.metrics import ScoredImages, uncalibrated, with_intervals
from vit.models.network import Network
from vit.training.callbacks.last_checkpoint import LastCheckpoint
from vit.training.callbacks.recording import (
    Averaging,
    BestCheckpoint,
    CountConsumed,
    DescribeCheckpoint,
    Listener,
    Recorder,
)
from vit.training.callbacks.signals import Signals, Stop
from vit.training.callbacks.unreadable import Unreadable
from vit.training.checkpoint_io import DurableCheckpointIO
from vit.training.classifier import Classifier
from vit.training.distributed.batch_norm import synchronized
from vit.training.distributed.devices import lightning_devices, lightning_environment
from vit.training.distributed.meeting import readable_by_all
from vit.training.distributed.processes import PATIENCE, Agreement, deciding, observe_patiently, together
from vit.training.distributed.sharding import ShardedClassifier, Sharding
from vit.training.lora import LoraClassifier, add_adapters
from vit.training.plan import Plan
from vit.training.probe import probe
from vit.training.run_images import measured_part
from vit.weights.open import open_pretrained

# a checkpoint: what it is, and its answers
_Measured = tuple[Description, Temperature | None, dict[str, ScoredImages]]

MONITOR = "val/loss"  # less noisy than accuracy where validation images are few, and honest about probabilities


@dataclass(frozen=True)
class FitResult:
    """A finished training: what it found, and the best checkpoint's word on every validation and test image."""

    result: RunResult
    scored: dict[str, ScoredImages]
    data: ImageDataModule
    is_first_process: bool


def fit(plan: Plan, run: RunDirectory, listeners: Sequence[Listener] = (), resume: bool = False) -> FitResult:
    """Train, keep the best and the last checkpoint, calibrate the best one, and score it on validation and test images.

    Args:
        run: an empty run folder, or with `resume` one that has a last.ckpt to go on from.
        listeners: who is told of steps and rows (first process only) and of what else there is to know.

    Raises:
        CheckpointError: neither the last checkpoint nor the one before it can be read.
        DivergedError: the loss left the finite numbers.
        ResourceError: a checkpoint could not be written, or there is not enough memory.
        ProcessesError: another process of the same training has ended, or is not like this one.
        StoppedError: somebody ended it by Ctrl-C, SIGTERM or SIGUSR1; what it had learned is saved.
    """
    on = f"to go on: vit train --resume {shlex.quote(str(run.path))}"
    with Signals(on) as signals:
        try:
            return _fit(plan, run, listeners, resume, signals)
        except Stop as stop:
            fix = on if run.last.is_file() else "start it again"
            raise StoppedError(128 + stop.number, stop.words, fix) from stop
        except DivergedError as error:
            if not run.last.is_file():
                raise
            kept = f"{run.last} holds the last good weights (--init_from starts from them)"
            raise DivergedError(error.problem, f"{error.fix}; {kept}") from error
        except ProcessesError as error:
            raise type(error)(error.problem, f"{error.fix}; {on}" if run.last.is_file() else error.fix) from error
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            said = ": ".join(["", *str(error).splitlines()[:1]])[:200]  # Python's own says nothing
            raise ResourceError(
                f"out of memory with {plan.batch_size} images of {plan.preprocess.image_size} pixels in "
                f"{plan.precision}, {plan.recipe.optim.accumulate} parts{said}",
                "give --optim.accumulate 2 or more (the same steps, in parts), a smaller --batch_size or --image_size, "
                "or --data.cache none",
            ) from error


def _fit(plan: Plan, run: RunDirectory, listeners: Sequence[Listener], resume: bool, signals: Signals) -> FitResult:
    _quiet()
    seed_everything(plan.recipe.seed, verbose=False)
    network = plan.build_network()
    facts: list[tuple[str, str]] = []
    if plan.recipe.model.init_from is not None and not resume:
        pretrained = open_pretrained(plan.recipe.model.init_from)
        report = pretrained.fill(network)
        facts += [*pretrained.facts(), *report.facts()]
    if plan.recipe.model.lora is not None:
        facts += add_adapters(network, plan.recipe.model.lora)
    for name, value in facts:
        for listener in listeners:
            listener.notice(f"weights, {name}: {value}")
    if plan.world_size > 1:
        network = synchronized(network, plan.device)
    network = network.to(memory_format=network.memory_format)
    data = plan.data_module()
    description = Description(plan.source.class_names, plan.spec, plan.preprocess, plan.precision, versions=versions())
    if plan.recipe.model.freeze == "backbone":
        effort = probe(network, description, data, plan, run, listeners)
        measured = _measured(plan, data, run.best, plan.device)
    else:
        effort, measured = _optimize(network, description, data, plan, run, listeners, resume, signals)
    best_description, fitted, scored = measured
    temperature = 1.0
    if fitted is not None:
        temperature = fitted.value
        for listener in listeners:
            listener.notice(f"temperature {fitted.words()}")
    if effort.is_first_process:
        store_temperature(run.best, temperature)
    measured_on = {
        split: measured_part(samples, scored[split].left_out) if split in scored else samples
        for split, samples in plan.source.splits.items()
    }
    result = RunResult(
        spec=plan.spec,
        image_size=plan.preprocess.image_size,
        parameters=plan.cost.parameters,
        flops=plan.cost.flops,
        data=plan.source.name,
        num_images={split: len(samples) for split, samples in measured_on.items()},
        fingerprints={split: samples.fingerprint() for split, samples in measured_on.items()},
        seed=plan.recipe.seed,
        epochs=plan.total_steps / plan.steps_per_epoch,
        steps=effort.steps,
        batch_size=plan.batch_size,
        seconds=effort.seconds,
        images_per_second=effort.images_per_second,
        device=_device_name(plan.device),
        precision=plan.precision,
        best_epoch=int(best_description.metrics["epoch"]),
        validation={name: value for name, value in best_description.metrics.items() if name.startswith("val/")},
        metrics=with_intervals(scored["test"], len(plan.source.class_names)) if "test" in scored else {},
        versions=versions(),
        temperature=temperature,
        uncalibrated=uncalibrated(scored["test"], len(plan.source.class_names)) if "test" in scored else {},
        correct={split: pack(some.correct) for split, some in scored.items()},
        skipped_steps=effort.skipped_steps,
        unreadable_images=effort.unreadable_images,
        left_out={split: dict(some.left_out) for split, some in scored.items() if some.left_out},
    )
    if effort.is_first_process:
        run.previous.unlink(missing_ok=True)
    return FitResult(result, scored, data, effort.is_first_process)


def _optimize(
    network: Network,
    description: Description,
    data: ImageDataModule,
    plan: Plan,
    run: RunDirectory,
    listeners: Sequence[Listener],
    resume: bool,
    signals: Signals,
) -> tuple[TrainingStats, _Measured]:
    """Train weights by gradient descent, and measure the best ones."""
    classifier = _classifier(network, plan)
    recorder = Recorder(run.metrics, plan.batch_size // plan.recipe.optim.accumulate, list(listeners))
    unreadable = Unreadable(recorder.notice)
    callbacks: list[Callback] = [
        Agreement(deciding(plan)),
        CountConsumed(),
        DescribeCheckpoint(description),
        recorder,
        unreadable,
    ]
    if plan.ema_decay:
        callbacks.append(Averaging(plan.ema_decay, classifier))
    callbacks.append(LastCheckpoint(run.last, plan.checkpoint_seconds, signals, saved=recorder.leave_out))
    trainer = _trainer(plan, run, callbacks, DurableCheckpointIO(run.last, run.previous, recorder.notice))
    if trainer.is_global_zero and not resume:
        run.previous.unlink(missing_ok=True)
    with together(trainer):
        trainer.fit(classifier, datamodule=data, ckpt_path=run.last if resume else None)
        measured = _measured(plan, data, run.best, trainer.strategy.root_device)
    effort = TrainingStats(
        recorder.seconds,
        recorder.images_per_second,
        trainer.global_step,
        classifier.finite.skipped,
        len(unreadable.errors),
        trainer.is_global_zero,
    )
    return effort, measured


def _classifier(network: Network, plan: Plan) -> Classifier:
    given, rank = (network, plan.recipe.optim, plan.total_steps, plan.recipe.seed), plan.recipe.model.lora
    if plan.is_sharded:
        return ShardedClassifier(*given)
    return Classifier(*given) if rank is None else LoraClassifier(*given, rank)


def _measured(plan: Plan, data: ImageDataModule, best: Path, device: torch.device) -> _Measured:
    """Calibrate and score a checkpoint, on the device that this process has trained on."""
    with readable_by_all(best) as file:
        network, description = load(file)
    engine = Engine(network, plan.preprocess, device, plan.precision)
    return description, *_calibrated(engine, data)


def _calibrated(engine: Engine, data: ImageDataModule) -> tuple[Temperature | None, dict[str, ScoredImages]]:
    """Fit the engine's temperature on the validation images, and score those and the test images with it."""
    scored: dict[str, ScoredImages] = {}
    temperature = None
    if "validation" in data.source.splits:
        validation = score(engine, data.evaluation_loader("validation"))
        temperature = fit_temperature(validation)
        engine.temperature = temperature.value
        scored["validation"] = validation.at(engine.temperature)
    if "test" in data.source.splits:
        scored["test"] = score(engine, data.evaluation_loader("test"))
    return temperature, scored


def _trainer(plan: Plan, run: RunDirectory, callbacks: list[Callback], files: DurableCheckpointIO) -> Trainer:
    settings, optim = plan.recipe.trainer, plan.recipe.optim
    best = BestCheckpoint(
        run.best.parent, run.best.stem, MONITOR, mode="min", auto_insert_metric_name=False, enable_version_counter=False
    )
    observe_patiently()
    devices, machines = lightning_devices(settings, plan.device)
    trainer = _made_trainer(
        accelerator=settings.accelerator,
        devices=devices,
        num_nodes=machines,
        strategy=_strategy(plan),
        precision=plan.precision,
        max_epochs=plan.rounds,
        accumulate_grad_batches=optim.accumulate,
        gradient_clip_val=optim.clip_norm or None,
        callbacks=[best, *callbacks],
        plugins=[files, lightning_environment()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        default_root_dir=run.path,
    )
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]  # see Signals
    return trainer


def _strategy(plan: Plan) -> Strategy | str:
    if plan.world_size == 1:
        return "auto"
    return Sharding(plan.world_size) if plan.is_sharded else DDPStrategy(timeout=PATIENCE)


def _made_trainer(**settings: Any) -> Trainer:
    try:
        return Trainer(**settings)
    except (ValueError, MisconfigurationException) as error:
        problem = " ".join(str(error).split())
        raise UsageError(f"Lightning refuses the trainer's settings: {problem[:300]}", "change trainer.*") from error


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"


def _quiet() -> None:
    """Lightning's notices tell a developer of Lightning what to change; none of them is about the user's run."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"lightning\.(pytorch|fabric)\..*")
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
