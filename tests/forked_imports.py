"""What the server of `tests.forked` imports before it forks: libraries and rooms that most programs under test need."""

from importlib import import_module

from vit.memory import collect_seldom
from vit.models.network_names import import_timm
from vit.registry import command_module

collect_seldom()
import_timm()
for name in (
    "tests.forked", "hypothesis.strategies", "lightning.pytorch", "matplotlib.figure", "scipy.stats",
    "sklearn.datasets", "torchvision.transforms.v2", "vit.report.run.run_page", "vit.study.running.cell",
    "vit.training.fit", "vit.training.distributed.processes", "vit.training.planning.plan",
):  # fmt: skip
    import_module(name)
for command in ("train", "pretrain"):  # whose drawing `tests.forked` leaves out
    command_module(command)
