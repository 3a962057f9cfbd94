"""Measured images that a teacher has trained on: a network that learned them from it is measured too well"""

from vit.checkpoints.run import RunDirectory, checkpoint_of
from vit.data.contents import Contents
from vit.data.samples import Source
from vit.training.distillation.teacher import Teacher
from vit.training.run_images import MEASURED, seen_in_training


def overlap_words(teacher: Teacher, source: Source, contents: Contents) -> str:
    """A warning of validation and test images that the teacher has trained on; empty without such images.

    Only a teacher in its run folder says which images it has trained on.
    """
    run = RunDirectory(checkpoint_of(teacher.path).absolute().parent.parent)
    if not run.splits_path.is_file():
        return ""
    seen = {
        split: len(seen_in_training(run, source, split, contents)["train"])
        for split in MEASURED
        if split in source.splits
    }
    counts = [f"{count:,} of {len(source.splits[split]):,} {split} images" for split, count in seen.items() if count]
    if not counts:
        return ""
    return (
        f"WARNING: the teacher {teacher.path} has trained on {' and '.join(counts)}, so that results on them are too "
        "good; train both networks with the same splits"
    )
