"""The network that a training starts from: its weights, adapters, and batch norm over all processes"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from vit.checkpoints.format import Description
from vit.checkpoints.label_rules import unfitted_rules
from vit.checkpoints.result import versions
from vit.models.network import Network
from vit.training.distributed.batch_norm import synchronized
from vit.training.lora import add_adapters
from vit.training.network.head_start import fits_head, start_head, start_rows
from vit.training.planning.network_choice import keeps_rows, network_of_weights
from vit.training.planning.plan import Plan
from vit.weights.licence import UNKNOWN
from vit.weights.open import open_pretrained


@dataclass(frozen=True)
class InitialNetwork:
    """The network that a training starts from.

    Attributes:
        network: network, ready to train.
        licence: licence of its weights; None: random weights, not stated, or a resumed training.
        seconds: time of the linear probe that fitted the last layer, or of the features of new classes.
    """

    network: Network
    licence: str | None = None
    seconds: float = 0.0


def initial_network(
    plan: Plan, resume: bool, notice: Callable[[str], None], has_classes: bool = True
) -> InitialNetwork:
    """The network of a plan, ready to train.

    Args:
        resume: whether a checkpoint will replace the weights, so that pretrained weights are not needed.
        notice: receiver of the origin of all weights, line by line.
        has_classes: whether the layers for classes stay, so that their initial values are worth a line.
    """
    network = plan.build_network()
    model = plan.recipe.model
    facts: list[tuple[str, str]] = []
    licence, has_new_head, seconds = None, False, 0.0
    new_rows: tuple[str, ...] = ()
    if model.init_from is not None and not resume:
        pretrained = open_pretrained(model.init_from, network_of_weights(model))
        names = plan.source.class_names if has_classes else None
        report = pretrained.fill(network, names, keeps_rows(model, plan.source))
        facts += [*pretrained.facts(plan.preprocess), *report.facts()]
        if guesses := pretrained.guesses_of_training(network, plan.preprocess):
            notice(
                f"WARNING: {model.init_from} does not state these values, so they are guesses: {guesses}; "
                "--model.network.num_heads and --model.preprocess.mean, ... replace them"
            )
        has_new_head, new_rows = bool(report.initialized), report.new_rows
        licence = None if pretrained.licence == UNKNOWN else pretrained.licence
    if model.lora is not None:
        facts += add_adapters(network, model.lora)
    for name, value in facts if has_classes else (fact for fact in facts if fact[0] != "initialized"):
        notice(f"weights, {name}: {value}")
    began = time.perf_counter()
    if new_rows:
        start_rows(network, plan, new_rows)
        seconds = time.perf_counter() - began
    elif has_new_head and has_classes and fits_head(model, network):
        start_head(network, plan, notice)
        seconds = time.perf_counter() - began
    if plan.world_size > 1:
        network = synchronized(network, plan.device)
    return InitialNetwork(network.laid_out_for(plan.device), licence, seconds)


def describe(plan: Plan, licence: str | None) -> Description:
    """The description that every checkpoint of a training holds.

    Args:
        licence: licence of the weights that the training starts from.
    """
    names = plan.source.class_names
    rules = unfitted_rules(plan.source.task, len(names))
    return Description(
        names, plan.spec, plan.preprocess, plan.precision, versions=versions(), multilabel=rules, licence=licence
    )
