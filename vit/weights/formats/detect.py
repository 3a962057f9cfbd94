"""The format of a file of weights, found from its names alone"""

from dataclasses import replace

from vit.weights.formats import clip, huggingface, jax, rotary, timm
from vit.weights.formats.weight_format import Config, Converted, WeightFormat, Weights, below, by_prefix
from vit.weights.trainer_file import State, chosen_place

FORMATS: tuple[WeightFormat, ...] = (
    rotary.eva, rotary.dinov3_meta, rotary.dinov3_transformers, rotary.dinov3_timm, timm.meta, timm.timm,
    timm.torchvision, huggingface.plain_vit, clip.transformers, clip.open_clip, jax.jax,
)  # fmt: skip
_OF_EVA = ("rope.freqs_cos", "mlp.ffn_ln.weight", "attn.inner_attn_ln.weight")
_PE = "timm:vit_pe_core_tiny_patch16_384, timm:vit_pe_core_base_patch16_224, ..."


class NetworkOfTimmError(ValueError):
    """The names are those that a network has from its authors, which only timm converts; `fix` names models of timm."""

    def __init__(self, authors: str, models: str) -> None:
        super().__init__(f"the names are those of {authors}, and only timm's names are read here")
        self.fix = f"give the same weights from timm: {models}"


def convert_weights(
    weights: Weights, config: Config, state: State | None = None
) -> tuple[WeightFormat, Converted, str] | None:
    """The format of foreign weights, the weights in our names, and the prefix below which they stand; None: not known.

    A prefix that training puts around a network (`module.`, `backbone.`) is one below which the names are of a format.
    Names outside are dropped. `config` is the config.json beside them, or {}. ValueError: several networks could be
    meant, or a tensor is not of the shape that its format gives it. NetworkOfTimmError: only timm converts these names.
    """
    groups = by_prefix(weights)
    formats: dict[str, WeightFormat] = {}
    for prefix, names in groups.items():
        is_residual = {"conv1.weight", "transformer.resblocks.0.ln_1.weight"} <= names
        if is_residual and ("attn_pool.probe" in names or "ln_post.weight" not in names):
            raise NetworkOfTimmError("Meta's Perception Encoder", _PE)  # CLIP has the last norm, and no probe
        if any(name.endswith(_OF_EVA) for name in names):
            raise NetworkOfTimmError("EVA-02's authors", "timm:eva02_tiny_patch14_224, ...")
        match = next((each for each in FORMATS if each.matches(names)), None)
        if match is not None and not any(prefix.startswith(outer) for outer in formats):
            formats[prefix] = match
    if not formats:
        return None
    prefix = chosen_place({prefix: below(weights, prefix)[0] for prefix in formats}, state)
    weights, outside = below(weights, prefix)
    try:
        converted = formats[prefix].convert(weights, config)
    except Exception as error:  # tensors of any shape
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"{formats[prefix].name} weights that cannot be read ({why})") from error
    return formats[prefix], replace(converted, dropped=outside | converted.dropped), prefix
