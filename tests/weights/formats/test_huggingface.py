"""transformers' ViT, DeiT, DINOv2, CLIP and SigLIP, and ours from what `save_pretrained` wrote; and ViT back."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from vit.errors import CheckpointError
from vit.models.spec import create_network
from vit.weights.formats import huggingface
from vit.weights.formats.huggingface import to_huggingface
from vit.weights.open import open_pretrained

SMALL = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96, "patch_size": 8}
TEXT = {"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 96}
CLASSES = {"num_labels": 7}
SWIGLU = {"use_swiglu_ffn": True, "num_register_tokens": 4}
MODELS = [
    ("ViT", "ForImageClassification", {}, "Hugging Face", 1),
    ("ViT", "ForImageClassification", {"hidden_act": "gelu_pytorch_tanh", "qkv_bias": False}, "Hugging Face", 1),
    ("DeiT", "ForImageClassification", {}, "Hugging Face", 2),
    ("DeiT", "ForImageClassificationWithTeacher", {}, "Hugging Face", 2),
    ("Dinov2", "ForImageClassification", {"mlp_ratio": 2}, "Hugging Face", 1),
    ("Dinov2WithRegisters", "ForImageClassification", {"mlp_ratio": 2, **SWIGLU}, "Hugging Face", 1),
    ("CLIPVision", "Model", {}, "Hugging Face CLIP, SigLIP", 1),
    ("SiglipVision", "Model", {}, "Hugging Face CLIP, SigLIP", 0),
]


class Logits(torch.nn.Module):
    """A model of transformers that gives a tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        output = self.model(images)
        return output.logits if hasattr(output, "logits") else output.pooler_output


@pytest.fixture(scope="module")
def transformers():
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


@pytest.mark.parametrize(("family", "head", "values", "format_name", "prefix"), MODELS)
def test_logits(family, head, values, format_name, prefix, transformers, shaken, ours, same, resized, tmp_path):
    class_names = CLASSES if head != "Model" else {}
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **class_names, **values, "image_size": 32})
    model = getattr(transformers, f"{family}{head}")
    theirs = shaken(model(config))
    theirs.save_pretrained(tmp_path / "a")
    weights, told = (
        load_file(tmp_path / "a" / "model.safetensors"),
        json.loads((tmp_path / "a" / "config.json").read_text()),
    )
    same(Logits(theirs), ours(weights, format_name, told), 32)

    (name,) = [name for name in weights if "position_embedding" in name]
    flat = weights[name].ndim == 2
    larger = resized(weights[name][None] if flat else weights[name], 6, prefix)
    config.image_size = 48
    config.save_pretrained(tmp_path / "b")
    save_file({**weights, name: larger[0] if flat else larger}, tmp_path / "b" / "model.safetensors", {"format": "pt"})
    same(Logits(model.from_pretrained(tmp_path / "b").eval()), ours(weights, format_name, told, image_size=48), 48)


@pytest.mark.parametrize("values", [{}, {"qkv_bias": False, "activation": "gelu_tanh"}], ids=str)
def test_our_weights_in_transformers(values, transformers, shaken, same, tmp_path):
    network = shaken(create_network("vit", 5, 16, patch_size=4, embed_dim=24, depth=2, num_heads=3, **values))
    state, config = to_huggingface(network.state_dict(), network.config)
    save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    transformers.ViTConfig(**config, num_labels=5).save_pretrained(tmp_path)
    theirs, info = transformers.ViTForImageClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    same(Logits(theirs.eval()), network, 16)
    back = huggingface.plain_vit.convert(state, config).weights
    assert all(torch.equal(back[name], value) for name, value in network.state_dict().items())


@pytest.mark.parametrize(("name", "value"), [("pool", "mean"), ("layer_scale", 0.1), ("activation", "swiglu")])
def test_what_transformers_vit_has_not_is_refused(name, value):
    network = create_network("vit_nano_patch2_8", 5, 8, **{name: value})
    with pytest.raises(ValueError, match=name):
        to_huggingface(network.state_dict(), network.config)


@pytest.mark.parametrize("has_head", [True, False])
def test_a_classifier_on_siglip_reads_the_mean_of_the_patches(has_head, transformers, shaken, ours, same, tmp_path):
    """Its file holds the pooling by attention as well, which transformers' classifier does not read."""
    tower = {**SMALL, "image_size": 32, "vision_use_head": has_head}
    config = transformers.SiglipConfig(vision_config=tower, text_config=TEXT, **CLASSES)
    theirs = shaken(transformers.SiglipForImageClassification(config))
    theirs.save_pretrained(tmp_path)
    weights, told = load_file(tmp_path / "model.safetensors"), json.loads((tmp_path / "config.json").read_text())
    assert has_head == any(".head." in name for name in weights)
    same(Logits(theirs), ours(weights, "Hugging Face CLIP, SigLIP", told), 32)


@pytest.mark.parametrize(("image_size", "is_cut"), [(32, False), (34, True)])
def test_a_border_that_no_patch_covers_is_said(image_size, is_cut, transformers, tmp_path):
    """SigLIP so400m states 384 pixels, of which 27 patches of 14 see 378."""
    config = transformers.SiglipConfig(vision_config={**SMALL, "image_size": image_size}, text_config=TEXT, **CLASSES)
    transformers.SiglipForImageClassification(config).save_pretrained(tmp_path)
    said = "its images of 34 pixels are resized to 32" in str(open_pretrained(str(tmp_path)).facts())
    assert said == is_cut


def test_a_classifier_on_clip_is_refused(transformers, tmp_path):
    config = transformers.CLIPConfig(vision_config={**SMALL, "image_size": 32}, text_config=TEXT, **CLASSES)
    transformers.CLIPForImageClassification(config).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="its classifier reads patches before the last norm"):
        open_pretrained(str(tmp_path))
