"""Files that cannot be read for a moment, or because of the machine, against files that are broken."""

import errno
import os
from collections import Counter
from pathlib import Path

import pytest
import torch

from vit.data.checks.contents import read_contents
from vit.data.core import image_bytes
from vit.data.core.image_bytes import ImageError, read_bytes
from vit.data.core.image_files import image_files
from vit.data.core.samples import Source
from vit.data.loading.module import ImageDataModule, LoaderOptions
from vit.data.pixels.augment import Augment
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.sources import open_source
from vit.errors import ResourceError
from vit.inference.prediction import read_input


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch):
    """`fail(code, times)` lets os.open of x.jpg fail; the list that it returns counts the attempts."""
    monkeypatch.setattr(image_bytes, "PAUSES", (0.0, 0.0, 0.0))
    opened = os.open

    def begin(code: int, times: int) -> list[str]:
        attempts: list[str] = []

        def fails(path, *rest, **options):
            if str(path).endswith("x.jpg"):
                attempts.append(str(path))
                if len(attempts) <= times:
                    raise OSError(code, os.strerror(code), str(path))
            return opened(path, *rest, **options)

        monkeypatch.setattr(os, "open", fails)
        return attempts

    return begin


@pytest.fixture
def source(tmp_path: Path, draw_classes) -> Source:
    draw_classes(tmp_path / "photos", ("a", "b"), 4)
    (tmp_path / "photos" / "a" / "01.png").rename(tmp_path / "photos" / "a" / "x.jpg")
    return open_source(str(tmp_path / "photos"))


@pytest.mark.faults("D43", simulated="os.open raises the error")
@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EMFILE, errno.ENOMEM])
def test_a_read_that_fails_for_a_moment_changes_no_batch(code: int, source: Source, fail) -> None:
    def batches():
        data = ImageDataModule(source, Preprocess(8), Augment(), LoaderOptions(4, 0, "none"), seed=1)
        return [(batch.image, batch.path, batch.error) for batch in data.train_dataloader()]

    before = batches()
    attempts = fail(code, 3)
    after = batches()
    assert len(attempts) >= 4
    for (image, path, error), (other, other_path, other_error) in zip(before, after, strict=True):
        assert torch.equal(image, other) and path == other_path and error == other_error == ("",) * 4


@pytest.mark.faults("D43", simulated="os.open raises the error")
@pytest.mark.parametrize(
    ("code", "fix", "workers"),
    [
        (errno.EIO, "network file system", 0), (errno.EMFILE, "ulimit -n", 0), (errno.ENOMEM, "free memory", 0),
        pytest.param(errno.EIO, "network file system", 1, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_machine_that_cannot_read_ends_with_its_own_error(
    code: int, fix: str, workers: int, source: Source, fail
) -> None:
    """Not with another training image, and not with a smaller test: also from a process that loads images."""
    fail(code, 1000)
    for augment in (Augment(), None):
        data = ImageDataModule(source, Preprocess(8), augment, LoaderOptions(4, workers, "none"), seed=1)
        with pytest.raises(ResourceError, match=r"cannot read .*x.jpg: .* \(4 attempts\)") as caught:
            list(data.train_dataloader())
        assert fix in caught.value.fix and caught.value.code == 7
    with pytest.raises(ResourceError):
        read_input(source.splits["train"].name(3), Preprocess(8))
    with pytest.raises(ResourceError):
        read_contents(source)


def test_a_file_that_is_not_there_is_asked_for_once(tmp_path: Path, fail) -> None:
    for code in (errno.ENOENT, errno.EACCES):
        attempts = fail(code, 1000)
        with pytest.raises(ImageError) as caught:
            read_bytes(tmp_path / "x.jpg")
        assert caught.value.kind == "unreadable" and len(attempts) == 1


@pytest.mark.faults("D43", simulated="os.scandir raises the error")
def test_a_folder_that_the_machine_cannot_list_is_not_left_out(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "deep").mkdir()

    def fails(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(os, "scandir", fails)
    with pytest.raises(ResourceError, match="cannot list"):
        image_files(tmp_path, Counter())
