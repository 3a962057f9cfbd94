"""Parts of a run's page that do not depend on whether an image has one class or several labels"""

from dataclasses import dataclass

from markupsafe import Markup

from vit.checkpoints.model_path import weights_name
from vit.checkpoints.result import RunResult, rule_words
from vit.checkpoints.run import RunDirectory
from vit.plain_files import parse_yaml, read_text
from vit.report.figures import curves, range_curve
from vit.report.inline_figure import drawn
from vit.report.loss_words import LossWords
from vit.report.run_tables import facts
from vit.training.range_test import RangeTest

MOST_CLASSES = 1000  # rows of a table of classes
MOST_PICTURES = 24  # of the worst images, and of the least confident
EXPLAINED = 6  # right and wrong images with a map each


@dataclass(frozen=True)
class CommonContent:
    """What the templates of both pages print.

    Attributes:
        warnings: sentences about measured images that the network knew already, and about classes without test images,
            without a full stop.
    """

    network: str
    data: str
    folder: str
    first_weights: str
    warnings: list[str]
    curves: Markup
    loss_words: str
    range_test: Markup | None
    validation_name: str
    best_epoch: int
    best_rule: str
    facts: list[tuple[str, str]]
    config_name: str
    config: list[str]


def common_content(run: RunDirectory, result: RunResult) -> CommonContent:
    """The common parts of the page of a finished run."""
    config = read_text(run.config_path)
    losses = LossWords.of(config, result.task)
    return CommonContent(
        network=result.spec.name,
        data=result.data,
        folder=run.path.resolve().name,
        first_weights=first_weights(config),
        warnings=[
            *(result.seen_before or ()),
            *([f"{result.tested_words}; accuracy and macro figures are about these"] if result.tested_words else ()),
        ],
        curves=drawn(curves(run.metrics_path, result.best_epoch, result.validation_name, losses.axis)),
        loss_words=losses.caption,
        range_test=drawn(range_curve(RangeTest.read(run.range_test_path))) if run.range_test_path.is_file() else None,
        validation_name=result.validation_name,
        best_epoch=result.best_epoch + 1,
        best_rule=rule_words(result.best_metric),
        facts=facts(result),
        config_name=run.config_path.name,
        config=config.splitlines(),
    )


def first_weights(config: str) -> str:
    """What a training began with, from the text of its config.yaml."""
    source = (parse_yaml(config).get("model") or {}).get("init_from")
    return f"weights of {weights_name(source)}" if source else "random weights"
