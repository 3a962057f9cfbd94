"""DICOM images, by pydicom (extra `dicom`). Nothing but pixels and their window leaves this module

The first frame is read. Stored values become those of the modality (rescale slope and intercept, or its table). The
window of the model is one of these values. Without one, the window or table of values of interest in the file decides.
Error texts hold no value of the file, because such values may name a person.
"""

import io
import logging
import math
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from vit.data.core.image_bytes import ImageError, damage
from vit.data.core.image_header import check_size
from vit.data.pixels.planes import Planes, check_planes
from vit.data.pixels.preprocess import Window

_DEFLATED = b"1.2.840.10008.1.2.1.99"  # its whole data set would be unpacked before any limit
_FUNCTIONAL = {  # of enhanced files: the sequence, and what classic files say of it at the top
    "PixelValueTransformationSequence": ("RescaleIntercept", "RescaleSlope", "RescaleType"),
    "FrameVOILUTSequence": ("WindowCenter", "WindowWidth", "VOILUTFunction"),
}
_OPTIONAL = (*sum(_FUNCTIONAL.values(), ()), "VOILUTSequence", "ModalityLUTSequence")
_INVERTED, _GRAY, _COLOR = "MONOCHROME1", "MONOCHROME2", ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_RCT", "YBR_ICT")
_EXACT = ("LINEAR_EXACT", "SIGMOID")  # functions of a window whose width may be any above 0


def header_size(data: bytes, path: str | os.PathLike[str]) -> tuple[int, int]:
    """(width, height) by the header; no pixel is decoded. ImageError where it is damaged or beyond the limits."""
    header = _header(data, path)
    return int(header.Columns), int(header.Rows)


def _header(data: bytes, path: str | os.PathLike[str]) -> Any:
    """The header of a DICOM image; no pixel is decoded. ImageError: it is damaged, too large or unusual."""
    import pydicom

    logging.getLogger("pydicom").setLevel(logging.CRITICAL + 1)  # its lines may hold values of the file
    with damage(partial(_damaged, path)):
        if _DEFLATED in data:
            raise ImageError(path, "unreadable", "a deflated DICOM; save it uncompressed")
        header = pydicom.dcmread(io.BytesIO(data), stop_before_pixels=True)
        rows, columns = int(header.Rows), int(header.Columns)
        samples, bits = int(header.SamplesPerPixel), int(header.BitsAllocated)
        kind = str(header.PhotometricInterpretation)
        _drop_empty(header)
        _lift_functional_groups(header)
    check_size((columns, rows), path)
    if bits not in (1, 8, 16, 32, 64) or samples not in (1, 3):
        raise ImageError(path, "unreadable", "a DICOM with an unusual number of bits or samples")
    if kind not in (_INVERTED, _GRAY, *_COLOR):
        raise ImageError(path, "unreadable", "a DICOM with a palette or unusual colors")
    if (samples == 3) != (kind in _COLOR) or (samples == 3 and bits != 8):
        raise ImageError(path, "unreadable", "a DICOM whose colors and bits do not fit together")
    check_planes(samples, rows, columns, 8, path)
    return header


def read(data: bytes, path: str | os.PathLike[str], window: Window | None, channels: int) -> Planes:
    """The planes of a DICOM image: values of the modality; or, without a window of the model, those of interest.

    ImageError as of `header_size`, or where the pixels are damaged or compressed in a way that is not read.
    """
    from pydicom.pixels import apply_modality_lut, apply_voi_lut, pixel_array

    header = _header(data, path)
    with damage(partial(_damaged, path)):
        values = pixel_array(io.BytesIO(data), index=0)
        if values.shape[:2] != (int(header.Rows), int(header.Columns)) or values.ndim > 3:
            raise ValueError("other sides than its header")
        if values.ndim == 3:
            return Planes(np.ascontiguousarray(values.transpose(2, 0, 1)))
        is_inverted = str(header.PhotometricInterpretation) == _INVERTED
        modality = apply_modality_lut(values, header)
        stored = int(header.BitsStored)
        if window is None and has_own_window(header):
            low, high = _output_range(header)
            return Planes(apply_voi_lut(modality, header).astype(np.float64)[None], (low, high), is_inverted)
        is_changed = modality is not values and not np.array_equal(modality, values)
        if not is_changed and stored == 8 and values.dtype == np.uint8:
            return Planes(values[None], None, is_inverted)
        full = None if is_changed or values.dtype.kind != "u" or stored > 16 else (0.0, float(2**stored - 1))
        modality = np.asarray(modality)
        if modality.dtype == np.uint8:  # fewer than 8 bits stored, or rescaled: not gray levels as they stand
            modality = modality.astype(np.uint16)
        return Planes(modality[None], None, is_inverted, full)


def _drop_empty(header: Any) -> None:
    """Remove elements without a value, as anonymizers leave them: they say as little as missing ones."""
    for name in _OPTIONAL:
        if _is_empty(header, name):
            header.pop(name, None)
    table = header.get("VOILUTSequence")
    if table and (_is_empty(table[0], "LUTDescriptor") or _is_empty(table[0], "LUTData")):
        del header.VOILUTSequence


def _is_empty(elements: Any, name: str) -> bool:
    """Whether an element is missing or has no value."""
    return name not in elements or elements[name].is_empty


def _lift_functional_groups(header: Any) -> None:
    """Give the header of an enhanced file the rescale and the window of its first frame, as classic files have them."""
    groups = [header.get(name) for name in ("PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence")]
    firsts = [one[0] for one in groups if one]
    for name, members in _FUNCTIONAL.items():
        group: Any = next((first.get(name)[0] for first in firsts if first.get(name)), {})
        for member in members:
            if member not in header and not _is_empty(group, member):
                setattr(header, member, group[member].value)


def has_own_window(header: Any) -> bool:
    """Whether a file says which of its values are of interest: by a table, or by a window that has a width."""
    if "VOILUTSequence" in header:
        return True
    center, width = _first_number(header, "WindowCenter"), _first_number(header, "WindowWidth")
    if center is None or width is None:
        return False
    # the usual function takes one value from the width
    return width >= 1 or (width > 0 and str(header.get("VOILUTFunction")).upper() in _EXACT)


def _first_number(header: Any, name: str) -> float | None:
    """The first value of an element, which is the one that pydicom takes; None if it is not a finite number."""
    value = header.get(name)
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = value[0]
    number = float(value) if value not in (None, "") else math.nan
    return number if math.isfinite(number) else None


def _output_range(header: Any) -> tuple[float, float]:
    """The range that pydicom maps a table or window of interest to: all values that the bits of the file can be."""
    if "VOILUTSequence" in header:
        bits = int(header.VOILUTSequence[0].LUTDescriptor[2])
        return 0.0, float(2 ** min(max(bits, 1), 16) - 1)
    if header.get("ModalityLUTSequence"):
        return 0.0, 2.0 ** int(header.ModalityLUTSequence[0].LUTDescriptor[2]) - 1
    stored, is_signed = int(header.BitsStored), bool(int(header.PixelRepresentation))
    low, high = (-(2.0 ** (stored - 1)), 2.0 ** (stored - 1) - 1) if is_signed else (0.0, 2.0**stored - 1)
    if "RescaleSlope" in header and "RescaleIntercept" in header:
        slope, intercept = float(header.RescaleSlope), float(header.RescaleIntercept)
        low, high = low * slope + intercept, high * slope + intercept  # below the window is `low`, also if it is larger
    return low, high


def _damaged(path: str | os.PathLike[str], error: Exception) -> ImageError:
    """Without the text of the cause, which may hold values of the file."""
    if isinstance(error, AttributeError):  # an element is missing
        return ImageError(path, "unreadable", "a DICOM without an image")
    if isinstance(error, (RuntimeError, NotImplementedError)):
        return ImageError(path, "unreadable", "a DICOM whose compression is not read; save it uncompressed")
    return ImageError(path, "unreadable", f"damaged DICOM: {type(error).__name__}")
