"""Checks that end a training early: processes that differ, values that are not finite, validations without progress

A step whose loss is not finite may be skipped instead. Where validations bring nothing better, the end of the schedule
is moved, and not cut off: weights become better while the learning rate falls.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from vit.checkpoints.result import versions
from vit.data.core.batch import Batch
from vit.errors import DisagreementError, DivergedError
from vit.launch import of_all_processes
from vit.training.callbacks.checkpoints import PROGRESS, BestCheckpoint
from vit.training.optim import Decay
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import end_of_decay
from vit.training.recipes.recipe import NOT_IN_HASH
from vit.training.recipes.values import plain

_HASHED = ("images", "options")  # facts that a message does not show
_OF_A_MACHINE = ("source", "root", "unlabeled", "num_workers")  # options of the data that may differ
_MAX_SHOWN = 200  # characters of a fact in a message
CHECK_BATCHES = 50  # between two reads of a GPU
MAX_SKIPPED = 10  # steps in a row
MIN_SCALE = 2.0**-24  # of float16's losses: 2^16 falls to it by 40 steps that overflow, without one that does not
SHOWN = 3  # paths of a batch
_FIX_FLOAT16 = "give --precision bf16-mixed or 32-true, or lower --lr"
FIX = "lower --lr, raise --optim.warmup, or give --precision 32-true"


def facts_to_compare(plan: Plan) -> dict[str, str]:
    """What decides a training, as texts that processes can compare. Paths may differ between machines."""
    values = plain(plan.recipe)
    data = {key: value for key, value in values["data"].items() if key not in _OF_A_MACHINE}
    options = {key: value for key, value in values.items() if key not in {"data"} | NOT_IN_HASH}
    packages = {name: version for name, version in versions().items() if name != "python"}
    return {
        "classes": ", ".join(plan.source.class_names),
        "images": ", ".join(f"{split} {samples.fingerprint()}" for split, samples in plan.source.splits.items()),
        "options": hashlib.sha256(json.dumps([data, options], sort_keys=True).encode()).hexdigest(),
        **{f"versions of {name}": version for name, version in packages.items()},
    }


class ConsistencyCheck(Callback):
    """Compares the facts of all processes before the first step, and their weights before every validation.

    Otherwise different folders or program versions would go unnoticed, because each process sees only its own part of a
    batch. The comparison precedes the setup of DDP, which fails with an internal error where weights differ in shape.
    """

    def __init__(self, facts: dict[str, str]) -> None:
        self.facts = facts

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        others = of_all_processes(self.facts)
        for name in self.facts:
            odd = [str(rank) for rank, facts in enumerate(others) if facts[name] != others[0][name]]
            if odd:
                shown = "; ".join(dict.fromkeys(facts[name] for facts in others))
                shown = f" ({shown})" if name not in _HASHED and len(shown) < _MAX_SHOWN else ""
                problem = f"process {', '.join(odd)} has other {name}{shown} than process 0"
                raise DisagreementError(problem, "make the machines the same")

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size == 1:
            return
        # sharded weights exist once, so there is nothing to compare
        weights = [weight.detach() for weight in pl_module.parameters() if not isinstance(weight, DTensor)]
        if not weights:
            return
        others = of_all_processes(torch.stack([weight.double().sum() for weight in weights]).tolist())
        odd = [str(rank) for rank, other in enumerate(others) if other != others[0]]
        if odd:
            raise DisagreementError(
                f"the weights of process {', '.join(odd)} are not those of process 0 after step "
                f"{trainer.global_step:,}",
                "resume from the last checkpoint with --resume; if the error comes again, check that machine",
            )


class EarlyEnd(Callback):
    """Lets the learning rate fall where `patience` validations in a row are not better, or the length asks for it.

    All that it knows is in checkpoints, so that a resumed training ends at the same step with the same weights.
    """

    def __init__(self, patience: int, plan: Plan, best: BestCheckpoint, notice: Callable[[str], None]) -> None:
        self.patience, self.plan, self.best, self.notice = patience, plan, best, notice
        self._best_at = 0  # number of the best validation
        self._fell_at: int | None = None  # number of the validation after which the rate falls

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._fell_at is not None:
            self._decay(trainer, pl_module, self._fell_at)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        done, rounds = trainer.current_epoch + 1, self.plan.rounds
        if self.best.is_better(trainer):  # which Lightning saves after this
            self._best_at = done
        if self._fell_at is not None or done * self.plan.steps_per_round < self.plan.warmup_steps:
            return
        is_over, end = done - self._best_at >= self.patience, end_of_decay(done, rounds)
        if is_over or end == rounds:
            self._fell_at = done
            self._decay(trainer, pl_module, done)
        if is_over and end < rounds:
            name = self.plan.validation_name
            self.notice(
                f"{name} {self._best_at} is still the best: the learning rate falls from now on, and the training ends "
                f"with {name} {end} instead of {rounds}"
            )

    def _decay(self, trainer: Trainer, pl_module: LightningModule, done: int) -> None:
        """Let the rate fall from the `done`-th validation on. The rate of the next step is set already: the highest."""
        decay, end = pl_module.decay, end_of_decay(done, self.plan.rounds)
        assert isinstance(decay, Decay)
        decay.start, decay.end = done * self.plan.steps_per_round, end * self.plan.steps_per_round
        trainer.fit_loop.max_epochs = end

    def state_dict(self) -> dict[str, Any]:
        return {"best_at": self._best_at, "fell_at": self._fell_at}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._best_at, self._fell_at = state_dict["best_at"], state_dict["fell_at"]


class NonFinite(Callback):
    """Checks losses, gradients and weights. The first bad step ends the training, or with `skip` is skipped.

    To stop, it keeps the losses on their device. It reads them rarely, because each read waits for a GPU.
    To skip, it reads every step before the optimizer acts, and removes the gradients of a bad step. Without gradients
    an optimizer changes neither the weights nor its own state. The buffers that the forward pass changed (running
    means) get their previous values. A step that float16's scaler leaves out, as gradients overflow, counts as skipped.
    """

    def __init__(self, network: nn.Module, skip: bool) -> None:
        self.network, self.skip = network, skip
        self.skipped, self.skipped_step, self.in_a_row = 0, -1, 0
        self._bad_step = 0
        self._unread: list[tuple[int, Tensor]] = []  # steps with their losses
        self._finite: Tensor | None = None  # whether all losses of this optimizer step are finite so far
        self._buffers: list[Tensor] = []
        self._paths: tuple[str, ...] = ()
        self._step = 0
        self._scale = 0.0  # of float16's losses after the latest step

    @property
    def bad_step(self) -> int:
        """The first optimizer step with a bad loss, counted from 1; 0 without one. The read waits for the device."""
        if self._unread:
            steps, losses = zip(*self._unread, strict=True)
            self._unread = []
            finite = torch.stack(losses).isfinite().tolist()
            bad = (step for step, is_finite in zip(steps, finite, strict=True) if not is_finite)
            self._bad_step = self._bad_step or next(bad, 0)
        return self._bad_step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._step, self._scale = trainer.global_step, _scale(trainer)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        self._paths = tuple(batch.path[:SHOWN])
        if self.skip and self._finite is None:  # before an optimizer step
            self._buffers = [buffer.clone() for buffer in self.network.buffers()]

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Keep the loss of a batch, and read the losses now and then: on a CPU always, on a GPU rarely."""
        if self.skip:
            finite = loss.detach().isfinite()
            self._finite = finite if self._finite is None else self._finite & finite
            return
        step = trainer.global_step + 1
        self._unread.append((step, loss.detach()))
        is_due = trainer.fit_loop.total_batch_idx % CHECK_BATCHES == 0 or trainer.is_last_batch
        if (is_due or loss.device.type == "cpu") and self.bad_step:
            raise _bad_loss(self.bad_step, trainer, self._paths if self.bad_step == step else ())

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Skip the step if a loss or a gradient of any process is not finite."""
        if not self.skip:
            return
        gradients = [weight.grad for weight in self.network.parameters() if weight.grad is not None]
        finite = _whole(torch.nn.utils.get_total_norm(gradients)).isfinite()
        if self._finite is not None:
            finite = finite & self._finite.to(finite.device)
        self._finite = None
        if trainer.strategy.reduce_boolean_decision(bool(finite)):
            self.in_a_row = 0
            return
        for weight in self.network.parameters():
            weight.grad = None
        for buffer, before in zip(self.network.buffers(), self._buffers, strict=True):
            buffer.copy_(before)
        self.skipped_step = trainer.global_step
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row == MAX_SKIPPED:
            raise DivergedError(
                f"loss or gradient is not a number in {MAX_SKIPPED} steps in a row, the last one step "
                f"{self.skipped_step + 1:,} ({_rate(trainer)})",
                FIX,
            )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Count a step that float16's scaler left out. With a scale near zero, all further steps would be left out."""
        before, self._scale = self._scale, _scale(trainer)
        if trainer.global_step == self._step:
            return  # only a micro-batch
        self._step = trainer.global_step
        if self._scale < before and not self.skip:
            self.skipped, self.skipped_step = self.skipped + 1, self._step - 1
        if self._scale < MIN_SCALE:
            problem = f"gradients do not fit into float16 at any scale, after step {self._step:,} ({_rate(trainer)})"
            raise DivergedError(problem, _FIX_FLOAT16)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise DivergedError where no step changed the weights."""
        if self.skipped and self.skipped >= trainer.global_step:
            fix = FIX if trainer.precision_plugin.precision != "16-mixed" else f"train for longer; {_FIX_FLOAT16}"
            raise DivergedError(f"all {self.skipped:,} steps were skipped: nothing was learned ({_rate(trainer)})", fix)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the counts of skipped steps. A good checkpoint must not be replaced by a useless one."""
        bad_step = max(of_all_processes(self.bad_step))
        if bad_step:
            raise _bad_loss(bad_step, trainer)
        sums = [_whole(weight.detach().sum()).isfinite() for weight in self.network.parameters()]
        if not torch.stack(sums).all():
            step = trainer.global_step
            raise DivergedError(f"the weights are not numbers after step {step:,} ({_rate(trainer)})", FIX)
        counts = {"skipped": self.skipped, "skipped_step": self.skipped_step, "in_a_row": self.in_a_row}
        checkpoint.setdefault(PROGRESS, {}).update(counts)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        counts = checkpoint[PROGRESS]
        self.skipped, self.skipped_step, self.in_a_row = counts["skipped"], counts["skipped_step"], counts["in_a_row"]


def _whole(number: Tensor) -> Tensor:
    return number.full_tensor() if isinstance(number, DTensor) else number


def _scale(trainer: Trainer) -> float:
    """The scale of float16's losses; 1 without float16."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return 1.0 if scaler is None else float(scaler.get_scale())


def _bad_loss(step: int, trainer: Trainer, paths: tuple[str, ...] = ()) -> DivergedError:
    images = f"; images of the batch: {', '.join(paths)}, ..." if paths else ""
    return DivergedError(f"the loss is not a number at step {step:,} ({_rate(trainer)}{images})", FIX)


def _rate(trainer: Trainer) -> str:
    """The highest rate of all groups, because layer decay lowers the others."""
    return f"learning rate {max(group['lr'] for group in trainer.optimizers[0].param_groups):.2g}"
