"""torchvision's VisionTransformer and ours from its weights: the same logits, at the native and at another size."""

import pytest
from torchvision import models
from torchvision.models import VisionTransformer


def check(theirs, larger, ours, same, resized, patch: int, **given) -> None:
    state = theirs.state_dict()
    same(theirs, ours(state, "torchvision", **given), theirs.image_size)
    positions = resized(state["encoder.pos_embedding"], larger.image_size // patch)
    larger.load_state_dict({**state, "encoder.pos_embedding": positions})
    same(larger.eval(), ours(state, "torchvision", image_size=larger.image_size, **given), larger.image_size)


WIDE = [pytest.param(patch, width, marks=pytest.mark.slow) for patch, width in ((16, 1024), (14, 1280))]


@pytest.mark.parametrize(("patch", "width"), [(16, 128), (14, 128), *WIDE])
def test_logits_of_small_versions(patch, width, shaken, ours, same, resized):
    """The widths of ViT-L and ViT-H say that they have 16 heads."""
    small = {"patch_size": patch, "num_layers": 2, "hidden_dim": width, "mlp_dim": 5 * width // 2, "num_classes": 7}
    given = {"num_heads": 2} if width == 128 else {}
    small |= {"num_heads": 16, **given}
    theirs = shaken(VisionTransformer(3 * patch, **small))
    check(theirs, VisionTransformer(5 * patch, **small), ours, same, resized, patch, **given)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "patch"), [("vit_b_16", 16), ("vit_b_32", 32)])
def test_logits_of_full_size(name, patch, shaken, ours, same, resized):
    theirs = shaken(models.get_model(name))
    check(theirs, models.get_model(name, image_size=12 * patch), ours, same, resized, patch)
