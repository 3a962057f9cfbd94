"""Which dialect a file of weights speaks, found from its names alone."""

from dataclasses import replace

from vit.weights.formats import clip, huggingface, jax, releases, timm, torchvision, towers
from vit.weights.formats.reading import Config, Dialect, Reading, Weights

DIALECTS: tuple[Dialect, ...] = (
    releases.DIALECT,
    timm.DIALECT,
    torchvision.DIALECT,
    huggingface.DIALECT,
    towers.DIALECT,
    clip.DIALECT,
    jax.DIALECT,
)
_WRAPPERS = ("module.", "_orig_mod.", "model.", "backbone.", "encoder.", "visual_encoder.")
_SHOWN = 4


def read_weights(weights: Weights, config: Config) -> tuple[Dialect, Reading]:
    """The dialect of foreign weights, and the weights in our names.

    What training wraps around a network (`module.`, `backbone.`) is taken off; what stands outside is dropped.

    Raises:
        ValueError: no dialect is known that has these names, or a tensor is not of the shape that its dialect gives it.
    """
    outside: dict[str, str] = {}
    for _ in range(4):  # module.backbone. and the like
        dialect = next((dialect for dialect in DIALECTS if dialect.speaks(weights.keys())), None)
        if dialect is not None:
            try:
                reading = dialect.read(weights, config)
            except Exception as error:  # tensors of any shape
                raise ValueError(
                    f"{dialect.name} weights that cannot be read ({type(error).__name__}: {error})"
                ) from error
            return dialect, replace(reading, dropped=outside | reading.dropped)
        wrapper = next((w for w in _WRAPPERS if any(name.startswith(w) for name in weights)), None)
        if wrapper is None:
            break
        outside |= {name: f"not below {wrapper}" for name in weights if not name.startswith(wrapper)}
        weights = {name.removeprefix(wrapper): value for name, value in weights.items() if name.startswith(wrapper)}
    first = ", ".join(sorted(weights)[:_SHOWN])
    raise ValueError(
        f"its {len(weights):,} names are of no ViT that is known: {first}{', ...' * (len(weights) > _SHOWN)}"
    )
