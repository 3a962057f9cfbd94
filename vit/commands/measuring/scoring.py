"""The scores of the images that `vit evaluate` measures, and groups of them with more errors than others"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.console import Reporter
from vit.inference.files import TABLES

if TYPE_CHECKING:
    from torch import Tensor

    from vit.data.core.batch import Batch
    from vit.data.core.samples import Samples, Source
    from vit.inference.metrics.weak_groups import ImageTraits, WeakGroups
    from vit.inference.predictor import Predictor
    from vit.inference.scores.scored_images import Floats, Scored


def score_images(
    predictor: "Predictor", words: str, samples: "Samples", reporter: Reporter, traits: "ImageTraits | None" = None
) -> "Scored":
    """The scores of images. Traits of those that this process scores are gathered, if they are asked for."""
    from vit.data.loading.loader import EVALUATION_BATCH_SIZE, labeled_images
    from vit.inference.engine import compile_for, score
    from vit.inference.scores.image_groups import in_groups

    engine = predictor.engine
    compiled = ", compiled" * compile_for(engine, len(samples), EVALUATION_BATCH_SIZE)
    where = f"{engine.device.type}, {engine.precision}, {engine.name}{compiled}"
    reporter.notice(f"{len(samples):,} {words}, {where}")
    batches: Iterable[Batch] = labeled_images(samples, predictor.preprocess)
    novelty_of: Callable[[Tensor], Floats] | None = None
    if predictor.novelty is not None:
        novelty_of = predictor.novelty.of_features
    if traits is not None:
        batches = traits.watch(batches)
        novelty_of = novelty_of and traits.watch_features(novelty_of)
    return in_groups(score(engine, batches, novelty_of), samples)


def columns_of(data: str, source: "Source") -> dict[str, dict[str, str]]:
    """{column: {path: cell}} of the other columns of DATA where it is a CSV; {} where it is none."""
    from vit.data.sources.image_csv import other_columns

    path = Path(data).expanduser()
    is_table = path.suffix.lower() in TABLES and path.is_file() and not source.is_one_hot
    return other_columns(path) if is_table else {}


def weak_groups_of(
    traits: "ImageTraits",
    scored: "Scored",
    samples: "Samples",
    columns: Mapping[str, Mapping[str, str]],
    class_names: Sequence[str],
) -> "WeakGroups | None":
    """Groups of images with more errors than others; None where images are few, or scored by several processes."""
    from vit.inference.metrics.weak_groups import FEWEST
    from vit.inference.scores.scored_images import ScoredImages

    if not isinstance(scored, ScoredImages) or traits.num_images != len(scored.paths):
        return None
    units = len(scored.paths) if scored.groups is None else len(set(scored.groups.tolist()))
    if units < FEWEST:
        return None
    return traits.find(scored, samples, columns, class_names)
