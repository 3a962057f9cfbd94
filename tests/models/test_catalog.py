"""Names and descriptions of networks: what is built, and what is refused."""

import inspect
import json
import resource
import typing

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from vit.errors import UsageError
from vit.models.catalog import CATALOG, entry, names
from vit.models.spec import NetworkSpec, create_network, describe
from vit.models.timm_network import SmallImageResNet, TimmNetwork
from vit.models.vision_transformer import VisionTransformer

SMALL = ["vit_nano_patch2_8", "vit_mini_patch4_28", "vit_tiny_cifar", "resnet10_small", "resnet18_cifar"]


@pytest.mark.parametrize("name", CATALOG)
def test_every_entry_builds_and_classifies_an_image(name: str) -> None:
    with torch.device("cpu" if name in SMALL else "meta"):
        network = create_network(name, num_classes=7).eval()
        logits = network(torch.zeros(1, 3, network.image_size, network.image_size))
    assert logits.shape == (1, 7)
    assert network.num_classes == 7


@pytest.mark.parametrize("name", [*SMALL, "vit_tiny_patch16_224", "convnext_atto"])
def test_cost_counts_the_parameters_that_are_built(name: str) -> None:
    spec = NetworkSpec.named(name, 10)
    network = spec.build(spec.default_image_size)
    assert spec.cost(network.image_size).parameters == sum(parameter.numel() for parameter in network.parameters())


def test_cost_counts_the_operations_of_the_papers_equations() -> None:
    S, P, D, L, C = 28, 4, 128, 6, 10
    N = (S // P) ** 2
    T = N + 1
    block = T * D * 3 * D + 2 * T * T * D + T * D * D + 2 * T * D * 4 * D
    last = T * D * 2 * D + D * D + 2 * T * D + D * D + 2 * D * 4 * D  # only the class token goes on
    multiplications = N * 3 * P * P * D + (L - 1) * block + last + D * C
    assert NetworkSpec.named("vit_mini_patch4_28", C).cost(S).flops == 2 * multiplications


@pytest.mark.parametrize("name", ["vit_nano_patch2_8", "resnet10_small", "test_vit"])
def test_an_empty_network_draws_no_weights(name: str) -> None:
    """On the meta device a draw has no values, and it took most of the time of a plan."""
    drawn = []

    class Watched(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            drawn.append(str(func))
            return func(*args, **(kwargs or {}))

    spec = NetworkSpec.named(name, 10)
    with Watched():
        empty = spec.build_empty(spec.default_image_size)
    assert drawn and not [kind for kind in drawn if "uniform" in kind or "normal" in kind or "clamp" in kind]
    whole = spec.build(spec.default_image_size).state_dict()
    assert {key: (value.shape, value.dtype) for key, value in empty.state_dict().items()} == {
        key: (value.shape, value.dtype) for key, value in whole.items()
    }


def test_cost_does_not_allocate_the_network() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cost = NetworkSpec.named("vit_huge_patch14_224", 10, {"embed_dim": 3840, "num_heads": 30, "depth": 12}).cost(224)
    assert cost.parameters > 1.9e9  # 8.5 GB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KB


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("vit_tiny_patch16_244", "vit_tiny_patch16_224"),
        ("vit_nano_patch2", "vit_nano_patch2_8"),
        ("resnet18_cifr", "resnet18_cifar"),
        ("convnext_ato", "convnext_atto"),
    ],
)
def test_typo_in_a_name_is_answered_with_the_nearest(typo: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        create_network(typo, num_classes=10)
    assert repr(typo) in str(caught.value) and repr(meant) in caught.value.fix


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("vit_tiny_cifar", "detph", 3),
        ("vit_tiny_cifar", "depth", "twelve"),
        ("vit_tiny_cifar", "depth", 12.0),
        ("vit_tiny_cifar", "depth", True),
        ("vit_tiny_cifar", "depth", 0),
        ("vit_tiny_cifar", "patch_size", -4),
        ("vit_tiny_cifar", "num_heads", 0),
        ("vit_tiny_cifar", "mlp_ratio", 0.0),
        ("vit_tiny_cifar", "drop_rate", -0.1),
        ("vit_tiny_cifar", "drop_path_rate", 1.0),
        ("vit_tiny_cifar", "attn_drop_rate", float("nan")),
        ("vit_tiny_cifar", "qkv_bias", 1),
        ("vit_tiny_cifar", "pool", "max"),
        ("vit_tiny_cifar", "pos_embed", None),
        ("vit_tiny_cifar", "norm_placement", ["pre"]),
        ("vit_tiny_cifar", "class_path", "os.system"),
        ("vit_tiny_cifar", "num_classes", 3),
        ("vit_tiny_cifar", "image_size", 64),
        ("resnet10_small", "layers", [1, 1]),
        ("resnet10_small", "layers", [1, 1, 1, 0]),
        ("resnet10_small", "widths", [8, 8, 8, "wide"]),
        ("convnext_atto", "model", "resnet50"),
        ("convnext_atto", "patch_size", 4),
    ],
)
def test_wrong_value_is_refused_by_its_key(name: str, key: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"model\.network\.{key}"):
        NetworkSpec.named(name, 10, {key: value})


def test_misspelt_value_and_choice_are_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="'depth'"):
        NetworkSpec.named("vit_tiny_cifar", 10, {"detph": 3})
    with pytest.raises(UsageError, match="'learned'"):
        NetworkSpec.named("vit_tiny_cifar", 10, {"pos_embed": "learnt"})


@pytest.mark.parametrize(("options", "image_size"), [({}, 30), ({}, -16), ({"num_heads": 5}, 32)])
def test_values_that_do_not_fit_together_are_a_usage_error(options: dict[str, object], image_size: int) -> None:
    """Before anything is built, and where options were not checked before, as those of a file."""
    for spec in (NetworkSpec.named("vit_tiny_cifar", 10, options), NetworkSpec("vit_tiny_cifar", 10, options)):
        for use in (spec.config, spec.build):
            with pytest.raises(UsageError, match="image_size"):
                use(image_size)


@pytest.mark.faults("K5")
@pytest.mark.parametrize("network", sorted({line.network for line in CATALOG.values()} | {TimmNetwork}, key=str))
def test_a_description_can_name_nothing_to_import(network: type) -> None:
    assert list(inspect.signature(network).parameters) == ["config"]
    hints = typing.get_type_hints(network.config_class)
    parameters = list(inspect.signature(network.config_class).parameters.values())
    assert {parameter.name for parameter in parameters} == hints.keys()
    for parameter in parameters:
        assert parameter.kind is parameter.KEYWORD_ONLY
        kind = hints[parameter.name]
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        is_choice = origin is typing.Literal and all(type(value) is str for value in parts)
        is_tuple = origin is tuple and set(parts) == {int}
        assert is_choice or is_tuple or kind in (bool, int, float, str), f"{network.__name__}.{parameter.name}: {kind}"


@pytest.mark.parametrize("name", [*CATALOG, "convnext_atto"])
def test_description_survives_json(name: str) -> None:
    spec = NetworkSpec.named(name, 10)
    read = NetworkSpec.from_plain(json.loads(json.dumps(spec.to_plain())), 10)
    assert read == spec
    side = spec.default_image_size
    before, after = spec.build_empty(side).state_dict(), read.build_empty(side).state_dict()
    assert {key: value.shape for key, value in before.items()} == {key: value.shape for key, value in after.items()}


def test_given_values_win_over_the_catalogs() -> None:
    spec = NetworkSpec.named("vit_tiny_cifar", 3, {"depth": 2, "mlp_ratio": 2, "pool": "mean"})
    assert spec.options["mlp_ratio"] == 2.0 and type(spec.options["mlp_ratio"]) is float
    network = spec.build(64)
    assert isinstance(network, VisionTransformer)
    assert (
        len(network.blocks) == 2
        and network.config.pool == "mean"
        and network.image_size == 64
        and network.num_classes == 3
    )
    assert network.blocks[0].mlp.fc1.out_features == 384


def test_cifar_resnet_keeps_every_pixel_before_its_first_stage() -> None:
    network = create_network("resnet18_cifar", num_classes=10).eval()
    assert isinstance(network, SmallImageResNet)
    seen: list[torch.Size] = []
    network.model.layer1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    network(torch.zeros(1, 3, 32, 32))
    assert seen == [(1, 64, 32, 32)]


@pytest.mark.parametrize("zero", [False, True])
def test_the_branches_of_a_small_resnet_learn_from_the_first_step(zero: bool) -> None:
    network = create_network("resnet10_small", num_classes=10, zero_init_last=zero)
    network(torch.randn(2, 3, 32, 32)).square().sum().backward()
    learns = [bool(stage[0].conv1.weight.grad.any()) for stage in (network.model.layer1, network.model.layer4)]
    assert learns == [not zero, not zero]


def test_timms_models_come_in_by_name() -> None:
    network = create_network("convnext_atto", num_classes=3, image_size=64, drop_path_rate=0.1).eval()
    assert network(torch.zeros(1, 3, 64, 64)).shape == (1, 3)
    with pytest.raises(ValueError, match=r"\(B, 3, 64, 64\), got \(1, 3, 32, 32\)"):
        network(torch.zeros(1, 3, 32, 32))


def test_timms_models_for_one_size_are_built_for_the_size_asked() -> None:
    with torch.device("meta"):
        network = create_network("deit_tiny_distilled_patch16_224", num_classes=3, image_size=64).eval()
        assert network(torch.zeros(1, 3, 64, 64)).shape == (1, 3)
    assert "model.pos_embed" in network.no_weight_decay()
    assert "model.pos_embed" in dict(network.named_parameters())


def test_names_filter_by_pattern_and_ours_come_first() -> None:
    assert names("vit_t*")[:2] == ["vit_tiny_cifar", "vit_tiny_patch16_224"]
    assert names("resnet18*")[0] == "resnet18_cifar" and "resnet18" in names("resnet18*")
    assert all(names("vit_*").count(name) == 1 for name in CATALOG if name.startswith("vit_"))
    assert names("no_such_*") == []


def test_describe_tells_size_and_cost() -> None:
    (line,) = describe(["vit_tiny_patch16_224"], print)
    assert line[:2] == ("vit_tiny_patch16_224", 224) and line[2].parameters == 5_717_416
    assert line[3] == entry("vit_tiny_patch16_224").about
