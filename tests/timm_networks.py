"""Small networks of timm's families: the classes that timm's names stand for, with few and narrow blocks."""

from collections.abc import Mapping

import timm
import torch

from vit.models.timm_network import TimmConfig, TimmNetwork

CLASSES = 5
_VIT = {"depth": 2, "embed_dim": 48, "num_heads": 2}
_STAGES = {"depths": (2, 2), "embed_dim": 16, "num_heads": (2, 4), "window_size": 4}
SMALL: Mapping[str, dict[str, object]] = {  # values of timm.create_model beside the image size, by timm's names
    "vit_tiny_patch16_224": _VIT,
    "deit_tiny_distilled_patch16_224": _VIT,
    "vit_base_patch16_siglip_224": _VIT,
    "vit_small_patch16_rope_mixed_224": _VIT,
    "eva02_tiny_patch14_224": _VIT | {"patch_size": 16},
    "vit_pe_core_tiny_patch16_384": _VIT,
    "vit_tiny_patch16_dinov3_qkvb": _VIT,
    "beit_base_patch16_224": _VIT,
    "beit3_base_patch16_224": _VIT,
    "vit_relpos_small_patch16_224": _VIT,
    "naflexvit_base_patch16_gap": _VIT,
    "cait_xxs24_224": _VIT,
    "xcit_nano_12_p16_224": _VIT,
    "swin_tiny_patch4_window7_224": _STAGES,
    "swinv2_tiny_window8_256": _STAGES,
    "hiera_tiny_224": {"embed_dim": 16, "num_heads": 1, "stages": (1, 1, 1, 1)},
    "convnext_atto": {"depths": (1, 1, 1, 1), "dims": (8, 8, 16, 16)},
    "fastvit_t8": {"layers": (1, 1, 1, 1), "embed_dims": (16, 16, 16, 32)},
    "test_maxvit": {},
    "test_coatnet": {},
    "test_resnet": {},
    "test_efficientnet": {},
    "botnet26t_256": {},
    "lambda_resnet26t": {},
}
VITS = tuple(name for name in SMALL if name.startswith(("vit_", "deit_", "eva02_", "beit", "naflexvit")))
BATCH_NORM = ("fastvit_t8", "test_maxvit", "test_coatnet", "test_resnet", "test_efficientnet", "botnet26t_256",
              "lambda_resnet26t", "xcit_nano_12_p16_224")  # fmt: skip
_create = timm.create_model


def small_create(name, **options):
    """timm.create_model, whose model of that name has few and narrow blocks."""
    return _create(name, **{**SMALL[name], **options})


def small_network(name, image_size=64, seed=0):
    """A TimmNetwork of a small model, all of whose numbers are drawn. The fixture `small_timm` is needed."""
    from tests.weights.test_timm_weights import shaken

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = TimmNetwork(TimmConfig(model=name, image_size=image_size, num_classes=CLASSES))
    return shaken(network)


def random_images(image_size=64, count=2):
    """Images (count, 3, S, S) from a fixed seed."""
    return torch.randn(count, 3, image_size, image_size, generator=torch.Generator().manual_seed(1))
