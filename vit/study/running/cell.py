"""One cell of a study in its own process: an ordinary run in a known folder"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import connection, parent_process
from pathlib import Path

import torch

from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import known_contents, read_contents
from vit.data.splits.split import read_fold
from vit.errors import StoppedError, VitError
from vit.inference.devices import autocast
from vit.inference.engine import Engine
from vit.inference.scores.scored_images import ScoredImages
from vit.launch import forget_launcher
from vit.layout import CELLS
from vit.own_code import trust
from vit.plain_files import read_text
from vit.study.fold_table import FoldPredictions
from vit.training.distillation import TeacherLogits
from vit.training.fit import TrackedRows, check_unchanged, finish, fit, write_beginning
from vit.training.network.features import SharedFeatures
from vit.training.planning.plan import Plan, plan_of
from vit.training.recipes.recipe import Recipe, own_code
from vit.training.recipes.values import plain
from vit.training.running.oom_retry import as_begun
from vit.training.running.run_images import check_readable, seen_before
from vit.training.tracking.open import open_trackers
from vit.training.tracking.tracker import NUMBERS_ALONE, Tracking, tracked

SLOW_TIMING = 10.0  # seconds after which two steps are enough


def run_cell(
    recipe: Recipe, folder: Path, features: Path, threads: int, gpu: int | None, group: str, digests: Mapping[str, str]
) -> None:
    """Train a cell into its folder, or resume it; log.txt gets its output, and failure.txt the reason of a failure.

    The process ends with code 0, or with 1 after a failure. It ends at once if its parent process is gone: a new
    process of the same study may train this cell, and two trainings must not write into one folder. `gpu` is an index
    among the visible GPUs (None: the CPU), `group` the name of the study at trackers, and `digests` {path: digest} of
    the images, which the study has read already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = RunDirectory(folder)
    _begin(recipe, run.log_path, threads, gpu)
    with run.held(wait=True):
        run.failure_path.unlink(missing_ok=True)
        try:
            _train(recipe, run, features, group, digests)
        except StoppedError as error:  # its state is saved, and another start continues: not a failure of the cell
            sys.exit(error.code)
        except BaseException as error:  # noqa: BLE001  the study must be able to report any failure
            traceback.print_exc()
            run.failure_path.write_text(_text(error) + "\n", encoding="utf-8")
            sys.exit(1)


def _train(recipe: Recipe, run: RunDirectory, features: Path, group: str, digests: Mapping[str, str]) -> None:
    if run.result_path.is_file():
        return  # another shard, or an earlier start of the study, has trained this cell
    plan = plan_of(recipe)
    has_begun = run.can_resume and run.config_path.is_file()
    begun = as_begun(plan, read_text(run.config_path)) if has_begun else None
    plan, resume = begun or plan, begun is not None
    contents = known_contents(plan.source, digests) or read_contents(plan.source)
    check_readable(plan.source, contents)
    plan = replace(plan, seen_before=seen_before(plan.recipe, plan.source, contents))
    if resume:
        check_unchanged(run, plan.source, contents, may_have_moved=True)
    else:
        ids = (run.wandb_id_path, run.mlflow_run_path)  # another recipe is another run at a tracker
        for file in (run.splits_path, run.metrics_path, run.last_path, run.previous_path, run.best_path, *ids):
            file.unlink(missing_ok=True)
        write_beginning(run, plan.recipe, plan.source, contents)
    study = next((parent.parent for parent in run.path.parents if parent.name == CELLS), run.path)
    settings = Tracking(run.path, study, recipe.name or run.path.name, group, plain(plan.recipe), NUMBERS_ALONE)
    tracker = open_trackers(plan.recipe, settings, print)
    is_probe = plan.recipe.model.freeze == "backbone"
    shared = SharedFeatures(features, contents.by_path(plan.source)) if is_probe else None
    with tracked(tracker):
        fitted = fit(plan, run, [TrackedRows(tracker)], resume=resume, shared=shared)
    values = {name: metric["value"] for name, metric in fitted.result.metrics.items()}
    if recipe.data.fold is not None:
        scored, test = fitted.scored["test"], fitted.data.source.splits["test"]
        assert isinstance(scored, ScoredImages)  # folds of several labels are refused
        number, _ = read_fold(recipe.data.fold)
        FoldPredictions.of_fold(scored, test, plan.source.class_names, number).write(run.fold_path)
    finish(run, fitted, tracker, lambda: tracker.summary(values), plan.recipe.trainer.keep_state)


def time_cell(recipe: Recipe, threads: int, gpu: int | None, answer: connection.Connection) -> None:
    """Send the seconds of a training step and of scoring an image through a pipe; the words of an error instead."""
    _begin(recipe, Path(os.devnull), threads, gpu)
    try:
        answer.send(_timed(plan_of(recipe)))
    except Exception as error:  # noqa: BLE001  the study names the reason, whatever it is
        answer.send(_text(error))


def _text(error: BaseException) -> str:
    words = str(error) if isinstance(error, VitError) else f"{type(error).__name__}: {error}"
    return " ".join(words.split())[:1000]


def _timed(plan: Plan) -> tuple[float, float]:
    """(seconds of an optimizer step with all its micro-batches, seconds of scoring an image).

    A linear probe has no such steps: 0 seconds.
    """
    network = plan.build_network().to(plan.device)
    engine = Engine(network, plan.preprocess, plan.device, plan.precision)
    data = plan.data_module()
    teacher = None
    if plan.teacher is not None:
        teacher = TeacherLogits(plan.teacher, plan.preprocess, plan.source.class_names, plan.device, plan.precision)
    batch = next(iter(data.train_dataloader()))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
    seconds, scoring = [], []
    for _ in range(0 if plan.recipe.model.freeze == "backbone" else 4):
        started = time.perf_counter()
        for _ in range(plan.recipe.optim.accumulate):
            image, label = batch.image.to(plan.device), batch.label.to(plan.device)
            images = data.augmented(replace(batch, image=image, label=label))
            network.train()
            if teacher is not None:
                teacher.of(images)
            with autocast(plan.precision, plan.device):
                loss = torch.nn.functional.cross_entropy(network(images.image).float(), images.label)
            loss.backward()
            float(loss.detach())  # waits for a GPU
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - started)
        if len(seconds) > 1 and sum(seconds) > SLOW_TIMING:
            break
    network.eval()
    for _ in range(2):
        started = time.perf_counter()
        engine.probabilities(batch.image)
        scoring.append(time.perf_counter() - started)
    step = sorted(seconds[1:])[len(seconds[1:]) // 2] if seconds else 0.0  # the first step warms up
    return step, min(scoring) / len(batch.label)


def _begin(recipe: Recipe, log: Path, threads: int, gpu: int | None) -> None:
    """Prepare this process for a cell, before anything uses CUDA: of the visible GPUs it sees one."""
    _end_with_parent()
    forget_launcher()
    for path in own_code(recipe):  # which the user has named in the options of the study
        trust(path)
    _redirect_output(log)
    if gpu is not None:  # a scheduler or a user may have chosen GPUs by number or by name: "2,3", "GPU-89,MIG-..."
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = [name.strip() for name in visible.split(",")] if visible.strip() else []
        os.environ["CUDA_VISIBLE_DEVICES"] = names[gpu] if names else str(gpu)
    torch.set_num_threads(threads)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _redirect_output(path: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
