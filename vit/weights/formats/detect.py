"""The format of a file of weights, found from its names alone"""

from collections.abc import Set
from dataclasses import replace

from vit.weights.formats import clip, dinov3, eva, huggingface, jax, meta, openclip, timm, torchvision
from vit.weights.formats.weight_format import Config, Converted, WeightFormat, Weights

FORMATS: tuple[WeightFormat, ...] = (
    eva.FORMAT,
    dinov3.META,
    dinov3.TRANSFORMERS,
    dinov3.TIMM,
    meta.FORMAT,
    timm.FORMAT,
    torchvision.FORMAT,
    huggingface.FORMAT,
    clip.FORMAT,
    openclip.FORMAT,
    jax.FORMAT,
)
_WRAPPERS = ("module.", "_orig_mod.", "model.", "backbone.", "encoder.", "visual_encoder.")
_SHOWN = 4
_PE = "timm:vit_pe_core_tiny_patch16_384, timm:vit_pe_core_base_patch16_224, ..."


class NetworkOfTimmError(ValueError):
    """The names are those that a network has from its authors, which only timm converts.

    Attributes:
        fix: models of timm to give instead.
    """

    def __init__(self, authors: str, models: str) -> None:
        super().__init__(f"the names are those of {authors}, and only timm's names are read here")
        self.fix = f"give the same weights from timm: {models}"


def check_ours(names: Set[str]) -> None:
    """Raise NetworkOfTimmError for names that only timm converts."""
    for tower in ("", "visual.", "module.visual."):
        is_residual = {f"{tower}conv1.weight", f"{tower}transformer.resblocks.0.ln_1.weight"} <= names
        if is_residual and (f"{tower}attn_pool.probe" in names or f"{tower}ln_post.weight" not in names):
            raise NetworkOfTimmError("Meta's Perception Encoder", _PE)  # CLIP has the last norm, and no probe
    if any(name.endswith(("rope.freqs_cos", "mlp.ffn_ln.weight", "attn.inner_attn_ln.weight")) for name in names):
        raise NetworkOfTimmError("EVA-02's authors", "timm:eva02_tiny_patch14_224, ...")


def convert_weights(weights: Weights, config: Config) -> tuple[WeightFormat, Converted]:
    """The format of foreign weights, and the weights in our names.

    Prefixes that training puts around a network (`module.`, `backbone.`) are taken off. Names outside are dropped.

    Raises:
        ValueError: no known format has these names, or a tensor is not of the shape that its format gives it.
        NetworkOfTimmError: the names are those of a network's authors, which only timm converts.
    """
    check_ours(weights.keys())
    outside: dict[str, str] = {}
    for _ in range(4):  # module.backbone. and the like
        found = next((each for each in FORMATS if each.matches(weights.keys())), None)
        if found is not None:
            try:
                converted = found.convert(weights, config)
            except Exception as error:  # tensors of any shape
                raise ValueError(
                    f"{found.name} weights that cannot be read ({type(error).__name__}: {error})"
                ) from error
            return found, replace(converted, dropped=outside | converted.dropped)
        wrapper = next((w for w in _WRAPPERS if any(name.startswith(w) for name in weights)), None)
        if wrapper is None:
            break
        outside |= {name: f"not below {wrapper}" for name in weights if not name.startswith(wrapper)}
        weights = {name.removeprefix(wrapper): value for name, value in weights.items() if name.startswith(wrapper)}
    first = ", ".join(sorted(weights)[:_SHOWN])
    raise ValueError(
        f"its {len(weights):,} names are of no ViT that is known: {first}{', ...' * (len(weights) > _SHOWN)}"
    )
