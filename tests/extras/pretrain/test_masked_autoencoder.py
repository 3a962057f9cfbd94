"""The masked autoencoder against its formulas and against transformers' ViTMAE."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from vit.extras.pretrain.objectives import Mae, decoder_config, patchify
from vit.models.vision_transformer import VisionTransformer
from vit.models.vit_config import ViTConfig

SMALL = ViTConfig(image_size=16, patch_size=4, num_classes=5, embed_dim=32, depth=2, num_heads=2)
VARIANTS = {
    "class token": SMALL,
    "mean": replace(SMALL, pool="mean"),
    "norm after the mean": replace(SMALL, pool="patch_mean", pool_norm=True),
    "fixed positions": replace(SMALL, pos_embed="sincos2d"),
    "registers": replace(SMALL, num_registers=3, prefix_positions=False),
    "two class tokens": replace(SMALL, pool="cls_dist"),
    "CLIP": replace(SMALL, embed_norm=True, activation="quick_gelu"),
    "norms after": replace(SMALL, norm_placement="post", layer_scale=0.1),
}


def unpatchify(pixels: Tensor, size: int) -> Tensor:
    """The inverse of `patchify`: pixels (B, N, K P^2) -> images (B, K, S, S)."""
    side = int(pixels.shape[1] ** 0.5)
    parts = pixels.reshape(len(pixels), side, side, size, size, -1).permute(0, 5, 1, 3, 2, 4)
    return parts.reshape(len(pixels), -1, side * size, side * size)


def autoencoder(config: ViTConfig = SMALL) -> Mae:
    torch.manual_seed(0)
    return Mae(VisionTransformer(config))


def images_and_order(config: ViTConfig = SMALL, count: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 3, config.image_size, config.image_size, generator=generator)
    return images, torch.rand(count, config.num_patches, generator=generator).argsort(dim=1)


def test_patches_are_the_squares_of_the_image_and_return_to_it() -> None:
    images, _ = images_and_order()
    patches = patchify(images, 4)
    assert torch.equal(patches[1, 6].reshape(4, 4, 3), images[1, :, 4:8, 8:12].permute(1, 2, 0))  # row 1, column 2
    assert torch.equal(unpatchify(patches, 4), images)


def test_the_encoder_computes_the_visible_patches_alone() -> None:
    images, order = images_and_order()
    mae = autoencoder()
    assert mae.encode(images, order).shape == (3, 1 + 4, 32)
    assert mae.decode(mae.encode(images, order), order).shape == (3, 16, 48)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_masked_pixels_do_not_reach_the_encoder_and_visible_ones_do(config: ViTConfig) -> None:
    images, order = images_and_order(config)
    mae = autoencoder(config).eval()
    before = mae.encode(images, order)
    for place, is_seen in ((order[:, 4:], False), (order[:, :1], True)):
        pixels = patchify(images, 4)
        pixels[torch.arange(3)[:, None], place] += 1.0
        assert torch.equal(mae.encode(unpatchify(pixels, 4), order), before) != is_seen


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_the_encoder_without_a_mask_computes_the_tokens_that_the_network_classifies(config: ViTConfig) -> None:
    images, order = images_and_order(config)
    mae = autoencoder(config).eval()
    mae.num_visible = 16
    network = mae.network
    nn.init.normal_(network.head.weight)
    tokens = mae.encode(images, order)
    prefix, patches = tokens.tensor_split((config.num_prefix_tokens,), dim=1)
    ordered = torch.cat((prefix, patches.gather(1, order.argsort(1)[:, :, None].expand(-1, -1, 32))), dim=1)
    if not config.pool_norm:  # else the norm follows the mean in the classifier, and meets each token here
        assert torch.allclose(network.classify(ordered), network(images), atol=1e-5)


def test_the_loss_is_that_of_each_image_and_masked_patch_on_its_own() -> None:
    images, order = images_and_order()
    mae = autoencoder().eval()
    predicted = mae.decode(mae.encode(images, order), order)
    losses = []
    for image, places, prediction in zip(images, order.tolist(), predicted, strict=True):
        for place in places[4:]:
            row, column = divmod(place, 4)
            patch = image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].permute(1, 2, 0).flatten()
            target = (patch - patch.mean()) / (patch.var() + 1e-6) ** 0.5
            losses.append(((prediction[place] - target) ** 2).mean())
    assert len(losses) == 3 * 12
    assert torch.allclose(mae.loss(images, order), torch.stack(losses).mean(), atol=1e-6)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_the_gradient_reaches_every_weight_but_the_heads(config: ViTConfig) -> None:
    images, order = images_and_order(config)
    mae = autoencoder(config)
    mae.loss(images, order).backward()
    without = {name for name, weight in mae.named_parameters() if weight.grad is None or not weight.grad.any()}
    heads = {f"network.{head}.{part}" for head in ("head", "head_dist") for part in ("weight", "bias")}
    assert without == heads & set(dict(mae.named_parameters()))


@pytest.mark.parametrize("width", [32, 64, 96, 192, 768])
def test_the_decoder_has_whole_heads_of_half_the_width_or_more(width: int) -> None:
    config = decoder_config(replace(SMALL, embed_dim=width))
    assert config.embed_dim == 32 * config.num_heads
    assert width / 2 <= config.embed_dim < width / 2 + 32


def test_equals_the_masked_autoencoder_of_transformers() -> None:
    """Random weights, also for the positions."""
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    torch.manual_seed(3)
    theirs = ViTMAEForPreTraining(
        ViTMAEConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, image_size=16,
            patch_size=4, decoder_hidden_size=32, decoder_num_attention_heads=1, decoder_num_hidden_layers=2,
            decoder_intermediate_size=128, norm_pix_loss=True, layer_norm_eps=1e-6,
        )
    ).eval()  # fmt: skip
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.3)
    ours = autoencoder(replace(SMALL, pool="patch_mean")).eval()
    loaded = ours.load_state_dict(renamed(theirs.state_dict()), strict=False)
    assert set(loaded.missing_keys) == {"network.head.weight", "network.head.bias"}
    assert not loaded.unexpected_keys
    ours.decoder_pos_embed.copy_(theirs.decoder.decoder_pos_embed)
    images, order = images_and_order()
    with torch.no_grad():
        found = theirs(images, noise=order.argsort(dim=1).float())
        assert torch.allclose(ours.decode(ours.encode(images, order), order), found.logits, atol=1e-4)
        assert torch.allclose(ours.loss(images, order), found.loss, atol=1e-5)


def renamed(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """transformers' names as ours, with queries, keys and values as one matrix."""
    names = {
        "vit.embeddings.cls_token": "network.cls_token",
        "vit.embeddings.position_embeddings": "network.pos_embed",
        "vit.embeddings.patch_embeddings.projection": "network.patch_embed.proj",
        "vit.layers.": "network.blocks.",
        "vit.layernorm.": "network.norm.",
        "decoder.decoder_layers.": "decoder_blocks.",
        "decoder.mask_token": "mask_token.0",
        "decoder.": "",
        "layernorm_before": "norm1",
        "layernorm_after": "norm2",
        "attention.o_proj": "attn.proj",
        "attention.": "attn.",
    }
    found: dict[str, Tensor] = {}
    for name, value in theirs.items():
        ours = name
        for old, new in names.items():
            ours = ours.replace(old, new)
        if ".k_proj" not in ours and ".v_proj" not in ours and ours != "decoder_pos_embed":
            others = [theirs[name.replace("q_proj", other)] for other in ("q_proj", "k_proj", "v_proj")]
            found[ours.replace("q_proj", "qkv")] = torch.cat(others) if "q_proj" in name else value
    return found
