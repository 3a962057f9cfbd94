"""Checks that all processes train the same network on the same images with the same program"""

import hashlib
import json

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.distributed.tensor import DTensor

from vit.checkpoints.result import versions
from vit.errors import DisagreementError
from vit.training.distributed.processes import gathered
from vit.training.planning.plan import Plan
from vit.training.recipes.recipe import NOT_IN_HASH
from vit.training.recipes.values import plain

_HASHED = ("images", "options")  # facts that a message does not show
_OF_A_MACHINE = ("source", "root", "unlabeled", "num_workers")  # options of the data that may differ
_MAX_SHOWN = 200  # characters of a fact in a message


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

    Args:
        facts: what must be the same, by the name that an error shows; see `facts_to_compare`.
    """

    def __init__(self, facts: dict[str, str]) -> None:
        self.facts = facts

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        others = gathered(self.facts)
        for name in self.facts:
            odd = [str(rank) for rank, facts in enumerate(others) if facts[name] != others[0][name]]
            if odd:
                shown = "; ".join(dict.fromkeys(facts[name] for facts in others))
                shown = f" ({shown})" if name not in _HASHED and len(shown) < _MAX_SHOWN else ""
                raise DisagreementError(
                    f"process {', '.join(odd)} has other {name}{shown} than process 0", "make the machines the same"
                )

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size == 1:
            return
        # sharded weights exist once, so there is nothing to compare
        weights = [weight.detach() for weight in pl_module.parameters() if not isinstance(weight, DTensor)]
        if not weights:
            return
        others = gathered(torch.stack([weight.double().sum() for weight in weights]).tolist())
        odd = [str(rank) for rank, other in enumerate(others) if other != others[0]]
        if odd:
            raise DisagreementError(
                f"the weights of process {', '.join(odd)} are not those of process 0 after step "
                f"{trainer.global_step:,}",
                "resume from the last checkpoint with --resume; if the error comes again, check that machine",
            )
