"""`vit probe DATA --backbones A,B,...`: which pretrained network fits these images best, by linear probes"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vit.commands.cli.arguments import ExecutorOptions, PositiveInt, StrPath, path_text, shell_command
from vit.commands.studies.study_cells import train_cells
from vit.commands.studies.study_estimate import show_study
from vit.commands.studies.study_options import StudyOptions, items
from vit.commands.studies.study_plan import make_study_plan
from vit.console import Reporter, count_of
from vit.data.core.dataset_names import check_data
from vit.errors import BadInputsError, EmptyClassError, UsageError, VitError
from vit.layout import RunLayout
from vit.models.catalog import check_network
from vit.ranges import ImageSide

if TYPE_CHECKING:
    from vit.study.frozen.backbones import Backbone

RANDOM = "random:"


@dataclass(frozen=True)
class ProbeSummary:
    """What `vit probe` found."""

    folder: Path  # folder of the study, which `vit.report` takes
    backbones: "list[Backbone]"  # the backbones, the most accurate first


def probe(
    data: StrPath,
    *,
    backbones: str,
    sizes: str = "all",
    seeds: PositiveInt = 5,
    image_size: ImageSide | None = None,
    groups: str | None = None,
    root: StrPath | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    out: StrPath = "studies",
    name: str | None = None,
    **where: Annotated[Any, ExecutorOptions],
) -> ProbeSummary:
    """Find the pretrained network whose features fit DATA best: a linear probe of each, with intervals.

    Each image is computed once for each backbone. Linear heads are then fitted for every size and seed, as in
    'vit study' with frozen backbones. Run the same command again to continue.

    Args:
        data: DATA as for 'vit train'
        backbones: weights as for --init_from, with commas between them: timm:NAME, hf:ORG/NAME, a file, a run; or
            random:NAME for a network with random weights
        sizes: numbers of training images: counts, percentages, all
        seeds: number of seeds; each draws its own training images where a size is below all
        image_size: side of the input in pixels; null: as each backbone was trained
        groups: regular expression that finds the group in each path, as data.groups of 'vit train'
        root: folder of torchvision data sets
        image_column: column of images (parquet) or of paths (CSV); null: the only one, or one with a usual name
        label_column: column of labels in a parquet table or a CSV; null: the only one, or the one with a usual name
        out: parent folder of study folders
        name: name of the study's folder; null: the data's name with _probe
        where: jobs=2, executor="slurm", cluster={"time": "2h"} as for `vit.study`

    Returns:
        The folder of the study, and the backbones with their accuracies.

    Raises:
        BadInputsError: a backbone failed.

    Example:
        vit probe photos/ --backbones timm:deit_tiny_patch16_224.fb_in1k,timm:resnet18.a1_in1k --sizes 50,200,all
    """
    import yaml

    check_data(os.fspath(data))
    ExecutorOptions(**where).check()
    folder = Path(out).expanduser() / (name or f"{Path(data).stem}_probe")
    parent, recipes, is_new = folder / "backbones", {}, not folder.exists()
    sources = _sources(items(backbones), parent)
    parent.mkdir(parents=True, exist_ok=True)
    for number, (label, weights) in enumerate(sources.items()):
        model = {"init_from": weights, "freeze": "backbone", "preprocess": {"image_size": image_size}}
        recipe = parent / f"recipe{number}.yaml"
        recipe.write_text(yaml.safe_dump({"model": model}), encoding="utf-8")
        recipes[label] = str(recipe)
    known = {"root": path_text(root), "groups": groups, "image_column": image_column, "label_column": label_column}
    of_data = {name: value for name, value in known.items() if value is not None}
    options = StudyOptions(
        source=os.fspath(data), networks=recipes, sizes=sizes, seeds=seeds, budget="epochs:1", data=dict(of_data),
        out=str(folder.parent), name=folder.name, wandb="off", **where,
    )  # fmt: skip
    reporter = Reporter()
    try:
        plan = make_study_plan(options, reporter)
        plan.source.check_one_class("vit probe")
    except VitError as error:
        if is_new:
            shutil.rmtree(folder)
        raise error.without_option() if isinstance(error, EmptyClassError) else error from None
    show_study(reporter, plan)
    num_failed = train_cells(plan, reporter)

    from vit.report.studies.study_page import report_study
    from vit.study.frozen.backbones import TITLES, accuracies, conditions, verdict, write_backbones
    from vit.study.frozen.frozen import measured_backbones

    ranking = measured_backbones(plan.folder.path, plan.cells, sources)
    write_backbones(ranking, plan.folder.backbones_path)
    findings = report_study(plan.folder.path, None)
    if len(plan.sizes) > 1:
        reporter.line("\nTest accuracy of the linear probes in %, with 95 % intervals, by number of training images")
        titles = ("backbone", *(f"{size:,}" for size in plan.sizes))
        reporter.table(titles, accuracies(findings, plan.sizes, [one.name for one in ranking]))
    reporter.line("\n" + conditions(ranking))
    reporter.table(TITLES, [one.cells() for one in ranking])
    measured = {one.name for one in ranking}
    reporter.line("\n" + verdict(ranking, [name for name in sources if name not in measured]))
    for warning in findings.warnings:
        reporter.notice(f"WARNING: {warning}")
    reporter.line()
    reporter.facts([("report", str(plan.folder.report_path)), ("table", str(plan.folder.backbones_path))])
    if num_failed:
        raise BadInputsError(f"{count_of(num_failed, 'probe')} failed", "see each log.txt, and give the command again")
    next_options: dict[str, str | None] = {f"data.{name}": value for name, value in of_data.items()}
    next_options |= {"init_from": ranking[0].source, "image_size": None if image_size is None else str(image_size)}
    reporter.next_command(shell_command("vit", "train", data, options=next_options))
    return ProbeSummary(plan.folder.path, ranking)


def _sources(words: list[str], folder: Path) -> dict[str, str]:
    """{short name: weights to start from}. Networks with random weights get a file in the folder, from a fixed seed."""
    if not words:
        raise UsageError("--backbones is empty", "give at least one, such as timm:deit_tiny_patch16_224.fb_in1k")
    sources: dict[str, str] = {}
    for word in words:
        label, network = _label(word), word.removeprefix(RANDOM)
        if label in sources:
            raise UsageError(f"--backbones has two backbones called {label}", "rename one of the files")
        sources[label] = word
        if network != word:
            check_network(network, option="--backbones")
            path = folder / f"{network}.ckpt"
            if not path.is_file():
                from vit.study.frozen.frozen import write_random

                folder.mkdir(parents=True, exist_ok=True)
                write_random(network, path)
            sources[label] = str(path)
    return sources


def _label(word: str) -> str:
    """A short name of weights: of a file or a model its own, of a run NETWORK/RUN, because runs are named by times."""
    path = Path(word).expanduser()
    if word.startswith(RANDOM):
        return word
    if RunLayout(path).config_path.is_file():
        return "/".join(path.resolve().parts[-2:])
    return word.rpartition(":")[2].rstrip("/").rpartition("/")[2].removesuffix(".safetensors").removesuffix(".ckpt")
