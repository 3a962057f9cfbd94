"""The image size that positions show: registers can make the table of positions a square of another side."""

import pytest
import torch

from vit.models.spec import create_network
from vit.weights.formats.detect import convert_weights
from vit.weights.formats.weight_format import shown_network

OPTIONS = {"patch_size": 4, "embed_dim": 24, "depth": 1, "num_heads": 3}


def weights_of(grid: int, **values: object) -> dict[str, torch.Tensor]:
    return create_network("vit", 3, 4 * grid, **OPTIONS, **values).state_dict()


@pytest.mark.parametrize(
    ("grid", "prefix_positions"),
    [(2, True), (3, False)],  # 2 * 2 + 5 positions and 3 * 3 are both 9
)
def test_positions_that_can_be_read_in_two_ways_are_asked_for(grid, prefix_positions):
    weights = weights_of(grid, num_registers=4, prefix_positions=prefix_positions)
    with pytest.raises(ValueError, match=r"9 positions.* 3 x 3 patches.* 2 x 2 .* 5 tokens"):
        shown_network(weights, {"num_heads": 3})
    shown = shown_network(weights, {"num_heads": 3, "prefix_positions": prefix_positions})
    assert shown.image_size == 4 * grid
    network = create_network("vit", 3, shown.image_size, **shown.options)
    network.load_state_dict(weights)


@pytest.mark.parametrize("prefix_positions", [True, False])
@pytest.mark.parametrize(("grid", "registers"), [(1, 0), (2, 0), (2, 3), (4, 4), (14, 4), (16, 4)])
def test_other_numbers_of_tokens_show_the_image_size(grid, registers, prefix_positions):
    weights = weights_of(grid, num_registers=registers, prefix_positions=prefix_positions)
    shown = shown_network(weights, {"num_heads": 3})
    assert shown.image_size == 4 * grid
    assert shown.options.get("prefix_positions", True) == prefix_positions


@pytest.mark.parametrize("library", ["Meta", "transformers"])
def test_dinov2_s_registers_have_no_positions(library):
    """There the class token alone has one, so that both grids of 9 positions are no question."""
    weights = weights_of(3, num_registers=4, prefix_positions=False)
    weights["pos_embed"] = torch.cat((torch.zeros(1, 1, 24), weights["pos_embed"]), dim=1)
    if library == "Meta":
        weights["register_tokens"] = weights.pop("reg_token")
    else:
        _in_transformers(weights)
    _, converted, _ = convert_weights(weights, {})
    shown = shown_network(converted.weights, {**converted.options, "num_heads": 3})
    assert shown.image_size == 12 and shown.options["prefix_positions"] is False


def _in_transformers(weights: dict[str, torch.Tensor]) -> None:
    """Our names -> those of transformers' Dinov2WithRegistersForImageClassification, in place."""
    renames = {
        "reg_token": "embeddings.register_tokens", "cls_token": "embeddings.cls_token",
        "pos_embed": "embeddings.position_embeddings", "patch_embed.proj": "embeddings.patch_embeddings.projection",
        "blocks.0.attn.proj": "encoder.layer.0.attention.output.dense", "blocks.0.": "encoder.layer.0.",
        "norm.": "layernorm.", "head.": "classifier.",
    }  # fmt: skip
    for name in list(weights):
        value = weights.pop(name)
        if ".attn.qkv." in name:
            for part, rows in zip(("query", "key", "value"), value.chunk(3), strict=True):
                kind = name.rpartition(".")[2]
                weights[f"encoder.layer.0.attention.attention.{part}.{kind}"] = rows
            continue
        ours = next((ours for ours in renames if name.startswith(ours)), "")
        weights[renames.get(ours, "") + name.removeprefix(ours)] = value
