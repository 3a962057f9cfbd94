"""The features of an engine: of networks whose last layer can be taken apart, and of those where it cannot."""

import pytest
import torch
from timm.models.crossvit import CrossVit
from timm.models.fasternet import FasterNet
from timm.models.levit import Levit
from timm.models.repvit import RepVit
from timm.models.sequencer import Sequencer2d
from timm.models.volo import VOLO

from tests.weights.test_timm_weights import shaken
from vit.data.pixels.preprocess import Preprocess
from vit.inference.engine import Engine
from vit.models.timm_network import TimmConfig, TimmNetwork

CLASSES, SIDE = 5, 32
OWN_LAYERS = {  # last layers of timm's own, which torch.fx looks into
    "fasternet": lambda: FasterNet(num_classes=CLASSES, embed_dim=8, depths=(1, 1, 1, 1)),
    "levit": lambda: Levit(
        img_size=SIDE, num_classes=CLASSES, embed_dim=(16, 16), key_dim=8, depth=(1, 1), num_heads=(2, 2)
    ),
    "repvit": lambda: RepVit(num_classes=CLASSES, embed_dim=(8, 8, 8, 8), depth=(1, 1, 1, 1), mlp_ratio=2),
}
MORE_THAN_A_LAYER = {  # several heads that are indexed, logits that others are added to, features with places
    "crossvit": lambda: CrossVit(
        img_size=SIDE, num_classes=CLASSES, embed_dim=(12, 24), depth=((1, 1, 0),), num_heads=(2, 2)
    ),
    "volo": lambda: VOLO(
        img_size=SIDE, num_classes=CLASSES, layers=(1, 1, 1, 1), embed_dims=(24,) * 4, num_heads=(2,) * 4
    ),
    "sequencer": lambda: Sequencer2d(num_classes=CLASSES, layers=(1, 1, 1, 1), embed_dims=(16, 16, 16, 16)),
}


def engine_of(make, precision="32-true"):
    """An engine of a small network of a timm class, all of whose numbers are drawn."""
    network = TimmNetwork(TimmConfig(model="test_resnet", image_size=SIDE, num_classes=CLASSES))
    network.model = make()
    return Engine(shaken(network).eval(), Preprocess(SIDE), torch.device("cpu"), precision)


def images():
    return torch.randint(0, 256, (3, 3, SIDE, SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("name", OWN_LAYERS)
def test_a_last_layer_of_timm_gives_features_and_batch_norm_is_folded(name, precision):
    """torch.fx had put such layers into its graph, and every training of these networks ended in an error."""
    engine = engine_of(OWN_LAYERS[name], precision)
    assert isinstance(engine._computed.model, torch.fx.GraphModule)
    plain = engine.logits(images())
    tolerance = 1e-4 if precision == "32-true" else 0.1
    with torch.inference_mode():
        own = engine.network(engine.preprocess.normalize(images()))
    assert torch.allclose(plain, own, atol=tolerance * float(own.abs().max()))
    assert engine.keep_features()
    logits, features = engine.logits_and_features(images())
    assert torch.allclose(logits, plain, atol=1e-3 * float(plain.abs().max()))
    assert features.ndim == 2 and features.std(dim=0).max() > 0


@pytest.mark.faults("T8")
@pytest.mark.parametrize("name", MORE_THAN_A_LAYER)
def test_a_network_that_cannot_be_taken_apart_has_no_features(name, capfd):
    engine = engine_of(MORE_THAN_A_LAYER[name])
    assert not engine.keep_features() and not engine.keep_features()
    assert engine.logits(images()).shape == (3, CLASSES)
    assert not any(capfd.readouterr())
