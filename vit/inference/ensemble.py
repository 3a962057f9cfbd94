"""Several models as one: the average of their calibrated probabilities"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from vit.data.core.image_bytes import ImageReader
from vit.errors import UsageError
from vit.inference.prediction import Named, Prediction
from vit.inference.predictor import Input, Predictor


class Ensemble(Predictor):
    """Models with the same classes. Each prepares images in its own way, and has its own temperature.

    A rule that is fitted to validation images does not go with it, because the checkpoints keep numbers of one model.
    UsageError, with the `names` of models: their classes differ, or an image may have several labels.
    """

    def __init__(self, members: Sequence[Predictor], names: Sequence[str]) -> None:
        first = members[0]
        _check_members(members, names)
        licenses = ", ".join(dict.fromkeys(word for one in members if one.license for word in one.license.split(", ")))
        lacks = "; ".join(dict.fromkeys(one.lacks for one in members if one.lacks))
        super().__init__(first.engine, first.class_names, None, None, licenses or None, lacks=lacks)
        self.members, self.first_frames = [*members], first.first_frames

    def predict_inputs(self, inputs: Sequence[Input], top_k: int) -> list[Prediction]:
        raise UsageError("an input is prepared for one model, and these are several", "give images to `predict`")

    def _predict(
        self, named: Sequence[Named], top_k: int, batch_size: int, reader: ImageReader | None = None
    ) -> Iterator[Prediction]:
        every = [one._predict(named, len(self.class_names), batch_size, reader) for one in self.members]
        for rows in zip(*every, strict=True):
            bad = next((row for row in rows if row.status != "ok"), None)
            if bad is not None:
                yield bad
                continue
            sums: Counter[str] = Counter()
            for row in rows:
                sums.update(dict(row.top))  # all classes
            means = {name: sums[name] / len(rows) for name in self.class_names}
            (group,) = self.rule.groups(np.array([list(means.values())], np.float32))
            top = tuple((name, means[name]) for name, _ in sums.most_common(top_k))
            yield self._answer(rows[0].path, top, group)


def _check_members(members: Sequence[Predictor], names: Sequence[str]) -> None:
    """Raise UsageError unless probabilities of these models can be averaged."""
    first = members[0]
    for place, (one, name) in enumerate(zip(members, names, strict=True)):
        if one.multilabel is not None:
            problem = f"{name} gives an image several labels, and an average has no thresholds"
            raise UsageError(problem, "give one model")
        mine, others = set(first.class_names), set(one.class_names)
        if mine != others:
            what = f"missing of the first: {len(mine - others):,}, new: {len(others - mine):,}"
            raise UsageError(f"{names[0]} and {name} have different classes: {what}", "give models of the same classes")
        twin = next((number for number, other in enumerate(members[:place]) if _are_same(one, other)), None)
        if twin is not None:
            raise UsageError(f"{names[twin]} and {name} have the same weights", "give each model once")


def _are_same(one: Predictor, other: Predictor) -> bool:
    """Whether two models are one: a run and its checkpoint, or a copy. False of files that another library computes."""
    if one.network is None or other.network is None or one.preprocess != other.preprocess:
        return False
    mine, others = one.network.state_dict(), other.network.state_dict()
    return mine.keys() == others.keys() and all(torch.equal(value, others[name]) for name, value in mine.items())
