"""Google's .npz files in both layouts: what timm's own loader makes of them and what ours does give the same logits.

timm's networks have exact GELU by default. Google's code has flax's GELU, the tanh approximation, and so has timm here.
"""

import numpy as np
import pytest
import timm
import torch

from vit.weights.formats.detect import convert_weights

D, H, HIDDEN, DEPTH, SIDE, PATCH, C = 96, 3, 192, 2, 48, 16, 7
SMALL = {"embed_dim": D, "num_heads": H, "mlp_ratio": 2.0, "depth": DEPTH, "img_size": SIDE, "num_classes": C,
         "act_layer": "gelu_tanh"}  # fmt: skip


def arrays(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {name: draw.normal(scale=0.2, size=shape).astype(np.float32) for name, shape in shapes.items()}


def attention(prefix: str) -> dict[str, tuple[int, ...]]:
    shapes = {f"{prefix}/out/kernel": (H, D // H, D), f"{prefix}/out/bias": (D,)}
    for part in ("query", "key", "value"):
        shapes |= {f"{prefix}/{part}/kernel": (D, H, D // H), f"{prefix}/{part}/bias": (H, D // H)}
    return shapes


def mlp(prefix: str) -> dict[str, tuple[int, ...]]:
    kernels = {f"{prefix}/Dense_0/kernel": (D, HIDDEN), f"{prefix}/Dense_1/kernel": (HIDDEN, D)}
    return kernels | {f"{prefix}/Dense_0/bias": (HIDDEN,), f"{prefix}/Dense_1/bias": (D,)}


def norm(prefix: str) -> dict[str, tuple[int, ...]]:
    return {f"{prefix}/scale": (D,), f"{prefix}/bias": (D,)}


def layout(big_vision: bool, map_head: bool = False) -> dict[str, np.ndarray]:
    """Names and shapes of vit_jax/models_vit.py and of big_vision/models/vit.py, without and with a MAP head."""
    attn, dense, second = (0, 0, 1) if big_vision else (1, 3, 2)
    shapes = {"embedding/kernel": (PATCH, PATCH, 3, D), "embedding/bias": (D,)}
    shapes |= {"head/kernel": (D, C), "head/bias": (C,), **norm("Transformer/encoder_norm")}
    if not map_head:
        shapes["cls"] = (1, 1, D)
    count = (SIDE // PATCH) ** 2
    shapes |= {"pos_embedding": (1, count, D)} if big_vision else {}
    shapes |= {} if big_vision else {"Transformer/posembed_input/pos_embedding": (1, count + 1, D)}
    for number in range(DEPTH):
        block = f"Transformer/encoderblock_{number}"
        shapes |= attention(f"{block}/MultiHeadDotProductAttention_{attn}") | mlp(f"{block}/MlpBlock_{dense}")
        shapes |= norm(f"{block}/LayerNorm_0") | norm(f"{block}/LayerNorm_{second}")
    if map_head:
        shapes |= {"MAPHead_0/probe": (1, 1, D), **norm("MAPHead_0/LayerNorm_0"), **mlp("MAPHead_0/MlpBlock_0")}
        shapes |= attention("MAPHead_0/MultiHeadDotProductAttention_0")
    return arrays(shapes)


def stacked(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Blocks along a first axis, as big_vision writes them with `scan`."""
    result = {name: value for name, value in weights.items() if "encoderblock_" not in name}
    for name in [name for name in weights if "encoderblock_0/" in name]:
        parts = [weights[name.replace("block_0", f"block_{number}")] for number in range(DEPTH)]
        result[name.replace("block_0", "block")] = np.stack(parts)
    return result


CASES = {
    "vision_transformer": ("", lambda: layout(False), {}),
    "its checkpoints": ("opt/target/", lambda: layout(False), {}),
    "big_vision": ("params/", lambda: layout(True), {"no_embed_class": True}),
    "big_vision, stacked": ("params/", lambda: stacked(layout(True)), {"no_embed_class": True}),
    "siglip": ("params/img/", lambda: layout(True, True), {"class_token": False, "global_pool": "map"}),
}


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_timms_loader(case, ours, same, tmp_path):
    from vit.weights.file import read_weights_file

    prefix, make, options = CASES[case]
    beside = {"opt/target/": {"opt/state/step": np.ones(1, np.float32)}, "params/img/": {"params/t": np.ones(1)}}
    weights = {f"{prefix}{name}": value for name, value in make().items()} | beside.get(prefix, {})
    np.savez(tmp_path / "a.npz", **weights)
    theirs = timm.create_model("vit_base_patch16_224", **SMALL, **options).eval()
    with torch.no_grad():
        theirs.load_pretrained(str(tmp_path / "a.npz"))
    read = read_weights_file(tmp_path / "a.npz").weights
    assert convert_weights(read, {})[1].options["activation"] == "gelu_tanh"
    same(theirs, ours(read, "JAX"), SIDE)
    theirs.set_input_size(img_size=80)
    same(theirs, ours(read, "JAX", image_size=80), 80)


def test_big_vision_s_fixed_positions_stand_in_no_file(ours):
    """SimpleViT adds sines and cosines: a network without positions would be another one."""
    from vit.models.later_papers import sincos2d

    weights = {name: torch.from_numpy(value) for name, value in layout(True).items() if name != "pos_embedding"}
    network = ours(weights, "JAX")
    assert torch.equal(network.pos_embed, sincos2d(224 // PATCH, D, 0))


@pytest.mark.parametrize("big_vision", [False, True])
@pytest.mark.parametrize(("scale", "has_head"), [(1.0, False), (0.0, True)])
def test_a_classifier_that_reads_pre_logits_is_dropped_with_it(big_vision, scale, has_head):
    """Both have a layer with tanh in front of the classifier (representation_size, rep_size)."""
    weights = {f"params/{name}": torch.from_numpy(value) for name, value in layout(big_vision).items()}
    weights["params/head/kernel"] *= scale
    layer = {"params/pre_logits/kernel": torch.ones(D, D), "params/pre_logits/bias": torch.ones(D)}
    _, converted, _ = convert_weights({**weights, **layer}, {})
    assert ("head.weight" in converted.weights) == has_head and layer.keys() <= converted.dropped.keys()
    assert ("reads pre_logits" in converted.dropped.get("params/head/kernel", "")) != has_head
    assert "head.weight" in convert_weights(weights, {})[1].weights


def test_the_activation_is_flax_s_default(ours):
    """flax.linen.gelu(x) is 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): no exact GELU, up to 5e-4 beside it."""
    weights = {name: torch.from_numpy(value) for name, value in layout(False).items()}
    x = torch.linspace(-4, 4, 97)
    expected = 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    activation = ours(weights, "JAX").blocks[0].mlp.activation
    assert torch.allclose(activation(x), expected, atol=1e-6)
    assert (torch.nn.functional.gelu(x) - expected).abs().max() > 1e-4
