"""Checkpoints of training programs: which weights are taken, and what the files state of them."""

import argparse
import json
import pathlib

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.models._hub import save_for_hf
from timm.utils import CheckpointSaver, ModelEmaV3

from vit.checkpoints.format import Description, checkpoint_content
from vit.data.pixels.preprocess import Preprocess
from vit.errors import CheckpointError
from vit.models.spec import NetworkSpec, create_network
from vit.weights.open import open_pretrained
from vit.weights.pretrained import PREPROCESSING, imagenet_classes

VIT, CNN = "vit_tiny_patch16_224", "resnet18"
SETTINGS = {"mean": [0.5], "std": [0.25] * 3, "crop_pct": 0.9, "interpolation": "bilinear", "img_size": None}


def drawn(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn(value.shape, generator=generator) * 0.03)
    return model.eval()


def ones(model):
    """Weights for a network on the meta device, without draws: for tests that compute nothing."""
    return {name: torch.ones(value.shape, dtype=value.dtype) for name, value in model.state_dict().items()}


@pytest.fixture(scope="module")
def small_vit():
    return drawn(timm.create_model(VIT, depth=1, num_classes=5))


@pytest.fixture(scope="module")
def cnn():
    return drawn(timm.create_model(CNN, num_classes=7))


def logits(source, side=64, **options):
    found = open_pretrained(str(source), **options)
    filled = found.build(found.num_classes, side)
    assert not filled.report.initialized
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return found, filled.network.eval()(images), images


def computes(model, source, side=64, **options):
    found, ours, images = logits(source, side, **options)
    with torch.no_grad():
        assert torch.allclose(ours, model(images), atol=1e-5)
    return found


@pytest.mark.faults("P6")
@pytest.mark.parametrize("name", [VIT, pytest.param(CNN, marks=pytest.mark.slow)])
def test_timms_train_py(name, tmp_path):
    """timm takes the average for itself, and the settings of its train.py."""
    small = {"num_classes": 5} | ({"depth": 1} if name == VIT else {})
    model = drawn(timm.create_model(name, **small))
    average = drawn(ModelEmaV3(model), seed=1)
    saver = CheckpointSaver(model, torch.optim.SGD(model.parameters()), args=argparse.Namespace(model=name, **SETTINGS),
                            model_ema=average, checkpoint_dir=str(tmp_path), recovery_dir=str(tmp_path))  # fmt: skip
    saver.save_checkpoint(0, 1.0)
    theirs = timm.create_model(name, **small, checkpoint_path=str(tmp_path / "model_best.pth.tar")).eval()
    taken, raw = (open_pretrained(str(tmp_path / "model_best.pth.tar"), state=state) for state in (None, "raw"))
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        assert torch.allclose(taken.build(5).network.eval()(images), theirs(images), atol=1e-5)
        assert torch.allclose(raw.build(5).network.eval()(images), model(images), atol=1e-5)
    assert "state_dict_ema" in dict(taken.facts())["taken"] and "--weights raw" in taken.choice
    assert raw.choice == "state_dict, and not state_dict_ema"
    for found in (taken, raw):
        values = found.preprocess
        assert (values["mean"], values["std"]) == ((0.5,) * 3, (0.25,) * 3) and found.guesses() == ""
        assert (values["interpolation"], values["crop_fraction"]) == ("bilinear", 224 / 248)
        assert found.license == "not stated", "a training of one's own is not under the license of timm's weights"


@pytest.mark.faults("P7")
@pytest.mark.parametrize(
    ("wrapper", "prefix"),
    [(None, ""), (None, "net."), ("state_dict", "vit."), ("model_state_dict", "model.module._orig_mod."),
     ("weights_of_mine", "anything_at_all.")],
)  # fmt: skip
def test_prefixes_and_wrappers_are_found_by_their_shape(wrapper, prefix, tmp_path):
    cnn = drawn(timm.create_model("test_resnet", num_classes=7))
    state = {f"{prefix}{name}": value for name, value in cnn.state_dict().items()}
    beside = {"optimizer_state_dict": {"state": {0: {"exp_avg": torch.ones(9, 9)}}}, "epoch": 3}
    torch.save(state if wrapper is None else {**beside, wrapper: state}, tmp_path / "mine.pth")
    assert computes(cnn, tmp_path / "mine.pth", network="test_resnet").num_classes == 7


@pytest.mark.parametrize("wrapper", ["_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"])
def test_parts_that_pytorch_wraps_are_found(wrapper, small_vit, tmp_path):
    state = {name.replace("blocks.0.", f"blocks.0.{wrapper}."): v for name, v in small_vit.state_dict().items()}
    torch.save(state, tmp_path / "mine.pth")
    computes(small_vit, tmp_path / "mine.pth", 224)


@pytest.mark.parametrize("name", [None, VIT])
def test_adapters_beside_the_weights_are_refused(name, small_vit, tmp_path):
    adapter = {"base_model.model.blocks.0.attn.qkv.lora_A.default.weight": torch.ones(4, 192)}
    torch.save(adapter | {f"base_model.model.{k}": v for k, v in small_vit.state_dict().items()}, tmp_path / "mine.pth")
    with pytest.raises(CheckpointError, match=r"has LoRA adapters .*merge_and_unload"):
        open_pretrained(str(tmp_path / "mine.pth"), network=name)


def test_a_classifier_of_several_layers_is_not_left_out(cnn, tmp_path):
    torch.save({name.replace("fc.", "fc.1."): v for name, v in cnn.state_dict().items()}, tmp_path / "mine.pth")
    with pytest.raises(CheckpointError, match=r"fc\.1\.\w+ is unexpected"):
        open_pretrained(str(tmp_path / "mine.pth"), network=CNN)


def test_a_named_vit_that_pools_as_its_tensors_show(tmp_path):
    network = drawn(timm.create_model(VIT, depth=1, num_classes=5, global_pool="avg"))
    torch.save(network.state_dict(), tmp_path / "mine.pth")
    computes(network, tmp_path / "mine.pth", 224, network=VIT)


@pytest.mark.faults("P7")
def test_a_network_that_must_be_named_is_suggested(cnn, tmp_path):
    torch.save(
        {"state_dict": {f"net.{name}": value for name, value in cnn.state_dict().items()}}, tmp_path / "mine.pth"
    )
    with pytest.raises(CheckpointError, match=r"resnet18 of timm would fit; name it: --network resnet18"):
        open_pretrained(str(tmp_path / "mine.pth"))
    with pytest.raises(CheckpointError, match="not those of resnet34, which --network names"):
        open_pretrained(str(tmp_path / "mine.pth"), network="resnet34")


@pytest.mark.parametrize("ending", [pytest.param("pth.tar", marks=pytest.mark.slow), "ckpt"])
def test_a_cnn_by_what_its_file_states(ending, cnn, tmp_path):
    """Lightning's and the PyTorch examples' checkpoints, with settings and numbers of usual types beside them."""
    wrapped = {f"model.{name}": value for name, value in cnn.state_dict().items()}
    beside = {"pytorch-lightning_version": "2.5.0", "loops": {}, "best_acc1": np.float32(71.5)}
    for number, stated in enumerate([
        {"arch": CNN}, {"hyper_parameters": {"model_name": f"timm/{CNN}.a1_in1k", "lr": 0.1}},
        {"args": argparse.Namespace(model=CNN, output=pathlib.Path("x"))},
    ]):  # fmt: skip
        path = tmp_path / f"{number}.{ending}"
        names = {"class_to_idx": {f"kind {k}": k for k in range(7)}}
        torch.save({"state_dict": {**wrapped, "criterion.weight": torch.ones(7)}, **beside, **stated, **names}, path)
        found = computes(cnn, path)
        assert found.dropped == {"criterion.weight": "not below model."}
        assert found.class_names == tuple(f"kind {k}" for k in range(7))
        assert found.guessed == (*PREPROCESSING, "image_size"), "timm has several sets of weights for a ResNet-18"


@pytest.mark.faults("P9")
@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"classes": [*"abcde"], "class_to_idx": dict(zip("edcba", range(5), strict=True))},
         "classes and class_to_idx number the classes in different orders"),
        ({"class_names": [*"edcba"], "args": {"classes": [*"abcde"]}}, "class_names and args.classes number"),
        ({"mean": (0.5,) * 3, "args": {"mean": [0.1] * 3}}, "itself: mean .* in args and mean .* in the file itself"),
        ({"img_size": 64, "hparams": {"img_size": 32}}, "itself: img_size 32 in hparams and img_size 64"),
        ({"img_size": [64, 64], "image_size": 32}, "itself: img_size 64 in the file itself and image_size 32 in"),
        ({"args": {"input_size": (3, 64, 64), "img_size": 32}}, "input_size 64 in args and img_size 32 in args"),
    ],
)  # fmt: skip
def test_a_file_that_contradicts_itself_is_refused(stated, words, small_vit, tmp_path):
    torch.save({"state_dict": small_vit.state_dict(), **stated}, tmp_path / "mine.pth")
    with pytest.raises(CheckpointError, match=rf"mine\.pth.*{words}.*; correct one of them"):
        open_pretrained(str(tmp_path / "mine.pth"))


def test_class_names_with_gaps_are_a_guess_and_numbers_of_numpy_are_read(small_vit, tmp_path):
    whole = {name: np.int64(number) for number, name in enumerate("abcde")}
    for stated, expected in ((whole, tuple("abcde")), ({**whole, "e": 5}, None)):
        torch.save({"state_dict": small_vit.state_dict(), "class_to_idx": stated}, tmp_path / "mine.pth")
        found = open_pretrained(str(tmp_path / "mine.pth"))
        assert found.class_names == expected and ("class names (numbers" in found.guesses()) == (expected is None)


@pytest.mark.faults("P6")
@pytest.mark.slow
def test_several_networks_in_one_file(small_vit, tmp_path):
    state, other = small_vit.state_dict(), drawn(timm.create_model(VIT, depth=1, num_classes=5), seed=2)
    average = {f"ema_model.{name}": value for name, value in other.state_dict().items()}
    torch.save({"state_dict": {f"model.{name}": v for name, v in state.items()} | average}, tmp_path / "two.ckpt")
    named = {"network": VIT, "side": 224}
    assert "ema_model." in computes(other, tmp_path / "two.ckpt", **named).choice
    assert computes(small_vit, tmp_path / "two.ckpt", state="raw", **named).choice == ""
    torch.save(
        {"current_model_state": state, "state_dict": other.state_dict(), "averaging_state": {}}, tmp_path / "w.ckpt"
    )
    computes(other, tmp_path / "w.ckpt", **named)  # of Lightning's WeightAveraging
    torch.save({"state_dict": state}, tmp_path / "one.pth")
    with pytest.raises(CheckpointError, match=r"holds no averaged weights \(EMA\)"):
        open_pretrained(str(tmp_path / "one.pth"), network=VIT, state="ema")
    sides = {f"{side}.{name}": value.clone() for side in ("left", "right") for name, value in state.items()}
    for content in ({"encoder_q": state, "encoder_k": other.state_dict()}, sides):
        torch.save(content, tmp_path / "both.pth")
        with pytest.raises(CheckpointError, match="several networks"):
            open_pretrained(str(tmp_path / "both.pth"), network=VIT)
    teacher = timm.create_model(CNN).state_dict()  # of another network: it is no average
    torch.save({"model": state, "teacher": dict(teacher)}, tmp_path / "kd.pth")
    with pytest.raises(CheckpointError):
        open_pretrained(str(tmp_path / "kd.pth"), network=VIT, state="ema")


def test_vits_checkpoint_is_known_whatever_its_name(tmp_path):
    spec = NetworkSpec.named("vit_nano_patch2_8", 2)
    content = checkpoint_content(Description(("a", "b"), spec, Preprocess(8)), spec.build(8).state_dict())
    torch.save(content, tmp_path / "renamed.pth")
    found = open_pretrained(str(tmp_path / "renamed.pth"))
    assert found.class_names == ("a", "b") and found.own_network().options["num_heads"] == 4


@pytest.mark.faults("P5")
@pytest.mark.parametrize(
    ("width", "depth", "is_refused"),
    [(384, 12, True), pytest.param(768, 8, True, marks=pytest.mark.slow), (768, 2, False)],
)
def test_heads_that_published_networks_differ_in(width, depth, is_refused, tmp_path):
    """MoCo v3's ViT-S has 12 heads where DeiT-S has 6; both have the same names and shapes."""
    with torch.device("meta"):
        model = timm.models.VisionTransformer(img_size=32, embed_dim=width, depth=depth, num_heads=12, num_classes=3)
    torch.save({"arch": "vit_small", "state_dict": {f"module.{k}": v for k, v in ones(model).items()}},
               tmp_path / "linear-vit-s-300ep.pth.tar")  # fmt: skip
    found = open_pretrained(str(tmp_path / "linear-vit-s-300ep.pth.tar"))
    if is_refused:
        with pytest.raises(CheckpointError, match=r"heads.*--model.network.num_heads \('vit convert': --num_heads\)"):
            found.own_network()
        assert found.own_network({"num_heads": 12}).options["num_heads"] == 12
    else:
        assert "12 heads, usual for a width of 768, activation gelu, pool cls" in found.guesses()
    guessed = ", ".join(["activation gelu", "pool cls", *PREPROCESSING])  # heads do not say these
    assert found.guesses(options={"num_heads": 12}) == guessed


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("resnet50-11ad3fa6.pth", ("bilinear", 224 / 232, "bsd-3-clause")),  # torchvision's
        pytest.param("resnet50-0676ba61.pth", ("bilinear", 0.875, "bsd-3-clause"), marks=pytest.mark.slow),
        pytest.param(
            "resnet50_a1_0-14fe96d1.pth", ("bicubic", 224 / 235, "apache-2.0"), marks=pytest.mark.slow
        ),  # timm's
    ],
)
def test_a_file_that_a_library_publishes_has_the_preprocessing_of_that_library(file, expected, tmp_path):
    with torch.device("meta"):
        model = timm.create_model("resnet50")
    torch.save(ones(model), tmp_path / file)
    found = open_pretrained(str(tmp_path / file))
    assert (found.preprocess["interpolation"], found.preprocess["crop_fraction"], found.license) == expected
    assert found.guesses() == "" and found.class_names == imagenet_classes(1000)


@pytest.mark.slow
def test_folders_of_timms_hub(tmp_path):
    names = [f"bird {number}" for number in range(1000)]
    for name, options in ((VIT, {}), (CNN, {}), (VIT, {"global_pool": "avg"})):
        model = drawn(timm.create_model(name, **options))
        folder = tmp_path / f"{name}{len(options)}"
        save_for_hf(model, str(folder), safe_serialization=True, model_config={"label_names": names})
        config = json.loads((folder / "config.json").read_text())
        assert {"num_classes", "in_chans", "global_pool"} <= config["model_args"].keys()
        found = computes(model, folder, side=224)
        assert found.class_names == tuple(names) and found.guesses() == ""
        config["model_args"]["global_pool"] = "max"
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(CheckpointError, match="pools by 'max'"):
            open_pretrained(str(folder))
    config["model_args"]["global_pool"] = "avg"
    (folder / "config.json").write_text(json.dumps({**config, "label_names": names[:5]}))
    found = open_pretrained(str(folder))
    assert found.class_names is None and "class names (numbers" in found.guesses()


def test_the_pooling_of_a_folder_of_an_earlier_timm_is_read(tmp_path):
    """Only the root of its config.json tells it: a mean of all tokens was read as the class token, without a word."""
    model = drawn(timm.create_model(VIT, num_classes=5, global_pool="avg", fc_norm=False))
    save_for_hf(model, str(tmp_path), safe_serialization=True)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model_args"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    computes(model, tmp_path, side=224)
    (tmp_path / "config.json").write_text(json.dumps({**config, "global_pool": "max"}))
    with pytest.raises(CheckpointError, match="pools by 'max'"):
        open_pretrained(str(tmp_path))


def test_class_names_of_imagenet_are_assumed_where_nothing_says_so(tmp_path):
    network = create_network("vit_nano_patch2_8", 1000, 8, qk_norm=True)
    save_file(network.state_dict(), tmp_path / "x.safetensors")
    found = open_pretrained(str(tmp_path / "x.safetensors"))
    assert found.class_names == imagenet_classes(1000) and "class names (of ImageNet)" in found.guesses()


def test_a_million_tensors_are_refused_quickly(tmp_path):
    header = json.dumps({f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(60_000)})
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with pytest.raises(CheckpointError, match="60,000 tensors; the limit is 50,000"):
        open_pretrained(str(tmp_path / "x.safetensors"))


def openclip(tower, width=96):
    """An image tower as OpenCLIP names it, of random weights."""
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "class_embedding": (width,), "positional_embedding": (5, width), "conv1.weight": (width, 3, 8, 8),
        "proj": (width, 16), "ln_post.weight": (width,), "ln_post.bias": (width,),
        **({} if tower.get("no_ln_pre") else {"ln_pre.weight": (width,), "ln_pre.bias": (width,)}),
    }  # fmt: skip
    block = {"ln_1.weight": (width,), "ln_1.bias": (width,), "ln_2.weight": (width,), "ln_2.bias": (width,),
             "attn.in_proj_weight": (3 * width, width), "attn.in_proj_bias": (3 * width,),
             "attn.out_proj.weight": (width, width), "attn.out_proj.bias": (width,),
             "mlp.c_fc.weight": (4 * width, width), "mlp.c_fc.bias": (4 * width,),
             "mlp.c_proj.weight": (width, 4 * width), "mlp.c_proj.bias": (width,)}  # fmt: skip
    shapes |= {f"transformer.resblocks.{n}.{name}": shape for n in range(2) for name, shape in block.items()}
    return {f"visual.{name}": torch.randn(shape, generator=generator) * 0.3 for name, shape in shapes.items()}


def reference(weights, tower, images):
    """What open_clip 3.3's VisionTransformer computes before its projection, written with torch alone."""
    w = {name.removeprefix("visual."): value for name, value in weights.items()}
    eps = (tower.get("norm_kwargs") or {}).get("eps", 1e-5)
    norm = lambda x, name: torch.nn.functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], eps)  # noqa: E731
    width = len(w["class_embedding"])
    x = torch.nn.functional.conv2d(images, w["conv1.weight"], stride=8).flatten(2).transpose(1, 2)
    x = torch.cat([w["class_embedding"].expand(len(x), 1, width), x], dim=1) + w["positional_embedding"]
    x = x if tower.get("no_ln_pre") else norm(x, "ln_pre")
    for n in range(2):
        p = f"transformer.resblocks.{n}."
        attention = torch.nn.MultiheadAttention(width, width // tower.get("head_width", 64), batch_first=True)
        attention.load_state_dict({name: w[f"{p}attn.{name}"] for name in attention.state_dict()})
        y = norm(x, f"{p}ln_1")
        x = x + attention(y, y, y, need_weights=False)[0]
        hidden = norm(x, f"{p}ln_2") @ w[f"{p}mlp.c_fc.weight"].T + w[f"{p}mlp.c_fc.bias"]
        hidden = torch.nn.functional.gelu(hidden, **(tower.get("act_kwargs") or {}))
        x = x + hidden @ w[f"{p}mlp.c_proj.weight"].T + w[f"{p}mlp.c_proj.bias"]
    if tower.get("pool_type") == "avg":
        means = x[:, 1:].mean(1) if tower.get("final_ln_after_pool") else norm(x, "ln_post")[:, 1:].mean(1)
        return norm(means, "ln_post") if tower.get("final_ln_after_pool") else means
    return norm(x, "ln_post")[:, 0]


@pytest.mark.parametrize(
    "tower",
    [
        {"head_width": 48}, {"head_width": 32, "norm_kwargs": {"eps": 0.1}},
        {"head_width": 32, "act_kwargs": {"approximate": "tanh"}}, {"head_width": 32, "pool_type": "avg"},
        {"head_width": 32, "pool_type": "avg", "final_ln_after_pool": True}, {"head_width": 32, "no_ln_pre": True},
    ],
)  # fmt: skip
def test_what_the_folder_of_an_openclip_tower_states(tower, tmp_path):
    weights = openclip(tower)
    save_file(weights, tmp_path / "open_clip_model.safetensors")
    about = {"vision_cfg": {"width": 96, "layers": 2, "image_size": 16, "patch_size": 8, **tower}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": about}))
    network = open_pretrained(str(tmp_path)).build(96).network.eval()
    torch.nn.init.eye_(network.head.weight)
    torch.nn.init.zeros_(network.head.bias)
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(network(images), reference(weights, tower, images), atol=2e-4)


@pytest.mark.faults("P8")
@pytest.mark.parametrize(
    "stated", [{"attentional_pool": True}, {"pool_type": "none"}, {"qk_norm": True}, {"new_thing": 3},
               {"norm_kwargs": {"bias": False}}, {"block_type": "custom"}]
)  # fmt: skip
def test_what_a_tower_of_ours_does_not_compute_is_refused(stated, tmp_path):
    save_file(openclip({}), tmp_path / "open_clip_model.safetensors")
    about = {"vision_cfg": {"width": 96, "head_width": 32, **stated}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": about}))
    with pytest.raises(CheckpointError, match=f"vision_cfg: {next(iter(stated))}"):
        open_pretrained(str(tmp_path))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "complex64"])
def test_numbers_of_quantized_networks_are_refused(small_vit, tmp_path, kind):
    """PyTorch would copy them into float32 without their scales."""
    dtype = getattr(torch, kind)
    weights = {name: (100 * value).to(dtype) for name, value in small_vit.state_dict().items() if value.ndim == 2}
    torch.save({**small_vit.state_dict(), **weights}, tmp_path / "q.pth")
    with pytest.raises(CheckpointError, match=f"holds {kind}, not floating-point numbers"):
        open_pretrained(str(tmp_path / "q.pth")).build(5)


def test_heads_that_a_file_states_are_read(tmp_path):
    network = drawn(timm.create_model(VIT, depth=1, num_classes=5, num_heads=6))
    torch.save({"model": network.state_dict(), "args": {"num_heads": 6}}, tmp_path / "six.pth")
    assert "heads" not in computes(network, tmp_path / "six.pth", side=224).guesses()


@pytest.mark.parametrize("std", [[0.0, 0.5, 0.5], [-0.2] * 3])
def test_deviations_that_nothing_is_divided_by_are_refused(small_vit, tmp_path, std):
    torch.save({"model": small_vit.state_dict(), "args": {"mean": [0.5] * 3, "std": std}}, tmp_path / "s.pth")
    with pytest.raises(CheckpointError, match="are not above 0"):
        open_pretrained(str(tmp_path / "s.pth"))
