"""Images of science, as bytes: TIFF of many channels, DICOM, and PNG of 16 bits for a color."""

import io
import struct
import zlib

import numpy as np
import numpy.typing as npt
import tifffile
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

PERSON = "Doe^Jane^Secret"


def tiff(values: npt.NDArray[np.generic], **options: object) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, values, **options)
    return buffer.getvalue()


def deep_png(values: npt.NDArray[np.uint16], transparent: tuple[int, ...] = ()) -> bytes:
    """(H, W, channels) as a PNG of 16 bits for a color, which Pillow does not write; `transparent`: a color."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    height, width, channels = values.shape
    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)),
            chunk(b"tRNS", struct.pack(f">{channels}H", *transparent)) if transparent else b"",
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row.astype(">u2").tobytes() for row in values))),
            chunk(b"IEND", b""),
        )
    )


def dicom(values: npt.NDArray[np.generic], photometric: str = "MONOCHROME2", **elements: object) -> bytes:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = generate_uid(), generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    made.PatientName, made.PatientID = PERSON, "4711"
    made.SamplesPerPixel = 3 if values.ndim == 3 and values.shape[-1] == 3 else 1
    made.Rows, made.Columns = values.shape[:2]
    made.PhotometricInterpretation = photometric
    if made.SamplesPerPixel == 3:
        made.PlanarConfiguration = 0
    made.BitsAllocated = made.BitsStored = 8 * values.itemsize
    made.HighBit, made.PixelRepresentation = made.BitsStored - 1, int(values.dtype.kind == "i")
    for name, value in elements.items():
        setattr(made, name, value)
    made.PixelData = values.tobytes()
    buffer = io.BytesIO()
    made.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def sound_science_files() -> dict[str, bytes]:
    """Two channels of 16 bits as samples, as pages of OME-TIFF and in tiles; and a DICOM image."""
    values = np.arange(2 * 16 * 32, dtype=np.uint16).reshape(2, 16, 32) * 60
    return {
        "bands.tif": tiff(values, photometric="minisblack", planarconfig="separate", compression="zlib"),
        "ome.tif": tiff(values, photometric="minisblack", ome=True, metadata={"axes": "CYX"}),
        "tiles.tif": tiff(values, photometric="minisblack", planarconfig="separate", compression="lzw", tile=(16, 16)),
        "dcm": dicom(values[0], WindowCenter=20_000, WindowWidth=10_000),
    }
