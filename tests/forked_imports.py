"""What the server of `tests.forked` imports before it forks: libraries and rooms that most programs under test need."""

from importlib import import_module

from vit.memory import collect_seldom
from vit.models.outside.timm_import import import_timm

collect_seldom()
import_timm()
for name in (
    "lightning.pytorch", "matplotlib.figure", "scipy.stats", "sklearn.datasets", "torchvision.transforms.v2",
    "vit.commands.training.train", "vit.report.run.run_figures", "vit.report.run.run_page", "vit.study.running.cell",
    "vit.training.fit",
    "vit.training.distributed.rendezvous", "vit.training.planning.plan",
):  # fmt: skip
    import_module(name)
