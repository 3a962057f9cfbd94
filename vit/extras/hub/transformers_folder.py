"""hf: a folder for AutoModelForImageClassification and AutoImageProcessor of transformers

The names of weights are those of the files on the hub, which every version of transformers reads. Only ViTs have a
counterpart there.
"""

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vit.errors import UsageError
from vit.export.format import Format, Peer, check_pictures, closing_code
from vit.export.weights import calibrated_weights, folded_metadata, is_in_timm, save_weights
from vit.inference.deployment import LoadedModel, calibrated_probabilities
from vit.models.vision_transformer import VisionTransformer
from vit.weights.formats.huggingface import to_huggingface

_RESAMPLING = {"bilinear": 2, "bicubic": 3}  # numbers of Pillow


class TransformersFolder(Format):
    """config.json, model.safetensors and preprocessor_config.json, with the temperature folded into the classifier."""

    ending = ""
    imports = "import torch\nfrom transformers import AutoImageProcessor, AutoModelForImageClassification"
    library = "transformers"
    packages = ("transformers",)
    extra = "hub"

    def write(self, trained: LoadedModel, path: Path) -> None:
        check_pictures(trained, "transformers")
        network = trained.network
        others = f"give --format onnx, pt2{', safetensors or timm' if is_in_timm(trained) else ' or safetensors'}"
        if trained.description.preprocess.resize_mode == "pad":
            problem = "no image processor of transformers pads pictures with a color, as resize_mode pad does"
            raise UsageError(problem, others)
        if not isinstance(network, VisionTransformer):
            name = trained.description.spec.name
            raise UsageError(f"transformers does not have a model for the weights of {name}", others)
        try:
            weights, values = to_huggingface(calibrated_weights(trained), network.config)
        except ValueError as error:
            raise UsageError(str(error), others) from error
        path.mkdir()
        save_weights(weights, path / "model.safetensors", folded_metadata(trained.description))
        class_names = trained.description.class_names
        config = {
            **values,
            "architectures": ["ViTForImageClassification"],
            "model_type": "vit",
            "id2label": {str(number): name for number, name in enumerate(class_names)},
            "label2id": {name: number for number, name in enumerate(class_names)},
        }
        if trained.description.multilabel is not None:
            config["problem_type"] = "multi_label_classification"
        for name, content in (("config.json", config), ("preprocessor_config.json", _processor(trained))):
            (path / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def peer(self, trained: LoadedModel, path: Path) -> Peer:
        from transformers import AutoImageProcessor, AutoModelForImageClassification
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model = AutoModelForImageClassification.from_pretrained(path, local_files_only=True).eval()
        processor = AutoImageProcessor.from_pretrained(path, local_files_only=True)  # type: ignore[no-untyped-call]

        def transform(picture: Image.Image) -> Tensor:
            return torch.as_tensor(np.asarray(processor(images=picture, return_tensors="np")["pixel_values"][0]))

        def probabilities(images: Tensor) -> Tensor:
            return calibrated_probabilities(model(images).logits, trained.description.multilabel)

        return Peer("transformers", transform, probabilities, rounds_down=True)

    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        return (
            f"model = AutoModelForImageClassification.from_pretrained({str(path)!r})\n"
            f"processor = AutoImageProcessor.from_pretrained({str(path)!r})"
            + closing_code(trained, "model(images).logits")
        )


def _processor(trained: LoadedModel) -> dict[str, object]:
    """The config of the transformers processor that resizes and crops as `Preprocess` does."""
    plain = trained.description.preprocess
    side = plain.resize_side
    squashes = plain.resize_mode == "squash"
    return {
        "image_processor_type": "DeiTImageProcessor" if squashes else "BitImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"height": side, "width": side} if squashes else {"shortest_edge": side},
        "resample": _RESAMPLING[plain.interpolation],
        "do_center_crop": True,
        "crop_size": {"height": plain.image_size, "width": plain.image_size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(plain.mean),
        "image_std": list(plain.std),
    }
