"""Fuzzes the decoder, guided by coverage: `python -m tests.faults.fuzz_decode`; needs `pip install atheris`.

It starts from a sound file of every format and ends with the first input that raises anything but ImageError, takes
longer than a minute, or with which the process grows over its limit; the input is kept under --kept.
"""

import argparse
import sys
from pathlib import Path

from vit.data.pixels.preprocess import Decoding

MAX_PIXELS = 1_000_000  # so that time is spent on odd files, not on large ones: those have tests of their own
MAX_BYTES = 8192
MEGABYTES = 2048  # of the whole process; torch alone takes 400
EVERY = 10_000  # runs between two lines on memory


def main() -> None:
    """Run atheris over `decode_image`; it ends the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--kept", type=Path, default=Path("fuzzed"), help="folder for inputs that broke something")
    given = parser.parse_args()
    corpus = given.kept / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)

    import atheris

    with atheris.instrument_imports(include=["PIL", "tifffile", "pydicom"]):
        from PIL import Image

        Image.init()
    from tests.data.test_decode_hostile import sound_files
    from vit.data.core import image_header
    from vit.data.pixels import decode
    from vit.data.pixels.planes import ChannelsError

    image_header.MAX_PIXELS = MAX_PIXELS
    for name, content in sound_files().items():
        (corpus / name).write_bytes(content)
    runs, images = 0, 0

    def decode_once(data: bytes) -> None:
        nonlocal runs, images
        runs += 1
        try:
            try:
                decode.decode_image(data)
            except ChannelsError as error:
                decode.decode_image(data, decoding=Decoding(channels=error.found))
            images += 1
        except decode.ImageError:
            pass
        if runs % EVERY == 0:
            print(f"runs {runs} images {images} megabytes {resident()}", flush=True)

    limits = (f"-max_total_time={given.seconds}", f"-max_len={MAX_BYTES}", "-timeout=60", f"-rss_limit_mb={MEGABYTES}")
    options = [sys.argv[0], *limits, f"-artifact_prefix={given.kept}/", "-seed=1", str(corpus)]
    atheris.Setup(options, decode_once)
    atheris.Fuzz()


def resident() -> int:
    """Megabytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20


if __name__ == "__main__":
    main()
