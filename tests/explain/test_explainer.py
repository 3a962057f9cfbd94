"""Explanations of single images: what they are computed with."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tests.export.conftest import make
from vit.explain.explainer import Explainer
from vit.inference.engine import trained_engine
from vit.inference.predictor import Predictor


def test_probabilities_are_of_float32_as_the_maps_are(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    found = {}
    for precision in ("bf16-mixed", "32-true"):
        model = make("vit", temperature=2.0)
        engine = trained_engine(model, torch.device("cpu"), precision)
        predictor = Predictor(engine, model.description.class_names, None)
        found[precision] = Explainer(predictor, "relevance").explain(str(tmp_path / "a.png"))
        (row,) = predictor.predict([str(tmp_path / "a.png")])
        assert (row.probability == found[precision].probability) == (precision == "32-true")
    one, other = found.values()
    assert one.probability == other.probability and one.faithfulness == other.faithfulness
    assert torch.equal(one.maps["relevance"], other.maps["relevance"])
