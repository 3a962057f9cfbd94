"""The licence of weights is what timm states, and one that may restrict is warned of."""

import timm
from safetensors.torch import save_file

from vit.weights.formats.timm_models import timm_model
from vit.weights.licence import UNKNOWN, licence_of, licence_words
from vit.weights.open import open_pretrained


def test_a_licence_that_may_restrict_is_warned_of():
    assert licence_of(timm_model("vit_small_patch16_dinov3.lvd1689m")) == "dinov3-license"
    assert "read it before you publish" in licence_words("dinov3-license")
    assert licence_words("apache-2.0") == "apache-2.0"
    assert licence_of(None) == UNKNOWN == licence_words(UNKNOWN)


def test_it_is_shown_with_weights_that_timm_knows(tmp_path):
    path = tmp_path / "vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors"
    save_file(timm.create_model("vit_tiny_patch16_224", depth=1).state_dict(), path)
    assert ("licence", "apache-2.0") in open_pretrained(str(path)).facts()
    save_file(timm.create_model("vit_tiny_patch16_224", depth=1).state_dict(), tmp_path / "mine.safetensors")
    assert "licence" not in dict(open_pretrained(str(tmp_path / "mine.safetensors")).facts())
