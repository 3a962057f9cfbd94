"""Images made to harm, to mislead or to last: what the decoder makes of them."""

import io
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.data.test_decode_hostile import encoded, read_by_a_child, sound_files
from tests.processes import ROOT
from vit.data.core.image_header import MAX_SCANS
from vit.data.pixels.decode import ImageError, decode_image
from vit.data.pixels.planes import ChannelsError
from vit.data.pixels.preprocess import Decoding

SOUND = sound_files()


def changed(data, changes):
    """Bytes replaced, cut out or put in at places that are shares of the length."""
    content = bytearray(data)
    for kind, share, value in changes:
        place = int(share * len(content))
        if kind == "cut":
            del content[place:]
        elif kind == "delete":
            del content[place : place + len(value)]
        elif kind == "insert":
            content[place:place] = value
        else:
            content[place : place + len(value)] = value
    return bytes(content)


def decode_with_its_channels(data, name):
    """What a model for as many channels as the file has sees."""
    try:
        return decode_image(data, name)
    except ChannelsError as error:
        return decode_image(data, name, decoding=Decoding(channels=error.found))


kinds = st.sampled_from(["set", "set", "insert", "delete", "cut"])
values = st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff"])
changes = st.lists(st.tuples(kinds, st.floats(0, 1, exclude_max=True), values), min_size=1, max_size=6)


@pytest.mark.faults("I13")
@settings(max_examples=500)
@given(st.sampled_from(sorted(SOUND)), changes)
def test_changed_files_are_images_or_one_error(name, changes):
    started = time.process_time()
    try:
        found = decode_with_its_channels(changed(SOUND[name], changes), name)
    except ImageError as error:
        found = error
    if isinstance(found, ImageError):
        assert found.kind in ("unreadable", "not_image", "too_large") and found.reason and found.path == name
    else:
        assert found.ndim == 3 and found.dtype.itemsize == 1
    assert time.process_time() - started < 10


@pytest.mark.slow
@pytest.mark.faults("I13")
def test_ten_minutes_of_guided_fuzzing(tmp_path):
    pytest.importorskip("atheris")
    command = [sys.executable, "-m", "tests.faults.fuzz_decode", "--seconds", "600", "--kept", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=1200)
    assert done.returncode == 0, (done.stdout[-500:], done.stderr[-3000:])
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]  # an input that broke something would lie here
    megabytes = [int(number) for number in re.findall(r"megabytes (\d+)", done.stdout)]
    assert len(megabytes) >= 3 and megabytes[-1] - megabytes[0] < 100


def progressive(side, scans):
    """A progressive JPEG whose last scan comes again and again; 36 bytes each."""
    sound = encoded("JPEG", lambda _: Image.new("L", (side, side), 128), progressive=True)
    last = sound.rindex(b"\xff\xc4")
    return sound[:-2] + sound[last:-2] * scans + sound[-2:]


@pytest.mark.faults("I5")
def test_a_jpeg_of_a_million_scans_is_refused_at_once():
    assert decode_image(progressive(16, 20)).shape == (3, 16, 16)
    for content in (progressive(16, MAX_SCANS), progressive(8000, 1_000_000)):
        started = time.process_time()
        with pytest.raises(ImageError, match=r"scans in a JPEG; the limit is 100") as caught:
            decode_image(content)
        assert caught.value.kind == "too_large" and time.process_time() - started < 2


@pytest.mark.faults("I5", "I9")
def test_of_thousands_of_frames_one_is_read():
    noise = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    first, *more = map(Image.fromarray, noise)
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=more, duration=10)
    content = file.getvalue()
    last = content[content.rindex(b"\x21\xf9") : -1]
    started = time.process_time()
    assert torch.equal(decode_image(content[:-1] + last * 10_000 + b";"), decode_image(encoded("GIF", lambda _: first)))
    assert time.process_time() - started < 0.5


@pytest.mark.faults("I8")
def test_jpegs_of_other_kinds_are_read_or_refused():
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    pixels = decode_image(encoded("JPEG", lambda _: red, quality=100)).float()
    assert pixels[0].mean() > 245 and pixels[1:].mean() < 10
    adobe = encoded("JPEG", lambda _: red, quality=100)
    place = adobe.index(b"Adobe") + 11
    assert adobe[place] in (0, 2)
    ycck = decode_image(adobe[:place] + bytes([2 - adobe[place]]) + adobe[place + 1 :])  # the other of CMYK and YCCK
    assert ycck.shape == (3, 16, 16)
    twelve = bytearray(encoded("JPEG"))
    twelve[twelve.index(b"\xff\xc0") + 4] = 12  # bits of a sample
    with pytest.raises(ImageError):
        decode_image(bytes(twelve))


@pytest.mark.faults("I11")
def test_sides_of_no_pixel():
    empty = encoded("BMP").replace(np.int32(24).tobytes() + np.int32(16).tobytes(), bytes(8))
    with pytest.raises(ImageError):
        decode_image(empty)


@pytest.mark.slow
@pytest.mark.faults("I11")
def test_the_largest_images_that_are_read(tmp_path):
    files = {}
    for kind, mode in (("JPEG", "RGB"), ("PNG", "RGB"), ("PNG", "L")):
        file = io.BytesIO()
        Image.new(mode, (8000, 8000), 128).save(file, kind)
        files[f"{mode}.{kind}"] = file.getvalue()
    outcomes = read_by_a_child(tmp_path, files)
    assert {outcomes[name].kind for name in files} == {"image"}
    assert max(outcomes[name].megabytes for name in files) < 700


@pytest.mark.faults("I1")
def test_a_folder_of_nothing_but_bad_files_has_its_rows(vit, digits_run, tmp_path):
    whole = SOUND["jpg"]
    contents = {"cut.jpg": whole[: len(whole) // 2], "empty.jpg": b"", "page.jpg": b"<html>404</html>"}
    contents |= {"lfs.png": b"version https://git-lfs.github.com/spec/v1\n", "random.gif": os.urandom(999)}
    (tmp_path / "in").mkdir()
    for name, content in contents.items():
        (tmp_path / "in" / name).write_bytes(content)
    answer = vit("predict", digits_run.path, tmp_path / "in", "--output", tmp_path / "rows.csv", "--on_bad", "fail")
    assert answer.code == 5 and "5 files without a label; see the rows" in answer.err and "Traceback" not in answer.err
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert len(lines) == 6 and all(name in line for name, line in zip(sorted(contents), lines[1:], strict=True))
