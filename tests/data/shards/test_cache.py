"""Parts of far shards on the disk: whole or absent, bounded, the longest unread removed first."""

import os
import threading

import pytest

from vit.errors import UsageError
from vit.extras.s3.far_images import PartCache


def key(number):
    return f"{number:064x}"


def test_a_content_comes_back_and_a_cache_of_no_bytes_keeps_none(tmp_path):
    cache = PartCache(tmp_path, 1000)
    cache.put(key(1), b"abc")
    assert cache.get(key(1)) == b"abc" and cache.has(key(1)) and cache.get(key(2)) is None
    none = PartCache(tmp_path / "none", 0)
    none.put(key(1), b"abc")
    assert none.get(key(1)) is None and not (tmp_path / "none").exists()


def test_the_longest_unread_goes_first(tmp_path, monkeypatch):
    monkeypatch.setattr("vit.extras.s3.far_images._LEAST", 0)
    monkeypatch.setattr("vit.extras.s3.far_images._COUNT_AFTER", 0)
    cache = PartCache(tmp_path, 1000)
    for number in range(10):
        cache.put(key(number), bytes(100))
        os.utime(cache._path(key(number)), (number, number))
    assert cache.get(key(0)) is not None  # read now: the newest
    cache.put(key(10), bytes(100))
    left = [number for number in range(11) if cache.has(key(number))]
    assert 0 in left and 10 in left and 1 not in left and len(left) == 9
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 1000


@pytest.mark.slow
def test_a_file_costs_as_little_in_a_full_cache(tmp_path, monkeypatch):
    """The folder is counted for a part of its size, and not for a number of files: the cost does not grow with it."""
    cache, counts = PartCache(tmp_path, 3 * 10**5), []
    count = PartCache._shrink
    monkeypatch.setattr(PartCache, "_shrink", lambda self: counts.append(count(self)) or counts[-1])
    for number in range(900):  # three times what fits
        cache.put(f"{number:02x}{number}", bytes(1000))
    assert len(counts) < 330 and max(counts) <= 3 * 10**5
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 1.02 * 3 * 10**5


@pytest.mark.faults("A16")
def test_processes_share_a_cache(tmp_path, monkeypatch):
    """Threads stand for processes: each has its own object, all write, read and remove the same few files."""
    monkeypatch.setattr("vit.extras.s3.far_images._COUNT_AFTER", 0.4)
    wrong = []

    def work(seed):
        cache = PartCache(tmp_path, 2000)
        for turn in range(60):
            number = (turn * 7 + seed) % 12
            cache.put(key(number), bytes([number]) * 300)
            content = cache.get(key((turn * 5 + seed) % 12))
            if content is not None and content != bytes([(turn * 5 + seed) % 12]) * 300:
                wrong.append(content)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not list(tmp_path.glob("*/.*"))


@pytest.mark.faults("A16", simulated="a folder that is a file")
def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    cache = PartCache(tmp_path / "file", 1000)
    cache.put(key(1), b"abc")
    assert cache.get(key(1)) is None


def test_the_environment_names_folder_and_size(tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("VIT_CACHE_GB", "0.5")
    cache = PartCache.of_machine()
    assert cache.folder == tmp_path / "c" and cache.max_bytes == 500_000_000
    monkeypatch.setenv("VIT_CACHE_GB", "much")
    with pytest.raises(UsageError, match="VIT_CACHE_GB is 'much'"):
        PartCache.of_machine()


def test_only_what_is_missing_is_fetched(tmp_path):
    cache, fetched = PartCache(tmp_path, 10**6), []
    cache.put(key(3), b"abc")
    cache.fill({key(number): number for number in range(20)}, fetched.extend)
    assert fetched == [number for number in range(20) if number != 3]
