"""The model of timm that a name stands for; imports timm only if timm has this name"""

from vit.models.network_names import timm_names
from vit.models.timm_import import import_timm
from vit.weights.formats.timm_model import TimmModel


def named_model(name: str, image_size: int | None = None) -> TimmModel | None:
    """The model of a name, with or without the tag of its weights; None if timm does not have it.

    Args:
        image_size: side of its images in pixels; None: as timm builds it.
    """
    if timm_names() and name.partition(".")[0] not in timm_names():
        return None
    import_timm()  # not above: timm takes seconds
    from vit.weights.formats.timm_models import timm_model

    return timm_model(name, image_size)
