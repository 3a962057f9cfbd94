"""hf: a folder that transformers loads by AutoModelForImageClassification and AutoImageProcessor.

Names are those of the files on the hub, which every version of transformers reads. ViTs alone have a counterpart there.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from vit.errors import UsageError
from vit.export.deployed import Trained, calibrated_weights
from vit.export.format import Classify, Format
from vit.export.weights import metadata
from vit.models.vision_transformer import VisionTransformer

_EMBEDDINGS = {
    "cls_token": "vit.embeddings.cls_token",
    "pos_embed": "vit.embeddings.position_embeddings",
    "patch_embed.proj": "vit.embeddings.patch_embeddings.projection",
    "norm": "vit.layernorm",
    "head": "classifier",
}
_BLOCK = {
    "norm1": "layernorm_before",
    "attn.proj": "attention.output.dense",
    "norm2": "layernorm_after",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}
_PROJECTIONS = ("query", "key", "value")
_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "quick_gelu": "quick_gelu"}
_PLAIN = {  # what transformers' ViT is, and no other
    "pool": ("cls",),
    "norm_placement": ("pre",),
    "activation": tuple(_ACTIVATIONS),
    "qk_norm": (False,),
    "layer_scale": (0.0,),
    "num_registers": (0,),
    "prefix_positions": (True,),
    "embed_norm": (False,),
}
_RESAMPLING = {"bilinear": 2, "bicubic": 3}  # Pillow's numbers


class TransformersFolder(Format):
    """config.json, model.safetensors, preprocessor_config.json; the temperature is folded into the classifier."""

    ending = ""
    packages = ("transformers",)
    extra = "hub"

    def write(self, trained: Trained, path: Path) -> None:
        if not isinstance(trained.network, VisionTransformer):
            raise UsageError(
                f"transformers has no model for the weights of {trained.description.network['name']}",
                "give --format onnx, pt2, safetensors or timm",
            )
        values = trained.description.network
        for key, kept in _PLAIN.items():
            if values.get(key, kept[0]) not in kept:
                raise UsageError(
                    f"transformers' ViT has no {key} {values[key]!r}", "give --format onnx, pt2, safetensors or timm"
                )
        path.mkdir()
        save_file(_weights(trained), path / "model.safetensors", metadata=metadata(trained))
        for name, content in (("config.json", _config(trained)), ("preprocessor_config.json", _processor(trained))):
            (path / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def read(self, trained: Trained, path: Path) -> Classify:
        from transformers import AutoModelForImageClassification
        from transformers.utils import logging

        logging.disable_progress_bar()
        model = AutoModelForImageClassification.from_pretrained(path, local_files_only=True).eval()
        normalise = trained.description.preprocess.normalise
        return lambda images: model(normalise(images)).logits.softmax(dim=1)

    def how_to_load(self, trained: Trained, path: Path) -> str:
        return (
            f"model = AutoModelForImageClassification.from_pretrained({str(path)!r})\n"
            f"processor = AutoImageProcessor.from_pretrained({str(path)!r})"
        )


def _weights(trained: Trained) -> dict[str, Tensor]:
    weights = calibrated_weights(trained)
    network = trained.network
    assert isinstance(network, VisionTransformer)
    if network.pos_embed is None:
        raise UsageError("transformers' ViT has no pos_embed 'none'", "give --format onnx, pt2, safetensors or timm")
    weights["pos_embed"] = network.pos_embed  # fixed ones are no parameter of ours, but one of theirs
    renamed: dict[str, Tensor] = {}
    for name, value in weights.items():
        if ".attn.qkv." in name:
            block, kind = name.split(".")[1], name.rpartition(".")[2]
            for projection, part in zip(_PROJECTIONS, value.chunk(3), strict=True):
                renamed[f"vit.encoder.layer.{block}.attention.attention.{projection}.{kind}"] = part.contiguous()
        else:
            renamed[_renamed(name)] = value.contiguous()
    return renamed


def _renamed(name: str) -> str:
    if not name.startswith("blocks."):
        layer, dot, kind = name.rpartition(".")
        return _EMBEDDINGS[name] if name in _EMBEDDINGS else f"{_EMBEDDINGS[layer]}{dot}{kind}"
    _, block, *layer_words, kind = name.split(".")
    return f"vit.encoder.layer.{block}.{_BLOCK['.'.join(layer_words)]}.{kind}"


def _config(trained: Trained) -> dict[str, Any]:
    values, network = trained.description.network, trained.network
    assert isinstance(network, VisionTransformer)
    classes = trained.description.classes
    width = network.head.in_features
    return {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "hidden_size": width,
        "num_hidden_layers": len(network.blocks),
        "num_attention_heads": values["num_heads"],
        "intermediate_size": int(width * values.get("mlp_ratio", 4.0)),
        "hidden_act": _ACTIVATIONS[values.get("activation", "gelu")],
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "layer_norm_eps": network.norm.eps,
        "qkv_bias": values.get("qkv_bias", True),
        "image_size": network.image_size,
        "patch_size": values["patch_size"],
        "num_channels": 3,
        "id2label": {str(number): name for number, name in enumerate(classes)},
        "label2id": {name: number for number, name in enumerate(classes)},
    }


def _processor(trained: Trained) -> dict[str, Any]:
    """The processor of transformers that resizes the shorter side and cuts the middle out, as `Preprocess` does."""
    plain = trained.description.preprocess
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": plain.resize_side},
        "resample": _RESAMPLING[plain.interpolation],
        "do_center_crop": True,
        "crop_size": {"height": plain.image_size, "width": plain.image_size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(plain.mean),
        "image_std": list(plain.std),
    }
