"""Where weights come from, and what comes with them: network, preprocessing, class names."""

import json

import pytest
import timm
import torch
from safetensors.torch import save_file

from tests.training.distillation.teachers import write_teacher
from vit.checkpoints.format import Description, checkpoint_content
from vit.data.pixels.preprocess import Preprocess
from vit.errors import CheckpointError, ResourceError, UsageError
from vit.models.spec import NetworkSpec, create_network
from vit.weights import hubs
from vit.weights.open import open_pretrained
from vit.weights.pretrained import PREPROCESSING, OwnNetwork, imagenet_classes

IMAGENET = (0.485, 0.456, 0.406)
HALF = (0.5, 0.5, 0.5)


def weights_of(num_classes=7, **values):
    options = {"depth": 2, "num_heads": 1, "qk_norm": True, **values}
    network = create_network("vit_nano_patch2_8", num_classes, 8, **options)
    return {name: value.contiguous() for name, value in network.state_dict().items()}


def test_a_bare_file(tmp_path):
    save_file(weights_of(1000), tmp_path / "mine.safetensors")
    found = open_pretrained(str(tmp_path / "mine.safetensors"))
    assert found.own_network().options["mlp_ratio"] == 2.0
    assert found.own_network().name == "vit" and found.own_network().image_size == 8
    assert found.own_network().options["num_heads"] == 1
    assert found.own_network({"num_heads": 4}).options["num_heads"] == 4
    assert found.preprocess["mean"] == IMAGENET and found.guessed == (*PREPROCESSING, "class_names")
    assert found.class_names == imagenet_classes(1000) and found.class_names[:2] == ("tench", "goldfish")


@pytest.mark.parametrize("profiles", ["convert", "ignore"])
def test_a_checkpoint_keeps_what_it_does_with_color_profiles(tmp_path, profiles):
    write_teacher(tmp_path / "mine.ckpt", preprocess=Preprocess(12, color_profiles=profiles))
    assert open_pretrained(str(tmp_path / "mine.ckpt")).build(3).preprocess.color_profiles == profiles


def test_a_file_with_a_name_of_timm_has_its_preprocessing(tmp_path):
    theirs = timm.create_model("vit_tiny_patch16_224", depth=1)
    for name in ("vit_tiny_patch16_224.augreg_in21k_ft_in1k", "deit_tiny_patch16_224-a1311bcf"):
        save_file(theirs.state_dict(), tmp_path / f"{name}.safetensors")
    augreg = open_pretrained(str(tmp_path / "vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors"))
    deit = open_pretrained(str(tmp_path / "deit_tiny_patch16_224-a1311bcf.safetensors"))
    assert augreg.preprocess["mean"] == HALF and deit.preprocess["mean"] == IMAGENET
    assert deit.preprocess["crop_fraction"] == 224 / 248 and deit.preprocess["interpolation"] == "bicubic"
    assert deit.own_network().options["num_heads"] == 3 and "deit_tiny" in deit.preprocess_from
    words = dict(deit.facts())["preprocessing"]
    assert "crop_fraction 0.9032, resize_mode shortest (" in words and "mean 0.485 0.456 0.406, " in words


def test_class_names_of_a_folder(tmp_path):
    save_file(weights_of(2), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"1": "dog", "0": "cat"}}))
    assert open_pretrained(str(tmp_path)).class_names == ("cat", "dog")
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}))
    assert open_pretrained(str(tmp_path)).class_names is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda w: {"conv1.weight": torch.ones(1), "fc.bias": torch.ones(1)},
            "conv1.weight.* of no ViT that is known.*--network NAME",
        ),
        (lambda w: {**w, "pos_embed": torch.ones(1, 12, 64)}, "not a square of patches"),
        (lambda w: {**w, "patch_embed.proj.weight": torch.ones(64, 12)}, r"not \(D, 3, P, P\)"),
        (
            lambda w: {**w, "patch_embed.proj.weight": torch.ones(64, 1, 2, 2)},
            r"64, 1, 2, 2\), not .* of 3 channels \(in_chans\); give weights of a plain RGB ViT",
        ),
        (lambda w: {k.replace("blocks.1", "blocks.9999"): v for k, v in w.items()}, "with gaps"),
    ],
)
def test_weights_of_no_vit(change, words, tmp_path):
    save_file(change(weights_of()), tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=words):
        open_pretrained(str(tmp_path / "x.safetensors")).own_network()


def test_heads_that_nothing_tells(tmp_path):
    for width, heads in (
        (24, 3),
        (64, 4),
        (128, 4),
    ):  # of the last two timm's and our own networks have other heads than one
        save_file(weights_of(embed_dim=width, num_heads=heads, qk_norm=False), tmp_path / "x.safetensors")
        found = open_pretrained(str(tmp_path / "x.safetensors"))
        with pytest.raises(CheckpointError, match="num_heads"):
            found.own_network()
        assert found.own_network({"num_heads": heads}).options["num_heads"] == heads


def test_a_run_and_its_checkpoint(digits_run):
    for source in (digits_run.path, digits_run.best):
        found = open_pretrained(str(source))
        assert found.format == "vit" and len(found.class_names) == 10
        assert found.own_network().name == "vit_nano_patch2_8"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("timm:vit_tiny_patch16_244", "vit_tiny_patch16_224"),
        ("timm:vit_nano_patch2_8", "timm has no model"),
        ("torchvision:vit_b_61", "vit_b_16"),
        ("torchvision:googlenet", "timm has no network that computes what torchvision's googlenet"),
        ("torchvision:vit_b_16.IMAGENET1K_V9", "IMAGENET1K_V1"),
    ],
)
def test_a_name_that_a_library_does_not_know(source, words):
    with pytest.raises(UsageError, match=words):
        open_pretrained(source)


@pytest.mark.parametrize("source", ["timm:vit_tiny_patch16_224", "torchvision:vit_b_16", "hf:org/name"])
def test_no_network(source, monkeypatch):
    import huggingface_hub

    def fail(*_, **__):
        raise OSError("no route to host\nsecond line")

    monkeypatch.setattr(hubs, "_asked", fail)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", fail)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", fail)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ResourceError, match="cannot be fetched: OSError: no route to host") as caught:
        open_pretrained(source)
    assert source in str(caught.value) and "\n" not in str(caught.value)


def test_what_libraries_fetch(monkeypatch, tmp_path):
    import huggingface_hub

    original = timm.create_model
    small = {"depth": 1, "num_classes": 1000}
    monkeypatch.setattr(hubs, "_asked", lambda repository: None)
    monkeypatch.setattr(
        timm, "create_model", lambda name, pretrained=False, pretrained_cfg_overlay=None: original(name, **small)
    )
    vit = open_pretrained("timm:vit_tiny_patch16_224")
    options = vit.own_network().options
    assert options["num_heads"] == 3 and options["depth"] == 1 and vit.preprocess["mean"] == HALF

    save_file(weights_of(), tmp_path / "model.safetensors")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, revision, allow_patterns: str(tmp_path))
    assert open_pretrained("hf:org/name").num_classes == 7


def test_a_cnn_of_timm(monkeypatch):
    state = timm.create_model("resnet18").state_dict()
    monkeypatch.setattr(hubs, "fetched", lambda source, fetch: state)
    found = open_pretrained("timm:resnet18.a1_in1k")
    assert found.own_network() == OwnNetwork("resnet18", 224) and "model.fc.weight" in found.weights
    assert found.preprocess["crop_fraction"] == 224 / 235 and len(found.class_names) == 1000


def test_what_vit_export_wrote_is_known_by_its_description(vit, digits_run, tmp_path):
    """Four heads of width 16 show in no shape: the file's own words do."""
    file = tmp_path / "exported.safetensors"
    assert vit("export", digits_run.path, "--format", "safetensors", "--output", file).code == 0
    found, own = open_pretrained(str(file)), open_pretrained(str(digits_run.best))
    assert found.class_names == own.class_names and found.preprocess == own.preprocess
    described, before = found.own_network(), own.own_network()
    assert described.name == before.name
    assert described.options["num_heads"] == before.options["num_heads"] == 4
    content = file.read_bytes()
    (tmp_path / "broken.safetensors").write_bytes(content.replace(b"crop_fraction", b"krop_fraction", 1))
    with pytest.raises(CheckpointError, match="broken description"):
        open_pretrained(str(tmp_path / "broken.safetensors"))


@pytest.mark.parametrize("format_name", ["safetensors", "timm"])
@pytest.mark.parametrize(
    ("name", "options", "side"),
    [
        ("vit_nano_patch2_8", {"pos_embed": "sincos2d"}, 12),
        ("vit_nano_patch2_8", {"pos_embed": "none"}, 12),
        ("vit_nano_patch2_8", {"pos_embed": "none", "pool": "mean"}, 12),
        ("vit_nano_patch2_8", {"num_registers": 4}, 4),  # 2 * 2 + 5 positions, which are a square of 3 patches as well
        ("vit_nano_patch2_8", {"num_registers": 4, "prefix_positions": False}, 6),
        ("test_efficientnet", {}, 32),
    ],
)
def test_what_vit_export_wrote_is_the_same_network(name, options, side, format_name, vit, tmp_path):
    """Positions that are computed, or none, are not in the file; timm's own networks have other names in ours."""
    torch.manual_seed(0)
    spec = NetworkSpec.named(name, 3, options)
    network = spec.build(side).eval()
    about = Description(("a", "b", "c"), spec, Preprocess(side))
    torch.save(checkpoint_content(about, network.state_dict()), tmp_path / "a.ckpt")
    file = tmp_path / f"a-{format_name}.safetensors"
    vit("export", tmp_path / "a.ckpt", "--format", format_name, "--output", file).ok()
    found = open_pretrained(str(file))
    assert found.own_network().image_size == side
    images = torch.randn(4, 3, side, side)
    assert torch.allclose(found.build(3).network.eval()(images), network(images), atol=1e-5)


def test_a_tag_in_the_name_of_a_file_is_that_of_its_weights(tmp_path):
    """timm's weights of one network differ in preprocessing and license."""
    weights = timm.create_model("resnet18").state_dict()
    told = {}
    for name in ("resnet18.tv_in1k", "resnet18-5c106cde", "resnet18.of_mine"):
        save_file(weights, tmp_path / f"{name}.safetensors")
        told[name] = open_pretrained(str(tmp_path / f"{name}.safetensors"))
    of_torchvision, bare, mine = told.values()
    assert of_torchvision.preprocess["interpolation"] == "bilinear" and of_torchvision.license == "bsd-3-clause"
    assert of_torchvision.preprocess_from == "timm's configuration of resnet18.tv_in1k"
    default = timm.models.get_pretrained_cfg("resnet18")
    for found in (
        bare,
        mine,
    ):  # of which weights these are is not known, so a tag is a guess and a license is not stated
        assert found.preprocess_from == f"timm's configuration of resnet18.{default.tag}"
        assert found.preprocess["interpolation"] == default.interpolation and found.license == "not stated"
        assert found.guessed == (*PREPROCESSING, "class_names", "image_size")


def test_what_bare_files_of_clip_do_not_say_is_asked(tmp_path):
    """OpenAI's CLIP has quick GELU, LAION's has GELU, and no name and no shape shows it."""
    save_file(weights_of(embed_norm=True), tmp_path / "x.safetensors")
    found = open_pretrained(str(tmp_path / "x.safetensors"))
    with pytest.raises(CheckpointError, match=r"do not show its activation; .*--model\.network"):
        found.own_network()
    told = found.own_network({"activation": "quick_gelu"}).options
    assert told["activation"] == "quick_gelu" and told["norm_eps"] == 1e-5
    tower = {
        "embeddings.patch_embedding.weight": torch.ones(192, 3, 4, 4),
        "embeddings.class_embedding": torch.ones(192),
        "encoder.layers.0.self_attn.q_proj.weight": torch.ones(192, 192),
    }
    save_file(tower, tmp_path / "tower.safetensors")
    with pytest.raises(CheckpointError, match="activation"):
        open_pretrained(str(tmp_path / "tower.safetensors")).own_network()


def test_the_tower_of_an_openclip_folder_is_the_model_that_its_config_names(tmp_path):
    """timm's SigLIP for 256 pixels in patches of 32 has GELU's tanh; its weights look as those of SigLIP with GELU."""
    theirs = timm.create_model("vit_base_patch32_siglip_256", depth=1)
    save_file({f"visual.trunk.{name}": value for name, value in theirs.state_dict().items()},
              tmp_path / "open_clip_model.safetensors")  # fmt: skip
    about = {"model_cfg": {"vision_cfg": {"timm_model_name": "vit_base_patch32_siglip_256"}}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(about))
    assert open_pretrained(str(tmp_path)).own_network().options["activation"] == "gelu_tanh"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"architecture": "vit_next_patch16_224"}, "does not have; upgrade timm"),
        ({"architecture": "vit_tiny_patch16_224", "model_args": {"num_heads": 6}}, "by num_heads"),
        ({"architecture": "vit_tiny_patch16_224", "model_args": {"img_size": 10**9}}, "by img_size"),
        ({"architecture": "vit_tiny_patch16_224", "model_args": [1]}, "cannot be used"),
    ],
)
def test_a_folder_whose_network_is_not_known_is_refused(config, words, tmp_path):
    save_file(weights_of(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=words):
        open_pretrained(str(tmp_path))


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path):
    save_file(weights_of(), tmp_path / "resnet18.safetensors")
    with pytest.raises(CheckpointError, match="named as timm's resnet18, whose tensors are others"):
        open_pretrained(str(tmp_path / "resnet18.safetensors"))


def test_a_file_older_than_the_counters_of_batch_norm_is_read(tmp_path):
    """PyTorch has them since 0.4.1, and loads files without them."""
    theirs = timm.create_model("resnet18").eval()
    old = {name: value for name, value in theirs.state_dict().items() if not name.endswith("num_batches_tracked")}
    save_file(old, tmp_path / "resnet18.safetensors")
    weights = open_pretrained(str(tmp_path / "resnet18.safetensors"))
    network, images = create_network("resnet18", 1000, image_size=64), torch.rand(2, 3, 64, 64)
    network.load_state_dict(weights.weights)
    with torch.no_grad():
        assert torch.equal(network.eval()(images), theirs(images))


def test_a_network_without_positions_is_not_taken_for_a_plain_vit(tmp_path):
    save_file(weights_of(pos_embed="none"), tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="rotary or relative positions as well; rename"):
        open_pretrained(str(tmp_path / "x.safetensors"))


@pytest.mark.faults("P1")
@pytest.mark.parametrize(
    ("names", "words", "model"),
    [
        (("visual.conv1.weight", "visual.transformer.resblocks.0.ln_1.weight", "visual.ln_post.weight",
          "visual.attn_pool.probe"), "Perception Encoder", "timm:vit_pe_core"),
        (("conv1.weight", "transformer.resblocks.0.ln_1.weight", "ln_pre.weight"), "Perception Encoder", "timm:vit_pe"),
        (("patch_embed.proj.weight", "pos_embed", "blocks.0.attn.q_bias", "blocks.0.attn.rope.freqs_cos"),
         "EVA-02", "timm:eva02"),
        (("visual.patch_embed.proj.weight", "visual.blocks.0.mlp.ffn_ln.weight"), "EVA-02", "timm:eva02"),
    ],
)  # fmt: skip
def test_networks_that_timm_alone_computes_are_named(tmp_path, names, words, model):
    save_file({name: torch.zeros(4) for name in names}, tmp_path / "published.safetensors")
    with pytest.raises(CheckpointError, match=words) as error:
        open_pretrained(str(tmp_path / "published.safetensors"))
    assert model in (error.value.fix or "")
