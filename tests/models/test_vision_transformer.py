"""The Vision Transformer against timm, against the paper's equations, and against itself computed plainly."""

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.models.attend import attend
from vit.models.spec import create_network
from vit.models.vision_transformer import Attention, PatchEmbed, VisionTransformer
from vit.models.vit_config import ViTConfig

SMALL = {"image_size": 16, "patch_size": 4, "num_classes": 5, "embed_dim": 24, "depth": 3, "num_heads": 3}


def shaken(network: nn.Module, seed: int = 0) -> nn.Module:
    """Every parameter moved away from its initial value, so that no zero hides a difference."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.05)
    return network


def images(count: int, side: int, seed: int = 1) -> Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def small(**values: object) -> VisionTransformer:
    network = VisionTransformer(ViTConfig(**{**SMALL, **values}))
    shaken(network)
    return network.eval()


def from_timm(name: str) -> tuple[nn.Module, nn.Module]:
    """timm's model with random values, and ours with its state dict."""
    theirs = shaken(timm.create_model(name, num_classes=10))
    ours = create_network(name, num_classes=10)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return theirs, ours


def test_logits_are_those_of_timm() -> None:
    theirs, ours = from_timm("vit_tiny_patch16_224")
    batch = images(2, 224)
    with torch.no_grad():
        expected = theirs.eval()(batch)
        assert expected.std() > 0.1
        assert torch.allclose(ours.eval()(batch), expected, atol=1e-5)


def test_gradients_are_those_of_timm() -> None:
    theirs, ours = from_timm("vit_tiny_patch16_224")
    batch, labels = images(2, 224), torch.tensor([3, 7])
    for network in (theirs, ours):
        F.cross_entropy(network.train()(batch), labels).backward()
    expected = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        largest = expected[name].abs().max()
        assert largest > 0, name
        assert (parameter.grad - expected[name]).abs().max() < 1e-4 * largest + 1e-7, name


@pytest.mark.parametrize("size", ["tiny_patch16", "small_patch32", "base_patch16", "large_patch16", "huge_patch14"])
def test_state_dict_has_timms_keys_and_shapes(size: str) -> None:
    with torch.device("meta"):
        theirs = timm.create_model(f"vit_{size}_224", num_classes=1000).state_dict()
        ours = create_network(f"vit_{size}_224", num_classes=1000).state_dict()
    assert {key: value.shape for key, value in ours.items()} == {key: value.shape for key, value in theirs.items()}


@pytest.mark.parametrize(("size", "count"), [("tiny", 5_717_416), ("small", 22_050_664), ("base", 86_567_656)])
def test_parameter_counts_are_the_published_ones(size: str, count: int) -> None:
    with torch.device("meta"):
        network = create_network(f"vit_{size}_patch16_224", 1000, 224)
    assert sum(parameter.numel() for parameter in network.parameters()) == count


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_patch_embedding_equals_the_strided_convolution(layout: torch.memory_format) -> None:
    embed = PatchEmbed(ViTConfig(image_size=12, patch_size=4, embed_dim=8, num_heads=2))
    shaken(embed)
    found, expected = [images(3, 12).contiguous(memory_format=layout).requires_grad_() for _ in range(2)]
    tokens, convolved = embed(found), embed.proj(expected).flatten(2).transpose(1, 2)
    assert torch.allclose(tokens, convolved, atol=1e-5)
    weights = torch.randn_like(tokens)
    for_tokens = torch.autograd.grad((tokens * weights).sum(), [found, *embed.parameters()])
    for_convolved = torch.autograd.grad((convolved * weights).sum(), [expected, *embed.parameters()])
    for ours, theirs in zip(for_tokens, for_convolved, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("num_read", [None, 1, 5])
@pytest.mark.parametrize("qkv_bias", [True, False])
def test_attention_equals_plain_loops(num_read: int | None, qkv_bias: bool) -> None:
    T, D, H = 5, 12, 3
    attention = Attention(ViTConfig(embed_dim=D, num_heads=H, qkv_bias=qkv_bias))
    shaken(attention)
    tokens = torch.randn(2, T, D)
    q, k, v = attention.qkv(tokens).chunk(3, dim=-1)
    expected = torch.zeros(2, num_read or T, D)
    for image in range(2):
        for head in range(H):
            part = slice(head * D // H, (head + 1) * D // H)
            for query in range(num_read or T):
                scores = torch.stack([q[image, query, part] @ k[image, other, part] for other in range(T)])
                weights = (scores / (D / H) ** 0.5).exp()
                expected[image, query, part] = (weights / weights.sum()) @ v[image, :, part]
    assert torch.allclose(attention(tokens, num_read), attention.proj(expected), atol=1e-5)


def test_both_ways_of_attending_are_equal() -> None:
    q, k, v = torch.randn(3, 2, 4, 7, 8)
    assert torch.allclose(attend(q.clone().requires_grad_(), k, v), attend(q, k, v), atol=1e-6)


def test_attention_dropout_acts_in_training_alone() -> None:
    network = small(attn_drop_rate=0.5)
    batch = images(2, 16)
    assert torch.equal(network(batch), network(batch))
    network.train()
    assert not torch.allclose(network(batch), network(batch), atol=1e-3)


@pytest.mark.parametrize("norm_placement", ["pre", "post"])
@pytest.mark.parametrize("training", [True, False])
def test_last_block_shortcut_equals_computing_everything(norm_placement: str, training: bool) -> None:
    network = small(norm_placement=norm_placement).train(training)
    batch = images(2, 16)
    tokens = torch.cat((network.cls_token.expand(2, -1, -1), network.patch_embed(batch)), dim=1) + network.pos_embed
    for block in network.blocks:
        tokens = block(tokens)
    assert torch.allclose(network(batch), network.head(network.norm(tokens)[:, 0]), atol=1e-5)


def test_mean_pooling_has_no_class_token_and_reads_every_patch() -> None:
    network = small(pool="mean")
    assert "cls_token" not in network.state_dict()
    assert network.pos_embed.shape == (1, 16, 24)
    tokens = network.patch_embed(images(2, 16)) + network.pos_embed
    for block in network.blocks:
        tokens = block(tokens)
    assert torch.allclose(network(images(2, 16)), network.head(network.norm(tokens).mean(1)), atol=1e-5)


@pytest.mark.parametrize("pool", ["cls", "mean"])
@pytest.mark.parametrize(
    ("pos_embed", "is_blind"), [("none", True), ("learned", False), ("sincos2d", False), ("rope2d", False)]
)
def test_only_position_embeddings_tell_where_a_patch_lies(pool: str, pos_embed: str, is_blind: bool) -> None:
    network = small(pool=pool, pos_embed=pos_embed)
    batch = images(2, 16)
    patches = batch.reshape(2, 3, 4, 4, 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(2, 16, 3, 4, 4)
    patches = patches[:, torch.randperm(16, generator=torch.Generator().manual_seed(0))]
    shuffled = patches.reshape(2, 4, 4, 3, 4, 4).permute(0, 3, 1, 4, 2, 5).reshape(2, 3, 16, 16)
    assert torch.allclose(network(batch), network(shuffled), atol=1e-5) == is_blind


def test_fixed_positions_are_not_learned() -> None:
    network = small(pos_embed="sincos2d")
    assert "pos_embed" not in dict(network.named_parameters()) and "pos_embed" not in network.state_dict()


def test_post_norm_equals_a_hand_computation() -> None:
    network = small(norm_placement="post", pos_embed="none", pool="mean", depth=2)
    tokens = network.patch_embed(images(2, 16))
    for block in network.blocks:
        tokens = F.layer_norm(tokens + block.attn(tokens), (24,), block.norm1.weight, block.norm1.bias, 1e-6)
        hidden = F.gelu(block.mlp.fc1(tokens))
        tokens = F.layer_norm(tokens + block.mlp.fc2(hidden), (24,), block.norm2.weight, block.norm2.bias, 1e-6)
    assert torch.allclose(network(images(2, 16)), network.head(tokens.mean(1)), atol=1e-5)


def test_training_starts_from_equal_probabilities() -> None:
    network = VisionTransformer(ViTConfig(**SMALL))
    assert torch.equal(network(images(2, 16)), torch.zeros(2, 5))


@pytest.mark.parametrize("shape", [(2, 3, 16, 20), (2, 3, 8, 8), (2, 1, 16, 16), (3, 16, 16), (2, 16, 16, 3)])
def test_wrong_image_shape_names_both_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError) as caught:
        small()(torch.zeros(shape))
    assert "(B, 3, 16, 16)" in str(caught.value) and str(shape) in str(caught.value)


def test_drop_path_grows_from_the_first_block_to_the_last() -> None:
    assert [block.drop_path.rate for block in small(drop_path_rate=0.2).blocks] == pytest.approx([0.0, 0.1, 0.2])
