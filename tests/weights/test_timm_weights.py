"""Weights of timm's networks load as the same network or are refused; no other network ever computes with them."""

import gc
import importlib
import json
import sys
from collections import Counter
from functools import partial

import pytest
import timm
import torch
from safetensors.torch import save_file

from vit.errors import CheckpointError, UsageError
from vit.models.spec import create_network
from vit.models.timm_network import TimmNetwork
from vit.weights.formats.timm_models import options_of_model
from vit.weights.open import open_pretrained

_slow = partial(pytest.param, marks=pytest.mark.slow)
CLASSES = 10
LARGEST = 45_000_000  # parameters of a network with one block; the sweep counts those above as left out
FAMILIES = (
    "beit", "cait", "convit", "crossvit", "davit", "deit", "eva", "hiera", "hieradet_sam2", "levit", "mvitv2",
    "naflexvit", "pit", "swin_transformer", "swin_transformer_v2", "swin_transformer_v2_cr", "tiny_vit", "tnt", "twins",
    "vision_transformer", "vision_transformer_hybrid", "vision_transformer_relpos", "vision_transformer_sam", "vitamin",
    "volo", "xcit",
)  # fmt: skip
_create = timm.create_model


@pytest.fixture
def undrawn(monkeypatch):
    """Most of the time of a network goes into its first values, which `shaken` replaces.

    They are 0, because `trunc_normal_` draws again until all values lie within its bounds.
    """
    for draw in ("normal_", "uniform_", "erfinv_"):
        monkeypatch.setattr(torch.Tensor, draw, lambda tensor, *_, **__: tensor.zero_())


def shallow(name, pretrained=False, blocks=2, **options):
    """timm.create_model with few blocks where a network has a depth: the same network, in the time that tests have."""
    for depth in ({"depth": blocks}, {}):
        try:
            return _create(name, pretrained=pretrained, **depth, **options)
        except (AssertionError, TypeError, ValueError):
            if not depth:
                raise
    raise AssertionError(name)


def shaken(network):
    """No zero, no one and no small LayerScale hides a part: every parameter and statistic is drawn."""
    generator = torch.Generator().manual_seed(0)

    def noise(value):
        return torch.randn(value.shape, generator=generator)

    with torch.no_grad():
        for name, value in network.named_parameters():
            last = name.rsplit(".", 1)[-1]
            if last.startswith(("gamma", "lambda")) or ".ls" in name:
                value.copy_(0.3 + 0.05 * noise(value))
            elif value.ndim < 2:
                value.copy_((last == "weight") + 0.1 * noise(value))
            elif last == "weight":
                value.copy_(noise(value) / value[0].numel() ** 0.5)
            else:  # tokens, positions, tables
                value.copy_(0.5 * noise(value))
        for name, value in network.named_buffers():
            if name.endswith("running_mean"):
                value.copy_(0.1 * noise(value))
            elif name.endswith("running_var"):
                value.copy_(1 + 0.1 * noise(value).abs())
    return network.eval()


def outcome(source, expected, images):
    """ "plain", "timm" or "refused": what becomes of weights. AssertionError where another network computes."""
    try:
        found = open_pretrained(str(source))
        filled = found.build(CLASSES)
    except (CheckpointError, UsageError) as error:
        return "refused" if error.fix else "no advice"
    network = filled.network.eval()
    assert not filled.report.initialized
    with torch.inference_mode():
        logits = network(images)
    off = float((logits - expected).abs().max() / expected.abs().max().clamp(min=1))
    assert off < 1e-4, f"{source}: {type(network).__name__} of {filled.spec} is off by {off:.2g}"
    return "timm" if isinstance(network, TimmNetwork) else "plain"


def outcomes(name, folder):
    """What becomes of one architecture's weights: as a file of its name, as a file of no name, as a folder."""
    theirs = shaken(timm.create_model(name, num_classes=CLASSES))
    config = timm.get_pretrained_cfg(name).to_dict()
    images = torch.randn(2, *config["input_size"], generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = theirs(images)
    assert expected.shape == (2, CLASSES) and expected.std() > 0.01
    sources = folder / f"{name}.safetensors", folder / "weights.safetensors", folder / "folder"
    sources[2].mkdir()
    save_file({key: value.contiguous() for key, value in theirs.state_dict().items()}, sources[0])
    del theirs
    sources[1].hardlink_to(sources[0])
    (sources[2] / "model.safetensors").hardlink_to(sources[0])
    about = {"architecture": name, "num_classes": CLASSES, "pretrained_cfg": config}
    (sources[2] / "config.json").write_text(json.dumps(about))
    return tuple(outcome(source, expected, images) for source in sources)


@pytest.mark.faults("C16")
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vit_small_patch16_rope_224", ("timm", "refused", "timm")),  # no positions but in attention
        ("vit_small_patch16_rope_ape_224", ("timm", "refused", "timm")),  # the names and shapes of DeiT III
        _slow("vit_base_patch16_rpn_224", ("timm", "refused", "timm")),  # norms after the branches
        ("vit_small_plus_patch16_dinov3", ("plain", "refused", "plain")),  # a gated MLP
        ("eva02_tiny_patch14_224", ("plain", "refused", "plain")),
        _slow("eva02_base_patch14_224", ("plain", "refused", "plain")),  # a norm inside the MLP
        _slow("vit_medium_patch16_rope_reg1_gap_256", ("plain", "refused", "plain")),
        _slow("eva02_base_patch16_clip_224", ("timm", "refused", "timm")),  # a norm inside attention
        ("vit_pe_core_tiny_patch16_384", ("timm", "refused", "timm")),  # pooling of all tokens by 8 heads
        ("vit_pe_spatial_tiny_patch16_512", ("timm", "refused", "timm")),  # no last norm
        _slow("beit3_base_patch16_224", ("timm", "refused", "timm")),  # norms inside attention and MLP
        _slow("vit_base_patch32_clip_quickgelu_224", ("plain", "refused", "plain")),
        _slow("vit_base_patch32_clip_224", ("plain", "refused", "plain")),
        _slow("vit_base_patch32_siglip_256", ("plain", "refused", "plain")),  # GELU's tanh, where others have GELU
        _slow("vit_base_patch16_gap_224", ("plain", "refused", "plain")),  # heads of 48 channels
        ("deit3_small_patch16_224", ("plain", "plain", "plain")),
        ("resnet10t", ("timm", "refused", "timm")),
    ],
)
def test_weights_of_another_network_are_never_computed_as_ours(name, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(timm, "create_model", shallow)
    assert outcomes(name, tmp_path) == expected


@pytest.mark.parametrize(("image_size", "is_ours"), [(224, True), (230, False)])
def test_a_side_that_patches_do_not_divide_is_left_to_timm(image_size, is_ours):
    """A ViT of ours took SigLIP so400m's 384 pixels for the 378 of its patches, and resized to them."""
    with torch.device("meta"):
        model = timm.create_model("vit_tiny_patch16_224", img_size=image_size)
    assert (options_of_model(model) is not None) == is_ours


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_vit_of_timm(family, tmp_path, monkeypatch):
    """Every architecture of the installed timm that is a ViT or a relative of it: nearly 500, of 10 seconds each."""
    monkeypatch.setattr(timm, "create_model", partial(shallow, blocks=1))
    counts, wrong, left_out = Counter(), [], []
    module = importlib.import_module(f"timm.models.{family}").__name__
    names = [name for name in timm.list_models() if timm.model_entrypoint(name).__module__ == module]
    for number, name in enumerate(names):
        with torch.device("meta"):
            size = sum(value.numel() for value in timm.create_model(name).parameters())
        if size > LARGEST:
            left_out.append(name)
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            found = outcomes(name, folder)
        except Exception as error:
            wrong.append(f"{name}: {error!r}")
            print(number, wrong[-1], file=sys.stderr, flush=True)
            continue
        finally:
            for path in sorted(folder.rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
            gc.collect()
        counts.update(zip(("named", "bare", "folder"), found, strict=True))
        print(number, name, *found, file=sys.stderr, flush=True)
    print(f"{len(names)} architectures: {dict(counts)}; left out {left_out}; wrong {wrong}", file=sys.stderr)
    assert names and not wrong


@pytest.mark.usefixtures("undrawn")
@pytest.mark.filterwarnings("ignore:torch.searchsorted", "ignore:Using a non-tuple sequence")  # in timm
@pytest.mark.parametrize(
    ("name", "side"),
    [
        _slow("eva02_base_patch16_clip_224", 112),
        ("beit_base_patch16_224", 112),
        _slow("vit_pe_core_base_patch16_224", 112),
        _slow("vit_intern300m_patch14_448", 112),
    ],
)
def test_another_image_size_is_what_timm_makes_of_it(name, side, tmp_path, monkeypatch):
    monkeypatch.setattr(timm, "create_model", shallow)
    theirs = shaken(timm.create_model(name, num_classes=CLASSES))
    weights = {key: value.contiguous() for key, value in theirs.state_dict().items()}
    save_file(weights, tmp_path / f"{name}.safetensors")
    theirs.set_input_size(img_size=(side, side))
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = theirs(images)
    found = open_pretrained(str(tmp_path / f"{name}.safetensors"))
    with torch.device("meta"):
        found.check_fit(create_network(name, CLASSES, side))
    network = create_network(name, CLASSES, side).eval()
    report = found.fill(network)
    assert not report.initialized and report.resampled
    with torch.inference_mode():
        assert (network(images) - expected).abs().max() < 1e-4 * expected.abs().max().clamp(min=1)


@pytest.mark.slow
def test_a_network_that_timm_cannot_resize_keeps_its_size(tmp_path):
    theirs = timm.create_model("hiera_tiny_224", num_classes=2)
    save_file(
        {key: value.contiguous() for key, value in theirs.state_dict().items()}, tmp_path / "hiera_tiny_224.safetensors"
    )
    found = open_pretrained(str(tmp_path / "hiera_tiny_224.safetensors"))
    with torch.device("meta"):
        other = create_network("hiera_tiny_224", 2, 256)
    with pytest.raises(CheckpointError, match=r"pos_embed is .*for hiera_tiny_224 of 224 pixels"):
        found.check_fit(other)
