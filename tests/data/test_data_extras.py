"""A folder of JPEG and PNG files needs no extra; readers and sources of extras are found by name alone."""

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vit
from tests.processes import environment
from vit.registry import IMAGE_READERS, LIBRARIES, SOURCES

PACKAGE = Path(vit.__file__).parent
WITHOUT_EXTRAS = """
import sys

from vit.data.checks.bursts import with_bursts
from vit.data.checks.check import check
from vit.data.checks.contents import read_contents
from vit.data.pixels.images import image_of
from vit.data.pixels.decode import decode_image
from vit.data.core.image_bytes import ImageError
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_all_splits
from vit.errors import VitError

source = with_all_splits(with_bursts(open_source(sys.argv[1])), 0.2, 0.2, 0)
print({split: [tuple(image_of(one, 0).shape), len(one)] for split, one in source.splits.items()})
print(sum(map(len, read_contents(source).hashes.values())), len(check(source, lambda *_: None).sizes))
for data in (bytes(128) + b"DICM", bytes(4) + b"ftypheic" + bytes(8)):
    try:
        decode_image(data)
    except ImageError as error:
        print(error.reason)
for name in (sys.argv[2], "hf:o/n", "http://127.0.0.1:9/x"):
    try:
        open_source(name)
    except VitError as error:
        print(error.code, error)
"""


@pytest.mark.slow
def test_the_core_reads_jpeg_and_png_files_without_the_folder_of_extras(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(10):
            picture = Image.fromarray(random.integers(0, 255, (40, 48, 3), dtype=np.uint8))
            picture.save(tmp_path / "images" / label / f"{number}.{'png' if number % 2 else 'jpg'}")
    table = tmp_path / "t.parquet"
    table.write_bytes(b"PAR1")
    shutil.copytree(PACKAGE, tmp_path / "core" / "vit", ignore=shutil.ignore_patterns("extras", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, str(tmp_path / "images"), str(table)], cwd=tmp_path,
        env=environment(tmp_path) | {"PYTHONPATH": str(tmp_path / "core")}, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shapes, counts, dicom, heic, *others = done.stdout.splitlines()
    assert shapes.count("(3, 40, 48)") == 3 and counts == "20 3"
    assert "a DICOM image; to read it: " in dicom and "a HEIC photograph; to read it: " in heic
    parts = ["parquet", "hub", "parquet"]
    assert [line.startswith(f"2 this installation of vit lacks the part {part!r}") for line, part in zip(
        others, parts, strict=True)] == [True] * 3  # fmt: skip


@pytest.mark.parametrize("entry", [*IMAGE_READERS.values(), *SOURCES.values()], ids=lambda entry: entry.extra)
def test_each_entry_exists(entry) -> None:
    assert callable(entry.load())
    others = ("list_images", "has_columns") if entry.name == "open_source" else ()
    assert all(callable(getattr(entry.import_module(), name)) for name in others)


def test_each_reader_names_its_library() -> None:
    assert LIBRARIES.keys() == IMAGE_READERS.keys()
    assert all(import_module(library) for library in LIBRARIES.values())
