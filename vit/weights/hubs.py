"""Pretrained weights by name, fetched by timm, torchvision or the Hugging Face hub"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from vit.data.hub_errors import advice, why_not
from vit.errors import ResourceError, UsageError, nearest
from vit.models.network_names import import_timm
from vit.weights.folder import StatedFacts
from vit.weights.hub_cache import cached_file
from vit.weights.license import CARD
from vit.weights.named_model import license_of_torchvision, named_model, of_torchvision
from vit.weights.preprocess_config import StatedPreprocess
from vit.weights.torchvision_networks import timm_name, timm_weights

_HF_FILES = ("*.json", CARD, "model*.safetensors", "open_clip_model.safetensors")
_HF_FILES_PICKLED = ("*.json", CARD, "pytorch_model.bin", "open_clip_pytorch_model.bin")

T = TypeVar("T")


def from_timm(name: str) -> dict[str, Tensor]:
    """Weights of timm. UsageError: timm has none of that name; ResourceError: they cannot be fetched."""
    timm = import_timm()
    if not timm.is_model(name):
        raise UsageError(f"timm has no model {name!r}", nearest(name, timm.list_models()))
    if not timm.models.is_model_pretrained(name):
        raise UsageError(f"timm has no weights for {name!r}", nearest(name, timm.list_models(pretrained=True)))
    file = cached_file(name)  # the hub is not asked for a file that is there
    overlay = None if file is None else {"file": str(file)}

    def fetch() -> dict[str, Tensor]:
        return dict(timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay).state_dict())

    return _fetch(f"timm:{name}", fetch)


def from_torchvision(name: str) -> tuple[dict[str, Tensor], StatedFacts]:
    """Weights of torchvision by a model's name (vit_b_16) or a set of weights' (ViT_B_16_Weights.IMAGENET1K_V1)."""
    from torchvision import models

    model_name, _, chosen = name.partition(".")
    known = [model for model in models.list_models(module=models) if model.startswith("vit") or timm_name(model)]
    model_name = {models.get_model_weights(model).__name__: model for model in known}.get(model_name, model_name)
    if model_name not in known:
        lacks = f"timm has no network that computes what torchvision's {name} does"
        problem = lacks if name in models.list_models(module=models) else f"torchvision has no network {name!r}"
        raise UsageError(problem, nearest(name, known))
    choices = models.get_model_weights(model_name)
    if chosen and chosen not in choices.__members__:
        raise UsageError(f"torchvision's {model_name} has no weights {chosen!r}", nearest(chosen, choices.__members__))
    weights = choices[chosen] if chosen else choices.DEFAULT
    state = dict(_fetch(f"torchvision:{name}", lambda: weights.get_state_dict(progress=False, check_hash=True)))
    (image_size,) = weights.transforms().crop_size
    model = None
    if timm_name(model_name):
        state, model = timm_weights(model_name, state, image_size), named_model(timm_name(model_name), image_size)
    return state, StatedFacts(
        model=model,
        is_exact=True,
        preprocess=StatedPreprocess(of_torchvision(weights), "torchvision's weights"),
        class_names=tuple(weights.meta["categories"]),
        license=license_of_torchvision(weights),
    )


def from_hugging_face(name: str) -> Path:
    """The folder of ORG/NAME[@REVISION] of the Hugging Face hub, fetched or cached: configs and weights, no code."""
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    fetch: Callable[[tuple[str, ...]], str] = lambda files: snapshot_download(  # noqa: E731
        repository, revision=revision or None, allow_patterns=list(files)
    )
    folder = Path(_fetch(f"hf:{name}", lambda: fetch(_HF_FILES)))
    if not any(folder.glob("*.safetensors")):
        folder = Path(_fetch(f"hf:{name}", lambda: fetch(_HF_FILES_PICKLED)))
    return folder


def _fetch(source: str, fetch: Callable[[], T]) -> T:
    """The result of `fetch`. ResourceError stands for the many errors of networks and hubs."""
    try:
        return fetch()
    except Exception as error:
        fix = "check the name and the network connection, or download the weights and give the file"
        problem = f"{source} cannot be fetched: {why_not(error, 'model')}"
        raise ResourceError(problem, advice(error, "model", fix)) from error
