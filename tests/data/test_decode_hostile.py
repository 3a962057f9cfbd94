"""Hostile files, read by a child process with little memory: it must survive and report an error for each file."""

import io
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from tests.forked import run
from tests.processes import ROOT, environment
from tests.science_files import sound_science_files
from vit.data.core.image_bytes import ImageError
from vit.data.pixels.decode import check_header

pillow_heif.register_heif_opener()
READ_ALL = """
import json, resource, sys, time, warnings
from pathlib import Path
from vit.data.pixels.decode import ImageError, read_image
from vit.data.pixels.preprocess import Decoding
from vit.data.pixels.planes import ChannelsError

warnings.simplefilter("error")

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

read_image(sys.argv[1])  # load everything that is loaded once
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, size + 2**30))
for file in sorted(Path(sys.argv[1]).parent.iterdir()):
    before, started = peak(), time.process_time()
    try:
        channels = 3
        try:
            image = read_image(file)
        except ChannelsError as error:
            channels = error.found
            image = read_image(file, decoding=Decoding(channels=channels))
        is_right = image.ndim == 3 and image.shape[0] == channels and str(image.dtype) == "torch.uint8"
        outcome = "image" if is_right else "wrong"
    except ImageError as error:
        outcome = error.kind
    print(json.dumps([file.name, outcome, time.process_time() - started, peak() - before]), flush=True)
"""


@dataclass
class Outcome:
    """Result of one file: the message, seconds of computation, and growth of peak memory in megabytes."""

    name: str
    kind: str
    seconds: float
    megabytes: float


def read_by_a_child(folder: Path, files: dict[str, bytes]) -> dict[str, Outcome]:
    (folder / "!sound.jpg").write_bytes(encoded("JPEG"))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    child = run([sys.executable, "-c", READ_ALL, folder / "!sound.jpg"], timeout=300, cwd=ROOT, env=environment(folder))
    outcomes = [Outcome(*json.loads(line)) for line in child.stdout.splitlines()]
    assert child.returncode == 0, (child.returncode, child.stderr[-2000:], outcomes[-1:])
    assert len(outcomes) == len(files) + 1
    return {outcome.name: outcome for outcome in outcomes}


def encoded(kind: str, convert: Callable[[Image.Image], Image.Image] = lambda image: image, **options: object) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    convert(Image.fromarray(pixels)).save(buffer, kind, **options)
    return buffer.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, *before_pixels: bytes) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(100)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(before_pixels) + pixels + chunk(b"IEND", b"")


def frames(kind: str) -> bytes:
    more = [Image.new("RGB", (24, 16), (shade, 0, 0)) for shade in (50, 100)]
    return encoded(kind, save_all=True, append_images=more)


@pytest.mark.faults("I3", "I4")
def test_headers_that_announce_too_much_cost_nothing(tmp_path: Path) -> None:
    huge = struct.pack(">HH", 65_500, 65_500)
    files = {
        "1.png": png(100_000, 100_000),
        "2.png": png(9_000, 9_000),
        "3.png": png(1, 30_000),
        "4.png": png(30_000, 1),
        "5.jpg": encoded("JPEG").replace(struct.pack(">HH", 16, 24), huge),
        "6.gif": b"GIF89a" + struct.pack("<HH", 65_535, 65_535) + encoded("GIF")[10:],
        "7.bmp": encoded("BMP").replace(struct.pack("<ii", 24, 16), struct.pack("<ii", 40_000, 40_000)),
        "8.ppm": b"P6 60000 60000 255\n" + bytes(100),
        "9.tif": encoded("TIFF").replace(
            struct.pack("<HHIHH", 256, 4, 1, 24, 0), struct.pack("<HHII", 256, 4, 1, 2**30)
        ),
    }
    outcomes = read_by_a_child(tmp_path, files)
    assert {outcomes[name].kind for name in files} == {"too_large"}
    assert max(outcomes[name].megabytes for name in files) < 30
    assert max(outcomes[name].seconds for name in files) < 1


@pytest.mark.faults("I5")
def test_packed_bombs_stay_within_bounds(tmp_path: Path) -> None:
    zeros = zlib.compress(bytes(200_000_000), 1)
    text, profile = chunk(b"zTXt", b"Comment\0\0" + zeros), chunk(b"iCCP", b"profile\0\0" + zeros)
    comment = chunk(b"tEXt", b"Comment\0" + bytes(range(1, 256)) * 4)
    files = {"1.png": png(24, 16, text), "2.png": png(24, 16, profile), "3.png": png(8_000, 8_000, comment)}
    files["4.png"] = png(8_000, 8_000)
    outcomes = read_by_a_child(tmp_path, files)
    assert max(outcomes[name].megabytes for name in ("1.png", "2.png")) < 100
    assert outcomes["3.png"].kind == "unreadable"  # 64 megapixels are allowed, but the file does not have them
    assert outcomes["3.png"].megabytes < 400
    assert outcomes["4.png"].kind == "too_large" and outcomes["4.png"].megabytes < 30  # too many pixels for its bytes


@pytest.mark.faults("I2")
def test_a_png_with_any_byte_broken_never_ends_the_process(tmp_path: Path) -> None:
    """torchvision's decoder crashes on some of these files."""
    sound = encoded("PNG")
    pixels = range(sound.index(b"IDAT") + 4, len(sound) - 16)
    damaged = [*range(8, 33), *pixels[:: len(pixels) // 60]]  # the header, and positions in all parts of the pixels
    files = {f"{place}.png": sound[:place] + bytes([sound[place] ^ 0x55]) + sound[place + 1 :] for place in damaged}
    outcomes = read_by_a_child(tmp_path, files)
    assert {outcomes[name].kind for name in files} <= {"not_image", "unreadable", "too_large"}


def mutations(sound: bytes, count: int, draw: random.Random) -> list[bytes]:
    """Flipped, cut, doubled, inserted and extreme bytes; more of them near the head, where the structure is."""
    found = []
    for number in range(count):
        data = bytearray(sound)
        place = draw.randrange(len(data)) if draw.random() < 0.5 else draw.randrange(min(80, len(data)))
        length = draw.randint(1, 40)
        if number % 5 == 0:
            for _ in range(draw.randint(1, 8)):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif number % 5 == 1:
            del data[place : place + length]
        elif number % 5 == 2:
            data[place:place] = data[place : place + length]
        elif number % 5 == 3:
            data[place : place + 4] = draw.choice([bytes(4), b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f"])
        else:
            data = data[:place]
        found.append(bytes(data))
    return found


def sound_files() -> dict[str, bytes]:
    exif = Image.Exif()
    exif[0x0112] = 6
    return {
        "jpg": encoded("JPEG", exif=exif),
        "progressive.jpg": encoded("JPEG", progressive=True),
        "gray.jpg": encoded("JPEG", lambda image: image.convert("L")),
        "cmyk.jpg": encoded("JPEG", lambda image: image.convert("CMYK")),
        "mpo": frames("MPO"),
        "png": encoded("PNG", exif=exif),
        "palette.png": encoded("PNG", lambda image: image.convert("P"), transparency=3),
        "16.png": encoded("PNG", lambda image: Image.fromarray(np.asarray(image)[:, :, 0].astype(np.uint16) * 257)),
        "alpha.webp": encoded("WEBP", lambda image: image.convert("RGBA"), exif=exif),
        "animated.webp": frames("WEBP"),
        "animated.gif": frames("GIF"),
        "bmp": encoded("BMP"),
        "ppm": encoded("PPM"),
        "tif": encoded("TIFF"),
        "lzw.tif": encoded("TIFF", compression="tiff_lzw", exif=exif),
        "jpeg.tif": encoded("TIFF", compression="jpeg"),
        "avif": encoded("AVIF", exif=exif),
        "heic": encoded("HEIF", exif=exif.tobytes()),
        **sound_science_files(),
    }


@pytest.mark.faults("I13")
@pytest.mark.parametrize("seed", [0])
def test_mutated_files_raise_nothing_but_their_own_error(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    sound = {f"sound.{name}": content for name, content in sound_files().items()}
    mutated = {
        f"{number:02d}.{name}": content
        for name, original in sound_files().items()
        for number, content in enumerate(mutations(original, 20, draw))
    }
    outcomes = read_by_a_child(tmp_path, {**sound, **mutated})
    assert {outcomes[name].kind for name in sound} == {"image"}
    assert {outcomes[name].kind for name in mutated} <= {"image", "not_image", "unreadable", "too_large"}
    assert sum(outcomes[name].kind != "image" for name in mutated) > 100
    assert max(outcome.seconds for outcome in outcomes.values()) < 2
    assert max(outcome.megabytes for outcome in outcomes.values()) < 300


@pytest.mark.faults("I4")
def test_a_picture_of_one_color_has_no_more_pixels_than_a_blank_page() -> None:
    """A page of A4 at 600 dpi is read in every format; a few bytes that stand for 64 million pixels are not."""

    def saved(image: Image.Image, kind: str, **options: object) -> bytes:
        file = io.BytesIO()
        image.save(file, kind, **options)
        return file.getvalue()

    page = Image.new("1", (4960, 7016), 1)
    for data in (saved(page, "PNG"), saved(page, "TIFF", compression="group4"), saved(page.convert("L"), "GIF")):
        check_header(data, "page")
    webp = saved(Image.new("RGB", (16, 16)), "WEBP", lossless=True)
    start = webp.index(b"VP8L") + 9  # 14 bits of the width and of the height, less 1
    side = 7990 - 1
    rest = int.from_bytes(webp[start : start + 4], "little") >> 28
    bomb = webp[:start] + (side | side << 14 | rest << 28).to_bytes(4, "little") + webp[start + 4 :]
    with pytest.raises(ImageError, match=r"63,840,100 pixels in \d+ bytes") as caught:
        check_header(bomb, "bomb")
    assert caught.value.kind == "too_large"
    check_header(webp, "small")
