"""ICC profiles, made here byte by byte: no file of anybody else"""

import struct
from collections.abc import Mapping

# Red, green and blue as XYZ under D50, as profiles have them.
SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
DISPLAY_P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))
ADOBE_RGB = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
PROPHOTO = ((0.79767, 0.28804, 0.0), (0.13519, 0.71187, 0.0), (0.03134, 0.00009, 0.82491))
_WHITE = (0.9642, 1.0, 0.8249)


def rgb_profile(primaries: tuple[tuple[float, float, float], ...], gamma: float | None = None) -> bytes:
    """A profile of RGB; gamma None: sRGB's curve."""
    curve = _curve(gamma)
    tags = {b"wtpt": _xyz(_WHITE)}
    for name, color in zip((b"r", b"g", b"b"), primaries, strict=True):
        tags |= {name + b"XYZ": _xyz(color), name + b"TRC": curve}
    return _profile(b"mntr", b"RGB ", b"XYZ ", tags)


def gray_profile(gamma: float) -> bytes:
    return _profile(b"mntr", b"GRAY", b"XYZ ", {b"wtpt": _xyz(_WHITE), b"kTRC": _curve(gamma)})


def cmyk_profile(corners: Mapping[tuple[int, int, int, int], tuple[int, int, int]]) -> bytes:
    """A profile of inks by a table of its 16 corners: (c, m, y, k) of 0 or 1 -> L, a, b of 8 bits each."""
    identity = b"".join(bytes((round(255 * at / 255),)) for at in range(256))
    grid = b"".join(bytes(corners[c, m, y, k]) for c in (0, 1) for m in (0, 1) for y in (0, 1) for k in (0, 1))
    matrix = b"".join(_s15(float(row == column)) for row in range(3) for column in range(3))
    table = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0)) + matrix + identity * 4 + grid + identity * 3
    return _profile(b"prtr", b"CMYK", b"Lab ", {b"wtpt": _xyz(_WHITE), b"A2B0": table})


def _s15(value: float) -> bytes:
    return struct.pack(">i", round(value * 65536))


def _xyz(values: tuple[float, float, float]) -> bytes:
    return b"XYZ \0\0\0\0" + b"".join(map(_s15, values))


def _curve(gamma: float | None) -> bytes:
    if gamma is not None:
        return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256))
    levels = [(x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4) for x in (at / 1023 for at in range(1024))]
    return b"curv\0\0\0\0" + struct.pack(">I1024H", 1024, *(round(level * 65535) for level in levels))


def _profile(kind: bytes, space: bytes, connection: bytes, tags: Mapping[bytes, bytes]) -> bytes:
    name = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"made\0" + b"\0" * 78
    tags = {b"desc": name, b"cprt": b"text\0\0\0\0none\0", **tags}
    table, data = b"", b""
    for tag, value in tags.items():
        start = 132 + 12 * len(tags) + len(data)
        table += tag + struct.pack(">II", start, len(value))
        data += value + b"\0" * (-len(value) % 4)
    body = struct.pack(">I", len(tags)) + table + data
    head = struct.pack(">I", 128 + len(body)) + bytes(4) + b"\x02\x40\0\0" + kind + space + connection
    head += struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + b"".join(map(_s15, _WHITE))
    return head.ljust(128, b"\0") + body
