"""One training, from a plan to a result, in the order of its steps

    fit(plan, run)                  retries with smaller micro-batches where memory runs out (running/oom_retry.py)
      1. data                       loaders of training and validation images (vit/data/loading/module.py)
      2. network                    its first weights, adapters, last layer (network/initial_network.py, lora.py)
      3. loop                       every optimizer step, and what is saved in between (loop.py)
         or linear probe            the last layer alone, on features (network/initial_network.py)
      4. best weights               best.ckpt (callbacks/checkpoints.py)
      5. calibration, 6. scores     temperatures, thresholds, validation and test images (running/result.py)
      7. measurement                metrics with intervals, as result.json holds them (running/result.py)

`write_beginning` comes before it, and `finish` after it. planning/plan.py decides everything that a plan holds.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from lightning.pytorch import seed_everything

from vit.atomic_files import write_json, write_text
from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import Contents
from vit.data.core.samples import Source
from vit.data.loading.loader import AUTO_CACHE_BYTES
from vit.data.loading.module import ImageDataModule
from vit.data.splits.split import SplitRow, read_splits, split_rows, write_splits
from vit.errors import DataError, DivergedError, ProcessesError, ResourceError, StoppedError
from vit.plain_files import read_json
from vit.training.callbacks.checkpoints import BestCheckpoint
from vit.training.callbacks.checks import EarlyEnd
from vit.training.callbacks.metrics_csv import columns_with
from vit.training.distillation import Distillation, TeacherLogits, TeachingLoss
from vit.training.distributed.processes import lost_process_explained
from vit.training.loop import Classifier, Loop
from vit.training.network.features import SharedFeatures
from vit.training.network.initial_network import InitialNetwork, describe, initial_network, probe
from vit.training.observers import Listener, Observers, Signals, Stop
from vit.training.planning.plan import Plan
from vit.training.recipes.recipe import Recipe, own_code
from vit.training.recipes.values import dump, plain
from vit.training.running.oom_retry import StepCount, start_again, until_it_fits
from vit.training.running.result import FitResult, Measured, TrainingStats, measure_checkpoint, run_result
from vit.training.tracking.tracker import Tracker


def fit(
    plan: Plan,
    run: RunDirectory,
    listeners: Sequence[Listener] = (),
    resume: bool = False,
    data: ImageDataModule | None = None,
    shared: SharedFeatures | None = None,
) -> FitResult:
    """Train, keep the best and the last checkpoint, calibrate the best one, and score validation and test images.

    Args:
        run: an empty run folder, or with `resume` a run folder with checkpoints.
        data: loaders that may hold images in memory already; None: new ones.
        shared: features of a frozen backbone that the cells of a study share; None: they are computed here.

    Raises:
        CheckpointError: neither the last checkpoint nor the previous one is readable.
        ResourceError: a checkpoint could not be written.
        VitError: as `explained_failures`, or memory is not sufficient.
    """
    images = data or plan.data_module()
    if images.in_memory and images.image_bytes > AUTO_CACHE_BYTES:
        for listener in listeners:
            listener.notice(f"decoded images are kept in {images.image_bytes / 2**30:.0f} GiB of memory (--data.cache)")
    if plan.world_size == 1 and shared is None:
        images.dataset("train")  # memory that the images need is not a matter of micro-batches

    with explained_failures(plan, run) as signals:

        def attempt(plan: Plan, count: StepCount) -> FitResult:
            observers = Observers(signals, [*listeners, count])
            seed_everything(plan.recipe.seed, verbose=False)
            renewed = images.renewed(plan.loader_options)  # 1
            start = initial_network(plan, resume, observers.notice)  # 2
            if plan.recipe.model.freeze == "backbone":  # 3 to 6
                stats, best = probe(start, renewed, plan, run, observers.listeners, shared)
            else:
                stats, best = train_network(start, renewed, plan, run, observers, resume)
            for text in best.describe():
                observers.notice(text)
            if stats.is_first_process:
                best.store(run.best_path, plan.recipe.trainer.keep_state)
            result = run_result(plan, stats, best)  # 7
            if stats.is_first_process:
                run.previous_path.unlink(missing_ok=True)
            return FitResult(result, best.scored, renewed, stats.is_first_process)

        return until_it_fits(plan, attempt, partial(start_again, run=run, listeners=listeners), not run.can_resume)


@contextmanager
def explained_failures(plan: Plan, run: RunDirectory) -> Iterator[Signals]:
    """While entered: signals end a training at a step, and a failure says what was saved and how to resume.

    Raises:
        ResourceError: torch.compile fails.
        DivergedError: a loss, gradient or weight is not finite.
        DataError: the images cannot be read any more.
        ProcessesError: another process of the same training has ended, or differs from this one.
        StoppedError: Ctrl-C, SIGTERM or another signal ended the training, and its state is saved.
    """
    resume = f"to go on: {run.how_to_resume}"

    def stopped(stop: Stop) -> StoppedError:
        return StoppedError(128 + stop.number, stop.words, resume if run.last_path.is_file() else "start it again")

    with Signals(resume) as signals:
        try:
            yield signals
        except Stop as stop:
            raise stopped(stop) from stop
        except DivergedError as error:
            own = [path for path in own_code(plan.recipe) if path != plan.recipe.optim.metric]
            fix = f"check {' and '.join(own)}, or {error.fix}" if own else error.fix
            if run.last_path.is_file():
                fix += f"; {run.last_path} holds the last finite weights (--init_from starts from them)"
            raise DivergedError(error.problem, fix) from error
        except (DataError, ProcessesError) as error:
            fix = f"{error.fix}; {resume}" if run.last_path.is_file() else error.fix
            raise type(error)(error.problem, fix) from error
        except RuntimeError as error:
            if plan.recipe.trainer.compile:
                from torch._dynamo.exc import TorchDynamoException  # loaded by then, and slow to load

                if isinstance(error, TorchDynamoException):
                    if signals.received:  # it has ended the compiler, too
                        raise stopped(Stop(signals.received)) from error
                    raise ResourceError(
                        f"torch.compile cannot compile {plan.spec.name} on this machine (--trainer.compile): "
                        f"{' '.join(str(error).split())[:200]}",
                        "give --trainer.compile false, or install a C++ compiler (on a GPU also Triton)",
                    ) from error
            raise


def train_network(
    start: InitialNetwork, data: ImageDataModule, plan: Plan, run: RunDirectory, observers: Observers, resume: bool
) -> tuple[TrainingStats, Measured]:
    """Train a network by gradient descent, write its checkpoints and metrics.csv, and measure best.ckpt."""
    config = plan.recipe.distill
    distillation = None
    if plan.teacher is not None and config.weight is not None:
        logits = TeacherLogits(plan.teacher, plan.preprocess, plan.source.class_names, plan.device, plan.precision)
        if plan.teacher_remembers:
            logits.remember(data.dataset("train"), data.options.num_workers)
        distillation = Distillation(logits, TeachingLoss(config.kind, config.temperature, config.weight))
    classifier = Classifier.of(plan, start.network, distillation)
    best_checkpoint = BestCheckpoint(run.best_path, plan.recipe.optim.best_metric)  # 4
    measured = [f"val/{name}" for name in classifier.val_metrics]  # with one of the user's
    columns = columns_with(tuple(dict.fromkeys([*plan.source.task.validation_columns, *measured])))
    description, patience = describe(plan, start.license), plan.recipe.optim.patience
    ending = [] if patience is None else [EarlyEnd(patience, plan, best_checkpoint, observers.notice)]
    loop = Loop(classifier, plan, run, observers, columns, description, [*ending, best_checkpoint])
    loop.recorder.count_before(start.seconds)
    with lost_process_explained(loop.trainer):
        loop.trainer.fit(classifier, datamodule=data, ckpt_path=run.last_path if resume else None)  # 3
        best = measure_checkpoint(run.best_path, plan, data, loop.trainer.strategy.root_device)  # 5, 6
    return loop.stats, best


def write_beginning(run: RunDirectory, recipe: Recipe, source: Source, contents: Contents) -> None:
    """Write the options, the class names, and the split and content hash of every image."""
    write_text(run.config_path, dump(recipe))
    write_json(run.class_names_path, {"classes": list(source.class_names)})
    write_splits(source, run.splits_path, contents.hashes)


def check_unchanged(run: RunDirectory, source: Source, contents: Contents, may_have_moved: bool = False) -> None:
    """Raise DataError if the images or the classes of a run have changed: batches and outputs would change too.

    With `may_have_moved`, equal contents in the same order are enough, wherever the files lie.
    """
    before, now = read_splits(run.splits_path), split_rows(source, contents.hashes)
    if before.keys() == now.keys() and all(_same(before[split], now[split], may_have_moved) for split in now):
        names = run.class_names_path  # a class without images may be new, gone or renamed
        if names.is_file() and read_json(names) != {"classes": list(source.class_names)}:
            raise DataError(f"the classes of {source.name} differ from {names}", "restore them, or start a new run")
        return
    images = [[(split, row) for split, rows in listed.items() for row in rows] for listed in (before, now)]
    known, here = ({(row.name, *map(str, row[1:3])) for _, row in rows} for rows in images)
    if known == here:  # else other splits and groups follow from the other images
        known, here = ({(split, *map(str, row[1:])) for split, row in rows} for rows in images)
    gone, new = len(known - here), len(here - known)
    raise DataError(
        f"the images of {source.name} are not those that {run.splits_path} lists; missing, "
        f"changed, or in another class, split or group: {gone:,}; new: {new:,}",
        "restore them, or start a new run",
    )


def _same(before: Sequence[SplitRow], now: Sequence[SplitRow], may_have_moved: bool) -> bool:
    """Whether two lists hold the same images. Images without a content hash count as the same."""
    return len(before) == len(now) and all(
        (old.name == new.name or (may_have_moved and old.content_hash != ""))
        and old.label == new.label
        and old.content_hash in ("", new.content_hash)
        and (may_have_moved or not old.content_hash or old.group == new.group)
        for old, new in zip(before, now, strict=True)
    )


class TrackedRows(Listener):
    """Hands the rows of metrics.csv to a tracker, which gets rows but no steps."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker

    def row(self, row: dict[str, float], step: int) -> None:
        self.tracker.log({key: value for key, value in row.items() if key != "step"}, step)

    def replanned(self, recipe: Recipe) -> None:
        self.tracker.configure(plain(recipe))


def finish(
    run: RunDirectory, fitted: FitResult, tracker: Tracker, write_others: Callable[[], None], keep_state: bool
) -> None:
    """Write predictions, then what `write_others` writes, then result.json, and close the tracker.

    Only the first process calls this. A run with a result.json is complete. A run that ends earlier has a checkpoint.
    `vit train --resume`, or its study, continues it and comes here again. ResourceError: the run folder is gone.
    """
    if not run.config_path.is_file():
        raise run.gone()
    names = fitted.data.source.class_names
    for split, scored in fitted.scored.items():
        scored.write(run.scored_path(split), names, fitted.result.rules)
    write_others()
    if not run.config_path.is_file():
        raise run.gone()
    fitted.result.write(run.result_path)
    if not keep_state:
        run.last_path.unlink(missing_ok=True)
    tracker.finish()
