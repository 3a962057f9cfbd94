"""`vit study DATA`: networks, numbers of images and seeds; which network is better with how many images"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.atomic_files import write_json
from vit.checkpoints.locking import alone
from vit.commands.cli.arguments import StrPath, without
from vit.commands.studies.study_cells import train_cells
from vit.commands.studies.study_estimate import check_time, show_estimate, show_study, with_design
from vit.commands.studies.study_options import StudyOptions, read_values, read_words
from vit.commands.studies.study_plan import StudyPlan, make_study_plan, of_folds
from vit.commands.studies.study_report import report_findings, track_findings
from vit.commands.studies.study_series import fold_sources
from vit.console import Reporter, count_of, duration, percent
from vit.errors import UsageError
from vit.layout import FEATURES

if TYPE_CHECKING:
    from vit.study.findings import CellResult, JsonValue

FAILED_CELLS = 5  # exit code
OF_TRAININGS = ("time", "seconds", "numbers of seeds", "jobs", "part of the usual length")
_ABOUT = (
    "Preliminary answer, of frozen networks: linear heads on features of the published weights. Fine-tuned networks, "
    "which are trained next, usually make fewer errors and can rank otherwise:"
)


def frozen_first(plan: StudyPlan, reporter: Reporter) -> None:
    """Where a time decides and every network starts from weights: show what heads on their features say.

    The folder `frozen` of the study gets results.csv, summary.json, curve.png and report.html.
    """
    from vit.report.studies.study_page import write_study_report
    from vit.study.answer.summary import summarize, to_json, write_results
    from vit.study.answer.wording import LINEAR_PROBE, PROBE_WORDS
    from vit.study.folder import StudyDirectory
    from vit.study.frozen.frozen import AGREEMENT, FROZEN_SEEDS, frozen_results, frozen_sizes

    study = StudyDirectory(plan.folder.frozen_dir)
    models = [recipe.model for recipe in plan.firsts.values()]
    has_weights = all(model.init_from and model.freeze != "backbone" for model in models)
    is_tuned = any(len(choices) > 1 for choices in plan.series.values())
    are_equal = len({(model.init_from, str(model.network)) for model in models}) < len(models)
    is_open = plan.design is not None and plan.source.task.is_exclusive and has_weights
    if not is_open or is_tuned or are_equal:
        return
    began = time.monotonic()
    sizes = frozen_sizes(plan.pool, len(plan.source.class_names))
    data = next(iter(plan.firsts.values())).data
    sources = fold_sources(data, None, FROZEN_SEEDS) if plan.folds else [plan.source] * FROZEN_SEEDS
    about = f"{_ABOUT} {AGREEMENT}."
    data_text, seeds = f"{plan.source.name} by frozen networks: a preliminary answer", list(range(FROZEN_SEEDS))
    of_probes: dict[str, JsonValue] = {
        "sizes": sizes, "seeds": seeds, "note": about, "data": data_text, "budget": LINEAR_PROBE,
        "budget_words": PROBE_WORDS,
    }  # fmt: skip
    if plan.folds:
        images = {split: len(samples) for split, samples in sources[0].splits.items()} | {"train": plan.pool}
        of_probes |= {"images": images, **of_folds(FROZEN_SEEDS)}
    protocol = {key: value for key, value in plan.protocol.items() if key not in OF_TRAININGS} | of_probes
    if (before := plan.folder.preliminary()) is not None and before.protocol == protocol:
        return  # of the same images and weights
    all_images = count_of(sum(plan.num_images.values()), "image")
    reporter.notice(f"\nFrozen networks first: features of {all_images} by each network, then heads")
    results: list[CellResult] = []
    features, digests = plan.folder.path / FEATURES, plan.contents.by_path(plan.source)
    for name, recipe in plan.firsts.items():
        try:
            results += frozen_results(name, recipe, sizes, sources, features, digests)
        except UsageError as error:  # a network without one last layer
            reporter.notice(f"There is no preliminary answer: {error.problem}")
            return
        heads = count_of(len(sizes) * FROZEN_SEEDS, "head")
        reporter.notice(f"  {name}: {heads}, {duration(time.monotonic() - began)}")
    findings = summarize(results, protocol, [], None)
    study.path.mkdir(parents=True, exist_ok=True)
    write_results(results, findings.protocol, study.results_path)
    write_study_report(findings, study.path)
    write_json(study.summary_path, to_json(findings))
    for line in filter(None, (f"\n{about}", *findings.answer, findings.trend)):
        reporter.line(line)
    rows = [(f"{size:,}", *(percent(one.at[size].mean.value, 1) for one in findings.series)) for size in sizes]
    reporter.table(("images", *(one.name for one in findings.series)), rows)
    reporter.facts([("figure", str(study.curve_path)), ("report", str(study.report_path))])


def study(data: StrPath | None = None, *, config: StrPath | Sequence[StrPath] | None = None, **options: object) -> Path:
    """Compare networks over growing numbers of training images, with several seeds, and report with intervals.

    Finished cells of the same study are not trained again.

    Args:
        data: images as `vit.train` takes them; None: the data of the recipes.
        config: YAML files of a study, or names of shipped studies; a later one stands above an earlier one.
        options: options of `vit study` by their names: networks=["vit_tiny_cifar", "resnet18_cifar"],
            sizes=[100, 300, "all"], seeds=5, budget="steps:2000", vary={"model.network.pool": ["cls", "mean"]},
            set={"optim.lr": 0.001}, `**{"data.root": "sets/"}`.

    Returns:
        The folder of the study, which `vit.report` takes. Its report names cells that have failed.

    Raises:
        VitError: an option, the data or the machine does not allow the study, or no cell is finished.

    Example:
        vit.study("photos/", seeds=5)
    """
    from vit.study.running.runner import end_if_imported

    end_if_imported()
    parsed = read_values(data, config, options)
    if parsed.dry_run:
        raise UsageError("a dry run leaves no study folder", "leave dry_run out, or use the command line")
    plan, _ = run_study(parsed, Reporter())
    return plan.folder.path


def main(words: Sequence[str]) -> int:
    """`vit study`: `study` with the options of a command line; returns the exit code."""
    options, reporter = read_words(words), Reporter()
    _, num_failed = run_study(options, reporter, words)
    if options.dry_run:
        reporter.next_command(f"vit study {without(words, '--dry_run')}")
    return FAILED_CELLS if num_failed else 0


def run_study(options: StudyOptions, reporter: Reporter, words: Sequence[str] = ()) -> tuple[StudyPlan, int]:
    """Run the cells without a result, and report, with the words of a command line; the plan, and how many failed."""
    plan = make_study_plan(options, reporter)
    if plan.is_by_time:
        plan = with_design(plan, reporter)
    show_study(reporter, plan)
    if options.dry_run:
        show_estimate(reporter, plan)
        return plan, 0
    check_time(reporter, plan)

    frozen_first(plan, reporter)
    num_failed = train_cells(plan, reporter)
    with alone(plan.folder.lock_path):  # of shards that end together, the last one reports the cells of all
        findings = report_findings(reporter, plan.folder.path, options.target, options.margin, words)
        track_findings(plan, findings, reporter)
    return plan, num_failed
