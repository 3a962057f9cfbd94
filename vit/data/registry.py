"""Two tables of what this room finds by name: readers of kinds of images, and sources beyond folders and CSV files

A folder of JPEG and PNG files needs neither. Each module is imported when it is needed.
"""

from functools import cache
from importlib.util import find_spec

from vit.registry import Entry

IMAGE_READERS = {  # format of an image -> a module, `FormatReader`; of HEIF a function that lets Pillow read it
    "DICOM": Entry("dicom", "reader", "read"),
    "TIFF": Entry("tiff", "reader", "read"),
    "HEIF": Entry("heif", "reader", "register"),
}
LIBRARIES = {"DICOM": "pydicom", "TIFF": "tifffile", "HEIF": "pillow_heif"}
SOURCES = {
    "hub": Entry("hub", "source", "open_source"),  # a module, `TableSource`
    "tables": Entry("parquet", "open", "open_source"),  # a module, `TableSource`
    "addresses": Entry("s3", "far_images", "FarImages"),  # a class, `ImageReader`
    "pack": Entry("shards", "packing", "pack"),
    "tars": Entry("shards", "tars", "index_tars"),
}


def has_extra(image_format: str) -> bool:
    """Whether the extra is installed that reads a format, or of TIFF what Pillow does not keep whole."""
    return _is_installed(LIBRARIES[image_format])


@cache
def _is_installed(library: str) -> bool:
    return find_spec("vit.extras") is not None and find_spec(library) is not None
