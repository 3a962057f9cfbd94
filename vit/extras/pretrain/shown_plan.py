"""The plan of a pretraining on the terminal: what is learned from which images, and where results go"""

from typing import TYPE_CHECKING

from vit.commands.tracker_plan import tracker_facts
from vit.commands.train_plan import augment_words, batch_words, length_facts, network_words, start_facts
from vit.console import Reporter, count_of

if TYPE_CHECKING:
    from vit.extras.pretrain.plan import PretrainPlan

METHODS = {
    "diet": "DIET: every image is a class of its own (arXiv 2406.10743)",
    "mae": "MAE: the pixels of hidden patches (arXiv 2111.06377)",
}
NO_PROGRESS = "without labels no accuracy shows the progress: the loss says little, look at the page's neighbors"


def show_pretrain_plan(reporter: Reporter, plan: "PretrainPlan", run: str) -> None:
    """Show what a pretraining will do.

    Args:
        run: the run folder, or why there is none.
    """
    reporter.line(f"Pretraining {plan.spec.name} on {plan.source.name}, without labels")
    reporter.facts(
        [
            ("method", METHODS[plan.recipe.method]),
            ("data", _data(plan)),
            *(("note", note) for note in plan.source.notes),
            ("progress", _progress(plan)),
            ("network", network_words(plan)),
            *start_facts(plan, ""),
            ("augment", augment_words(plan)),
            ("batch", batch_words(plan)),
            *length_facts(plan),
            ("device", f"{plan.device.type}, {plan.precision}"),
            ("run", run),
            *tracker_facts(plan.recipe, run),
        ]
    )


def _data(plan: "PretrainPlan") -> str:
    from vit.extras.pretrain.plan import num_labeled

    num_images, labeled = len(plan.source.splits["train"]), num_labeled(plan.source)
    return f"{count_of(num_images, 'image')} to learn from" + (f", {labeled:,} of them with a label" if labeled else "")


def _progress(plan: "PretrainPlan") -> str:
    """What shows the progress."""
    from vit.extras.pretrain.images import LABELED, QUERIES, has_progress, numbered
    from vit.extras.pretrain.neighbor_accuracy import NEIGHBORS

    if not has_progress(plan.source):
        return NO_PROGRESS
    splits = numbered(plan.source)
    return (
        f"accuracy of the {NEIGHBORS} nearest of {len(splits[LABELED]):,} labeled training images, for "
        f"{len(splits[QUERIES]):,} validation images; labels serve for nothing else"
    )
