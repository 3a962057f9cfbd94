"""Shards and images on other machines, by a server on the loopback: patience, refusals, lies, and the cache."""

import gc
import os
import pickle
import time

import numpy as np
import pytest
from PIL import Image

from tests.data.shards.server import Server
from tests.processes import free_port
from vit.data.checks.contents import read_contents
from vit.data.core.dataset_names import TableColumns
from vit.data.core.image_bytes import ImageError
from vit.data.sources.sources import open_source
from vit.errors import DataError, UsageError
from vit.extras.s3 import far_files, far_images
from vit.extras.s3.far_files import Patience
from vit.extras.s3.far_images import FarImages, PartCache
from vit.extras.shards import source
from vit.extras.shards.packing import pack
from vit.training.planning.images import automatic_network

QUICK = Patience(attempts=3, first_pause=0.01, seconds=20.0)


@pytest.fixture
def server(colors, tmp_path, monkeypatch):
    (tmp_path / "shards").mkdir()
    pack(open_source(str(colors)), tmp_path / "shards", 6_000, lambda done, total: None)
    monkeypatch.setenv("VIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(far_files, "PATIENCE", QUICK)
    with Server(tmp_path) as one:
        yield one


def images(server):
    return open_source(f"{server.address}/shards").splits["train"]


def test_far_images_are_those_of_the_folder(server, colors):
    near = open_source(str(colors))
    source = open_source(f"{server.address}/shards/index.parquet")
    train = source.splits["train"]
    assert source.name == "shards" and source.class_names == near.class_names
    assert [train.encoded(row) for row in range(42)] == [near.splits["train"].encoded(row) for row in range(42)]
    before = len(server.asked)
    assert read_contents(source).hashes == read_contents(near).hashes and len(server.asked) == before


def test_a_batch_is_fetched_at_once_and_kept(server, monkeypatch):
    monkeypatch.setattr(source, "PART_BYTES", 4096)
    train, server.seconds = images(server), 0.2
    before, began = len(server.asked), time.perf_counter()
    train.prepare(range(42))
    requests = len(server.asked) - before
    assert requests > 8 and time.perf_counter() - began < 0.2 * requests
    again = images(server)
    index_only = len(server.asked)
    assert all(again.encoded(row) for row in range(42)) and len(server.asked) == index_only


def test_without_a_cache_the_ranges_of_images_are_fetched_and_no_more(server, monkeypatch, tmp_path):
    monkeypatch.setenv("VIT_CACHE_GB", "0")
    train = images(server)
    before = len(server.asked)
    train.prepare(range(10))
    assert len(server.asked) == before + 10
    near = [train.encoded(row) for row in range(10)]
    assert len(server.asked) == before + 10 and not (tmp_path / "cache").exists()
    assert [train.encoded(row) for row in range(10)] == near and len(server.asked) == before + 20


@pytest.mark.faults("S5")
@pytest.mark.parametrize("fault", ["500", "503", "429", "cut", "short", "whole"])
def test_a_passing_fault_is_tried_again(server, monkeypatch, fault):
    monkeypatch.setattr(source, "PART_BYTES", 4096)
    train, first = images(server), len(server.asked) + 1
    server.fault = lambda path, number: fault if number == first else ""
    assert train.encoded(0) and len(server.asked) > first


@pytest.mark.faults("S5")
@pytest.mark.parametrize(
    ("fault", "said"),
    [("500", "500"), ("cut", "Payload"), ("silent", "Timeout"), ("short", "bytes came instead of"),
     ("whole", "bytes came instead of")],
)  # fmt: skip
def test_a_lasting_fault_is_an_error_and_leaves_nothing(server, monkeypatch, tmp_path, fault, said):
    monkeypatch.setattr(source, "PART_BYTES", 4096)
    train = images(server)
    if fault == "silent":
        monkeypatch.setattr(far_files, "PATIENCE", Patience(attempts=3, first_pause=0.01, seconds=0.3))
        train.reader._files = far_files.FarFiles(server.address)
    server.fault = lambda path, number: fault
    with pytest.raises(DataError, match=r"cannot be read \(3 attempts\)") as error:
        train.encoded(0)
    assert said in str(error.value) and "train-" in str(error.value)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.faults("S6")
@pytest.mark.parametrize(
    ("fault", "said"),
    [("404", "there is no"), ("410", "there is no"), ("403", "is refused"), ("401", "is refused"),
     ("416", "ends before the bytes that the index lists"), ("400", "cannot be read")],
)  # fmt: skip
def test_a_refusal_is_not_tried_again(server, fault, said):
    train, before = images(server), len(server.asked)
    server.fault = lambda path, number: fault
    with pytest.raises(DataError, match=said):
        train.encoded(0)
    assert len(server.asked) == before + 1
    with pytest.raises(DataError, match=said):
        images(server)


@pytest.mark.faults("S7")
def test_a_range_that_lies_is_asked_for_again_and_then_refused(server):
    train = images(server)
    first = len(server.asked) + 1
    server.fault = lambda path, number: "lies" if number == first else ""
    assert train.encoded(0)
    server.fault = lambda path, number: "lies"
    other = next(row for row, shard in enumerate(train.reader.shards(train.paths)) if shard == 1)
    with pytest.raises(DataError, match=r"is not the image that .*index.parquet lists \(another sha256\)"):
        train.encoded(other)


@pytest.mark.faults("S7")
def test_a_shard_that_changed_since_it_was_indexed(server, tmp_path):
    """Also where the cache still has the old one: images of one index are never mixed with those of another."""
    images(server).encoded(0)
    for shard in (tmp_path / "shards").glob("*.tar"):
        shard.write_bytes(bytes(byte ^ 1 for byte in shard.read_bytes()))
    assert images(server).encoded(0)  # of the cache, as listed
    row = next(row for row, one in enumerate(images(server).reader.shards(images(server).paths)) if one == 2)
    with pytest.raises(DataError, match="another sha256"):
        images(server).encoded(row)


@pytest.mark.faults("S7")
def test_a_damaged_part_of_the_cache_is_fetched_again(server, tmp_path):
    train = images(server)
    good = train.encoded(0)
    for part in (tmp_path / "cache").glob("*/*"):
        part.write_bytes(b"\0" * part.stat().st_size)
    assert train.encoded(0) == good


def test_a_fork_and_a_pickle_have_connections_of_their_own(server, tmp_path):
    gc.freeze()  # the child looks at what is made from here on, and not at all imported modules
    train = images(server)
    train.reader._cache = PartCache(tmp_path / "none", 0)  # so that every image is asked for
    train.encoded(0)
    copy = pickle.loads(pickle.dumps(train))
    assert copy.encoded(1)
    child = os.fork()
    if child == 0:
        done = train.encoded(30) and train.encoded(15)
        gc.collect()  # which a worker does sooner or later
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    before, began = len(server.asked), time.perf_counter()
    assert train.encoded(15) and train.encoded(30)  # over the connection that was open at the fork
    assert len(server.asked) > before and time.perf_counter() - began < QUICK.seconds / 2


@pytest.mark.faults("S8")
def test_a_table_of_addresses(server, tmp_path):
    for number in range(4):
        Image.fromarray(np.full((9, 9, 3), number, dtype=np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "3.png").unlink()
    lines = [f"{server.address}/{number}.png,{'ab'[number % 2]}" for number in range(4)]
    table = tmp_path / "far.csv"
    table.write_text("\n".join(["path,label", *lines, ""]))
    source = open_source(str(table))
    train = source.splits["train"]
    assert train.name(0) == lines[0].split(",")[0] and train.encoded(2) == (tmp_path / "2.png").read_bytes()
    contents = read_contents(source)
    assert contents.unreadable == {"train": {3: "there is no such file"}} and contents.hashes["train"][3] == ""
    before = len(server.asked)
    assert train.encoded(1) == (tmp_path / "1.png").read_bytes() and len(server.asked) == before
    table.write_text("\n".join(["path,label", *lines, "0.png,a", ""]))
    with pytest.raises(DataError, match=r"line 6: '0.png' is a file, and the lines before are not"):
        open_source(str(table))


@pytest.mark.faults("S8")
@pytest.mark.parametrize("has_etags", [True, False])
def test_a_file_that_changed_on_its_server_is_read_by_the_next_command(server, tmp_path, has_etags):
    """A command keeps the version that it read first. The next command asks the server for the version."""
    server.has_etags = has_etags
    address = f"{server.address}/latest.png"
    for content in (b"one", b"two", b"one"):  # also the version before
        (tmp_path / "latest.png").write_bytes(content)
        command = FarImages()
        command.prepare([address])
        assert command.read(address) == content
        (tmp_path / "latest.png").write_bytes(b"later")
        assert command.read(address) == content
        assert pickle.loads(pickle.dumps(command)).read(address) == content  # a process that loads images


@pytest.mark.faults("S8")
def test_files_of_one_version_are_fetched_once(server, tmp_path):
    server.has_etags = True
    (tmp_path / "kept.png").write_bytes(b"kept")
    address = f"{server.address}/kept.png"
    assert FarImages().read(address) == b"kept"
    before, again = len(server.asked), FarImages()
    again.prepare([address, f"{server.address}/absent.png"])
    server.fault = lambda path, number: "500"
    assert again.read(address) == b"kept"
    assert server.asked[before:].count(("/kept.png", "")) == 1  # the version alone


def test_a_file_of_the_cache_that_a_power_cut_emptied_is_fetched_again(server, tmp_path):
    server.has_etags = True
    (tmp_path / "kept.png").write_bytes(b"kept")
    reader, address = FarImages(), f"{server.address}/kept.png"
    reader._cache.put(reader._key(address), b"")
    assert reader.read(address) == b"kept" == FarImages()._cache.get(reader._key(address))


def test_no_cache_keeps_no_address(server, tmp_path, monkeypatch):
    """Files that an earlier command has kept are not read either."""
    address = f"{server.address}/latest.png"
    (tmp_path / "latest.png").write_bytes(b"one")
    server.has_etags = True
    assert FarImages().read(address) == b"one"
    monkeypatch.setenv("VIT_CACHE_GB", "0")
    (tmp_path / "latest.png").write_bytes(b"two")
    reader = FarImages()
    assert reader.read(address) == b"two"
    (tmp_path / "latest.png").write_bytes(b"")
    with pytest.raises(ImageError, match="the file is empty"):
        reader.read(address)


@pytest.mark.faults("S8")
def test_an_empty_and_a_refused_address(server, tmp_path):
    (tmp_path / "empty.png").write_bytes(b"")
    reader = FarImages()
    with pytest.raises(ImageError, match="the file is empty"):
        reader.read(f"{server.address}/empty.png")
    server.fault = lambda path, number: "403"
    with pytest.raises(DataError, match="is refused"):
        reader.read(f"{server.address}/other.png")


@pytest.mark.faults("S6")
def test_a_host_that_cannot_be_reached_is_named_at_once(server, tmp_path, monkeypatch):
    """Also where a training looks at the sizes of images. A host that has answered before is waited for."""
    monkeypatch.setattr(far_files, "PATIENCE", Patience(first_pause=0.01))
    host = f"127.0.0.1:{free_port()}"
    lines = [f"http://{host}/{number}.png,{'ab'[number % 2]}" for number in range(8)]
    (tmp_path / "far.csv").write_text("\n".join(["path,label", *lines, ""]))
    train = open_source(str(tmp_path / "far.csv")).splits["train"]
    with pytest.raises(DataError, match=rf"http://{host}/\d.png cannot be read, because {host} cannot be reached"):
        automatic_network(train)
    train.reader._of("http://")._reached.add(host)
    with pytest.raises(DataError, match=r"cannot be read \(6 attempts\)"):
        automatic_network(train)


@pytest.mark.faults("S9")
def test_an_address_of_another_kind_is_refused():
    with pytest.raises(UsageError, match="not a kind of address"):
        open_source("ftp://example.org/shards")


@pytest.mark.faults("S9")
@pytest.mark.parametrize("name", ["t.parquet", "t.parquet/"])
@pytest.mark.parametrize("columns", [None, TableColumns(label="kind")])
def test_a_far_table_must_be_downloaded(server, name, columns):
    with pytest.raises(
        UsageError, match=r"t\.parquet/? is a parquet table on another machine.*download it first.*wget"
    ):
        open_source(f"{server.address}/{name}", columns=columns)
    assert not server.asked


@pytest.mark.faults("S6")
def test_a_far_folder_without_an_index(server):
    with pytest.raises(DataError, match=r"there is no .*/nothing/index\.parquet.*of parquet tables: download it first"):
        open_source(f"{server.address}/nothing/")


@pytest.mark.faults("S9")
@pytest.mark.parametrize(("address", "extra"), [("s3://bucket/shards", "s3"), ("gs://bucket/shards", "gcs")])
def test_a_missing_library_is_named(address, extra):
    library = {"s3": "s3fs", "gcs": "gcsfs"}[extra]
    try:
        __import__(library)
    except ImportError:
        with pytest.raises(UsageError, match=rf"needs a library that is not installed.*\[{extra}\]"):
            open_source(address)
    else:
        pytest.skip(f"{library} is installed")


@pytest.mark.faults("S15")
def test_an_image_without_an_end_is_given_up_while_it_comes(server, tmp_path, monkeypatch):
    """Its server does not say how long it is: memory holds no more than the limit."""
    monkeypatch.setattr(far_images, "MAX_BYTES", 2**20)
    (tmp_path / "1.png").write_bytes(b"x")
    server.fault = lambda path, number: "endless" if path.endswith("1.png") else ""
    images = FarImages()
    address = f"{server.address}/1.png"
    images.prepare([address])
    with pytest.raises(ImageError, match="more than 1,048,576 bytes") as caught:
        images.read(address)
    assert caught.value.kind == "too_large"
    assert 2**20 < server.sent < 2**28  # what lies in buffers of the system comes on top, twice
    server.fault = lambda path, number: ""
    assert FarImages().read(address) == b"x"
