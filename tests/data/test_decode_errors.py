"""Errors of files that are not images. None of these files harms the process."""

import io
import os
import pickle
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from tests.data.test_decode import encoded
from vit.data.core import image_bytes
from vit.data.pixels.decode import ImageError, decode_image, read_image


def error_of(path: os.PathLike[str] | str) -> ImageError:
    with pytest.raises(ImageError) as caught:
        read_image(path)
    assert str(path) in str(caught.value) and caught.value.path == str(path)
    return caught.value


@pytest.mark.faults("I1", "I3", "I4")
@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (b"", "not_image", "empty"),
        (b"\n<!DOCTYPE html><html>404</html>", "not_image", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "not_image", "git-lfs"),
        (np.random.default_rng(0).bytes(5000), "not_image", "not one of JPEG"),
        (
            encoded(Image.effect_noise((64, 64), 90), "JPEG")[:-1500],
            "unreadable",
            "damaged JPEG: Image is incomplete or truncated",
        ),
        (encoded(Image.effect_noise((64, 64), 90), "PNG")[:-1500], "unreadable", "truncated"),
        (encoded(Image.new("L", (30_000, 1)), "PNG"), "too_large", "30000x1 pixels"),
        (encoded(Image.new("L", (1, 30_000)), "PNG"), "too_large", "1x30000 pixels"),
        (encoded(Image.new("1", (8001, 8000)), "PNG"), "too_large", "64,000,000"),
    ],
    ids=["empty", "html", "lfs", "random", "jpeg-cut", "png-cut", "wide", "tall", "large"],
)
def test_files_that_are_no_sound_image(tmp_path: Path, content: bytes, kind: str, reason: str) -> None:
    (tmp_path / "x.jpg").write_bytes(content)
    error = error_of(tmp_path / "x.jpg")
    assert error.kind == kind and reason in error.reason


@pytest.fixture
def five_seconds() -> Iterator[None]:
    """End a test that hangs."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("still waiting after 5 seconds"))
    signal.alarm(5)
    yield
    signal.alarm(0)


@pytest.mark.faults("D14")
@pytest.mark.usefixtures("five_seconds")
def test_paths_that_are_no_regular_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    os.mkfifo("fifo.jpg")
    Path("folder.jpg").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.jpg")
        assert error_of("missing.jpg").kind == error_of("nul\0.jpg").kind == error_of("socket.jpg").kind == "unreadable"
    before = len(os.listdir("/proc/self/fd"))
    for path in ("fifo.jpg", "folder.jpg", "/dev/zero"):
        error = error_of(path)
        assert error.kind == "not_image" and "regular file" in error.reason
    assert len(os.listdir("/proc/self/fd")) == before
    monkeypatch.setattr(image_bytes, "MAX_BYTES", 10)
    Path("big.jpg").write_bytes(b"x" * 11)
    assert error_of("big.jpg").kind == "too_large"


@pytest.mark.faults("I10")
def test_no_external_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker, program = tmp_path / "marker", tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    with suppress(OSError), Image.open(io.BytesIO(eps)) as image:
        image.load()  # without an allowlist Pillow would run it
    assert marker.exists()
    marker.unlink()
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="/etc/passwd"/></svg>'
    for number, content in enumerate((eps, svg, b"%PDF-1.4\n1 0 obj <<>> endobj\n%%EOF\n")):
        (tmp_path / f"{number}.jpg").write_bytes(content)
        assert error_of(tmp_path / f"{number}.jpg").kind == "not_image"
    assert not marker.exists()


def test_error_survives_the_way_out_of_a_worker() -> None:
    error = pickle.loads(pickle.dumps(ImageError("a b/\udcff.jpg", "unreadable", "because")))
    assert (error.path, error.kind, error.reason) == ("a b/\udcff.jpg", "unreadable", "because")
    assert str(error) == "a b/\udcff.jpg: because"


def test_overlapping_threads_leave_the_filters_of_warnings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    both_inside, first_is_out = threading.Barrier(2), threading.Event()

    def slow(stream: io.BytesIO, formats: object) -> None:
        both_inside.wait(5)
        assert stream.getvalue() == b"first" or first_is_out.wait(5)
        raise OSError

    def run(data: bytes) -> None:
        with pytest.raises(ImageError):
            decode_image(data)

    monkeypatch.setattr(Image, "open", slow)
    before = list(warnings.filters)
    threads = [threading.Thread(target=run, args=(name,)) for name in (b"first", b"second")]
    for thread in threads:
        thread.start()
    threads[0].join(10)
    first_is_out.set()
    threads[1].join(10)
    assert warnings.filters == before
