"""What `vit export` says of an export: how it differs from the checkpoint, its size, its speed, and how it is loaded"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.arguments import StrPath
from vit.console import Reporter, count_of, interval

if TYPE_CHECKING:
    from vit.export.card_facts import Int8Cost, MeasuredImages
    from vit.export.int8 import Int8Answers
    from vit.export.verify import Difference, Structure
    from vit.inference.deployed import Trained


def int8_cost(answers: "Int8Answers", images: "MeasuredImages") -> "Int8Cost":
    """Both accuracies on the same images, and their paired difference with its interval."""
    from vit.export.card_facts import Int8Cost
    from vit.inference.image_groups import number_of
    from vit.inference.intervals import Metric
    from vit.study.paired import paired_gap

    gap = paired_gap(answers.reference, answers.correct, answers.groups)
    assert gap.low is not None
    assert gap.high is not None
    found, reference = (Metric.share(one, answers.groups) for one in (answers.correct, answers.reference))
    is_calibrated = answers.temperature not in (None, answers.before)
    loss = Metric(gap.value, gap.low, gap.high)
    return Int8Cost(images, len(answers.correct), found, reference, loss, is_calibrated, number_of(answers.groups))


def show_answers(reporter: Reporter, answers: "Int8Answers", cost: "Int8Cost") -> None:
    """Show what int8 costs on labeled images."""
    from vit.study.paired import mcnemar

    table = mcnemar(answers.reference, answers.correct)
    points = [100 * value for value in (cost.loss.value, cost.loss.low, cost.loss.high)]
    right = "accuracy" if answers.micro_f1 is None else "exact match"
    facts = [
        ("calibrated on", f"{count_of(answers.num_calibrated, 'image')}"),
        ("measured on", f"{cost.measured_on}; 95 % intervals"),
        (f"{right}, checkpoint", interval(cost.reference.value, cost.reference.low, cost.reference.high)),
        (f"{right}, int8", interval(cost.accuracy.value, cost.accuracy.low, cost.accuracy.high)),
        (f"loss of {right}", "{:.2f} points ({:.2f} to {:.2f}), paired".format(*points)),
        ("images", f"{table.only_first:,} right before alone, {table.only_second:,} right in int8 alone"),
        ("labels", f"of {count_of(answers.num_labels, 'image')} differ, probabilities by up to {answers.largest:.2g}"),
    ]
    if answers.micro_f1 is not None:
        facts.append(("micro F1", "{:.3f} in the checkpoint, {:.3f} in int8".format(*answers.micro_f1)))
    if answers.temperature is not None:
        stays = f"stays {answers.before:.3f}: the images do not tell it from that of the checkpoint"
        fitted = f"{answers.temperature:.3f}, fitted on these images; {answers.before:.3f} in the checkpoint"
        facts.append(("temperature", stays if answers.temperature == answers.before else fitted))
    else:
        facts.append(("temperatures", "of all labels stay those of the checkpoint, and so do thresholds"))
    reporter.facts(facts)


def show_difference(
    reporter: Reporter, difference: "Difference | Structure", files: Sequence[str], verify: StrPath | None
) -> None:
    """Show how far probabilities differ from the checkpoint's, and pixels where the library prepares them itself."""
    from vit.export.verify import Structure

    if isinstance(difference, Structure):
        reporter.line(difference.words)
        return
    where = f"{difference.num_images:,} of {len(files):,} files of {verify}" if files else "random images"
    reporter.line(f"compared on {where}: no label differs, probabilities by {difference.largest:.1e} at most")
    peer = difference.peer
    if peer is not None and not peer.num_images:
        reporter.line(f"{peer.library}'s own transform was not compared: Pillow decodes all files otherwise")
    elif peer is not None:
        left_out = f", {peer.num_others:,} that Pillow decodes otherwise left out" if peer.num_others else ""
        reporter.line(
            f"{peer.library}'s own transform, from the bytes of {peer.num_images:,} files{left_out}: pixels differ by "
            f"{peer.gray:.2f} gray levels on average at most, probabilities by {peer.largest:.1e}, "
            f"labels of {peer.num_labels:,} files"
        )
        if peer.num_shifted:
            reporter.line(
                f"{peer.library} rounds half a pixel down: the middle square of {peer.num_shifted:,} files lies one "
                "pixel higher or farther left than here, which changes their probabilities a little"
            )


def show_licence(reporter: Reporter, trained: "Trained") -> None:
    """Show the licence of the weights that the training started from."""
    from vit.weights.licence import licence_words, restricts

    licence = trained.description.licence
    if licence is not None:
        show = reporter.notice if restricts(licence) else reporter.line
        show(f"licence of the first weights: {licence_words(licence)}")


def show_size_and_speed(
    reporter: Reporter, trained: "Trained", format: str, precision: str, path: Path, runs: bool
) -> None:
    """Show one table for all formats: the export beside its checkpoint.

    Args:
        runs: whether the export can be computed here.
    """
    from vit.export.exporting import FORMATS
    from vit.export.int8 import int8_reader
    from vit.export.speed import measured_speed, size_of

    name = f"{format}, int8" if precision == "int8" else format
    weights = sum(value.nbytes for value in trained.network.state_dict().values())
    sizes = f"{weights / 1e6:.1f} MB of weights", f"{size_of(path) / 1e6:.1f} MB"
    reporter.line()
    if not runs:
        reporter.table(("", "size", "images/s"), [("checkpoint", sizes[0], ""), (name, sizes[1], "not measured")])
        return
    exported = int8_reader(format, path) if precision == "int8" else FORMATS[format].read(trained, path)
    speed = measured_speed(trained, exported)
    rows = [
        ("checkpoint", sizes[0], f"{speed.reference:,.1f}", "1.0"),
        (name, sizes[1], f"{speed.exported:,.1f}", f"{speed.exported / speed.reference:.1f}"),
    ]
    reporter.table(("", "size", "images/s", "times as fast"), rows)
    threads = f"{speed.threads} thread{'s' * (speed.threads != 1)}"
    reporter.line(f"CPU, {threads}, batches of {speed.batch_size}; of this machine, as busy as it is")


def show_how_to_load(reporter: Reporter, trained: "Trained", format: str, path: Path) -> None:
    """Show Python code that loads the export."""
    from vit.export.exporting import FORMATS

    reporter.line()
    for line in FORMATS[format].how_to_load(trained, path).splitlines():
        reporter.line(line)
