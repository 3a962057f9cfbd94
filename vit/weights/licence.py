"""The licence of pretrained weights, as far as timm's configuration of the model states it"""

from vit.weights.formats.timm_model import TimmModel

PERMISSIVE = ("apache-2.0", "mit", "bsd-3-clause", "cc-by-4.0")
UNKNOWN = "not stated"


def licence_of(model: TimmModel | None) -> str:
    """The licence of a model's weights; "not stated" where timm does not know them."""
    stated = None if model is None else model.config.get("license")
    return str(stated) if stated and stated != "unknown" else UNKNOWN


def licence_words(licence: str) -> str:
    """A licence with a warning where it is not one of the usual permissive licences."""
    if licence == UNKNOWN or licence in PERMISSIVE:
        return licence
    return f"{licence}: it may restrict some uses, so read it before you publish or sell a model"
