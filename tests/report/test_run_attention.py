"""The maps in a run's report: of the label that was given, and no reason to lose the report."""

import io
from base64 import b64decode

import numpy as np
import pytest
import torch
from PIL import Image

from vit.checkpoints.format import Description, checkpoint_content
from vit.checkpoints.load import load
from vit.checkpoints.run import RunDirectory
from vit.data.pixels.preprocess import Preprocess
from vit.models.spec import NetworkSpec
from vit.report.page.image_figures import overlay
from vit.report.run import run_pictures

IMAGES = list(torch.randint(0, 256, (2, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8))


@pytest.fixture
def cnn(tmp_path):
    """A run folder with nothing but the checkpoint of a small CNN with random weights."""
    class_names = ("cat", "dog")
    spec = NetworkSpec.named("resnet10_small", len(class_names), {"widths": (4, 4, 4, 4)})
    run = RunDirectory(tmp_path)
    run.best_path.parent.mkdir()
    about = Description(class_names, spec, Preprocess(16))
    torch.save(checkpoint_content(about, about.build().state_dict()), run.best_path)
    return run


def test_maps_are_of_the_label_that_was_given(digits_run):
    run = RunDirectory(digits_run.path)
    found = run_pictures.overlays(run, IMAGES, ["3", "8"])
    network, description = load(run.best_path)
    maps = run_pictures.choose_methods("relevance", network)["relevance"](
        network, description.preprocess.normalize(torch.stack(IMAGES)), torch.tensor([3, 8])
    )
    for (_, shown), image, importance in zip(found, IMAGES, maps, strict=True):
        with Image.open(io.BytesIO(b64decode(shown.partition(",")[2]))) as picture:
            expected = overlay(image, importance).permute(1, 2, 0).numpy()
            assert np.abs(np.asarray(picture).astype(int) - expected).mean() < 4  # JPEG
    assert found[0] != run_pictures.overlays(run, IMAGES, ["4", "8"])[0]


def test_a_cnn_has_maps(cnn):
    pytest.importorskip("pytorch_grad_cam")
    assert len(run_pictures.overlays(cnn, IMAGES, ["dog", "cat"])) == 2


def test_without_a_map_there_is_none(cnn, monkeypatch):
    def fail(*_):
        raise RuntimeError("not enough memory: you tried to allocate 10 GB")

    monkeypatch.setattr(run_pictures, "choose_methods", lambda *_: {"gradcam": fail})
    assert run_pictures.overlays(cnn, IMAGES, ["dog", "cat"]) == []
    monkeypatch.undo()
    cnn.best_path.unlink()
    assert run_pictures.overlays(cnn, IMAGES, ["dog", "cat"]) == [] == run_pictures.overlays(cnn, [], [])
