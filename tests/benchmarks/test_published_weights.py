"""Weights of another library whose tensors come in the order of timm's, and files that are the same when made again."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn


def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))


def test_tensors_in_the_same_order_get_the_names_of_the_other_network():
    from published_weights import renamed

    own, wanted = network(), network().state_dict()
    other = {f"block/{number}": value for number, value in enumerate(own.state_dict().values()) if value.dim()}
    found = renamed(other, wanted)
    assert found.keys() == {name for name in wanted if not name.endswith("num_batches_tracked")}
    fresh = network()
    fresh.load_state_dict(found, strict=False)
    images = torch.rand(2, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(own.eval()(images), fresh.eval()(images))


@pytest.mark.parametrize("last", [torch.zeros(3), None], ids=["another shape", "missing"])
def test_tensors_of_another_network_are_refused(last):
    from published_weights import renamed

    other = {name: value for name, value in network().state_dict().items() if name != "2.bias"}
    if last is not None:
        other["2.bias"] = last
    with pytest.raises(ValueError, match="are not those of the"):
        renamed(other, network().state_dict())


def test_what_exists_stays_and_the_same_weights_make_the_same_bytes(tmp_path, monkeypatch):
    import published_weights as made

    weights = {"b": torch.arange(4.0), "a": torch.ones(2, 2)}
    monkeypatch.setattr(made, "deit_tiny", lambda: weights)
    monkeypatch.setattr(made, "efficientnet_lite", lambda name: dict(reversed(weights.items())))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / f"{made.CNN}.safetensors").write_bytes(b"mine")
    for name in ("one", "other"):
        made.make(tmp_path / name)
    vit, cnn = (f"{name}.safetensors" for name in (made.VIT, made.CNN))
    assert (tmp_path / "one" / cnn).read_bytes() == b"mine"
    first, second = ((tmp_path / name).read_bytes() for name in (f"other/{vit}", f"other/{cnn}"))
    assert first == second == (tmp_path / "one" / vit).read_bytes()
    assert torch.equal(load_file(tmp_path / "other" / vit)["b"], weights["b"])
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted((vit, cnn))
