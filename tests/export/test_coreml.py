"""coreml: converted here and computed elsewhere, so that its structure is all that can be checked."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.export.conftest import make_multilabel
from vit.errors import CheckpointError, UsageError
from vit.export.exporting import export
from vit.extras.coreml.package import CoreMlPackage


def spec_of(path):
    import coremltools

    return coremltools.models.MLModel(str(path), skip_model_load=True).get_spec()


@pytest.mark.filterwarnings("ignore")  # of coremltools itself
@pytest.mark.faults("X24")
@pytest.mark.parametrize("kind", ["vit", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("vit_mean", "cnn"))])
def test_a_package_takes_a_picture_and_gives_a_label(trained, tmp_path, kind):
    made, path = trained(kind, temperature=2.0), tmp_path / "m.mlpackage"
    found = export(made, "coreml", path)
    assert isinstance(found, str) and found.startswith("not run: Core ML computes on Apple's systems alone")
    kept, total = map(int, re.search(r"(\d+) of (\d+) layers have their weights", found).groups())
    assert kept >= total - 1 if kind != "cnn" else kept >= 1, "of a CNN, convolutions are merged with batch norms"
    spec = spec_of(path)
    (image,) = spec.description.input
    assert (image.name, image.type.imageType.width) == ("image", made.network.image_size)
    assert spec.description.predictedFeatureName == "classLabel"
    said = spec.description.metadata.userDefined["input"]
    assert said.startswith("picture of 8 x 8: sRGB (embedded ICC profiles converted), upright, on white, 0 to 255; ")
    assert os.listdir(tmp_path) == [path.name]
    content = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
    assert os.fsencode(tmp_path) not in content and os.fsencode(Path.cwd()) not in content


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_several_labels_have_probabilities_without_a_winner(tmp_path):
    export(make_multilabel("vit"), "coreml", tmp_path / "m.mlpackage")
    (output,) = spec_of(tmp_path / "m.mlpackage").description.output
    assert output.name == "probabilities"


@pytest.mark.filterwarnings("ignore")
def test_other_weights_or_classes_are_noticed(trained, tmp_path):
    made, path = trained("vit"), tmp_path / "m.mlpackage"
    CoreMlPackage().write(made, path)
    others = replace(made, description=replace(made.description, class_names=("a", "b", "c")))
    with pytest.raises(CheckpointError, match="other class names"):
        CoreMlPackage().structure(others, path)
    changed = trained("vit")
    with torch.no_grad():
        for value in changed.network.parameters():
            value += 1e-3
    with pytest.raises(CheckpointError, match="no layer with the weights"):
        CoreMlPackage().structure(changed, path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_cannot_be_compared_on_files_here(trained, tmp_path):
    with pytest.raises(UsageError, match="--verify, but --format coreml cannot be computed here"):
        export(trained("vit"), "coreml", tmp_path / "m.mlpackage", ["a.png"])
    assert not os.listdir(tmp_path)
