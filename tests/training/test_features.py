"""Features are computed once for each content, kept in a file, and computed again where the file is damaged."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vit.data.core.samples import Samples
from vit.layout import FeaturesLayout
from vit.training.network.features import SharedFeatures, StoredFeatures

NAMES = [f"{number:032x}" for number in range(6)]


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A folder for six images, of which the last could not be read, and the images that were computed."""
    hashes = {f"{index}.png": name for index, name in enumerate(NAMES[:5])} | {"5.png": "", "again.png": NAMES[0]}
    found = SharedFeatures(tmp_path / "features", hashes)
    monkeypatch.setattr(found, "files", lambda plan: FeaturesLayout(tmp_path / "features", "one", "cpu"))
    calls: list[list[str]] = []

    def compute(samples):
        calls.append(list(samples.paths))
        values = torch.tensor([[float(int(path[0])), 1.0] for path in samples.paths if path != "4.png"])
        return values, np.array([row for row, path in enumerate(samples.paths) if path != "4.png"])

    return SimpleNamespace(of=lambda *paths: found.of(None, samples_of(paths), compute), calls=calls)


def samples_of(paths):
    return Samples(list(paths), np.zeros(len(paths), dtype=np.int64))


def test_each_content_is_computed_once(shared):
    values, kept = shared.of("1.png", "0.png")
    assert values.tolist() == [[1.0, 1.0], [0.0, 1.0]] and kept.tolist() == [0, 1]
    values, kept = shared.of("3.png", "again.png", "5.png", "2.png", "4.png")
    assert values[:, 0].tolist() == [3.0, 0.0, 2.0] and kept.tolist() == [0, 1, 3]  # 4.png cannot be decoded
    assert shared.calls == [["1.png", "0.png"], ["3.png", "2.png", "4.png"]]


@pytest.mark.parametrize("damage", [b"", b"not a file of tensors"])
def test_a_damaged_file_is_computed_again(shared, tmp_path, damage):
    shared.of("1.png")
    path = tmp_path / "features" / "one-cpu.safetensors"
    path.write_bytes(damage)
    assert shared.of("1.png")[0].tolist() == [[1.0, 1.0]] and len(shared.calls) == 2


def test_a_file_of_other_shapes_has_no_features(tmp_path):
    stored = StoredFeatures({NAMES[0]: 0}, torch.tensor([[float("nan")]]), 1.0)
    stored.write(tmp_path / "one.safetensors")
    assert not StoredFeatures.read(tmp_path / "one.safetensors").place
