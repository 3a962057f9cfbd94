"""Parquet tables on other machines, by a server on the loopback: ranges only, patience, refusals, changed files."""

import pytest

from tests.data.parquet.written import rows_of, write
from tests.data.shards.server import serving
from vit.data.checks.contents import read_contents
from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.extras.s3 import far_files
from vit.extras.s3.far_files import Patience

NAMES = ("blue", "green", "red")


@pytest.fixture
def server(colors, tmp_path, monkeypatch):
    """A server of t.parquet, whose further columns are larger than its images."""
    noise = {"caption": [f"{number:04}" * 2000 for number in range(42)]}
    write(tmp_path / "t.parquet", *rows_of(colors, NAMES), NAMES, columns=noise, compression="none")
    monkeypatch.setenv("VIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(far_files, "PATIENCE", Patience(attempts=5, first_pause=0.01, seconds=20.0))
    monkeypatch.setattr("vit.extras.parquet.files.BUFFER_BYTES", 4096)
    with serving(tmp_path) as one:
        yield one


def images(server):
    return open_source(f"{server.address}/t.parquet").splits["train"]


def fetched(server, first=0):
    """Number of bytes of the ranges that were asked for."""
    spans = [wanted.removeprefix("bytes=").split("-") for _, wanted in server.asked[first:] if wanted]
    return sum(int(last) - int(start) + 1 for start, last in spans)


def test_far_images_are_those_of_the_folder(server, colors):
    near, source = open_source(str(colors)), open_source(f"{server.address}/t.parquet")
    assert source.name == "t" and source.class_names == NAMES
    assert read_contents(source).hashes == read_contents(near).hashes
    size = (server.folder / "t.parquet").stat().st_size
    assert fetched(server) < size / 2  # the captions stay where they are
    before = len(server.asked)
    assert read_contents(source).hashes == read_contents(near).hashes and len(server.asked) == before  # cached


def test_row_groups_of_a_batch_are_fetched_at_the_same_time(server):
    train = images(server)
    before, server.seconds = len(server.asked), 0.1
    asked = server.answer
    running = {"now": 0, "most": 0}

    def counted(request):
        running["now"] += 1
        running["most"] = max(running["most"], running["now"])
        asked(request)
        running["now"] -= 1

    server.answer = counted
    train.prepare(range(42))
    assert len(server.asked) - before >= 6 and running["most"] >= 4
    after, server.seconds = len(server.asked), 0.0
    assert all(train.encoded(row) for row in range(42)) and len(server.asked) == after


@pytest.mark.faults("S5")
@pytest.mark.parametrize("fault", ["500", "429", "cut", "short"])
def test_a_passing_fault_is_tried_again(server, fault):
    failed = set()

    def once(path, number):
        wanted = server.asked[-1][1]
        if wanted in failed or (not wanted and not fault.isdigit()):  # of the state of a file only a status
            return ""
        failed.add(wanted)
        return fault

    server.fault = once
    train = images(server)
    assert all(train.encoded(row) for row in range(42)) and len(failed) > 6


@pytest.mark.faults("S6")
@pytest.mark.parametrize(("fault", "said"), [("404", "there is no"), ("403", "is refused"), ("401", "is refused")])
def test_a_refusal_is_not_tried_again(server, fault, said):
    train, before = images(server), len(server.asked)
    server.fault = lambda path, number: fault
    with pytest.raises(DataError, match=said):
        train.encoded(0)
    assert len(server.asked) <= before + 2  # fsspec asks for the state by HEAD and by GET
    with pytest.raises(DataError, match=said):
        images(server)


@pytest.mark.faults("S5")
def test_a_lasting_fault_is_an_error(server):
    train = images(server)
    server.fault = lambda path, number: "503"
    with pytest.raises(DataError, match=r"t\.parquet cannot be read \(5 attempts\).*503"):
        train.encoded(0)


@pytest.mark.faults("L25")
@pytest.mark.parametrize("how", ["longer", "cut"])
def test_a_far_table_that_changes_is_not_mixed_with_the_old_one(server, how):
    train, file = images(server), server.folder / "t.parquet"
    whole = file.read_bytes()
    train.encoded(0)
    file.write_bytes({"longer": whole + b"PAR1", "cut": whole[:-100]}[how])
    assert train.encoded(1)  # of the row group that is here already
    with pytest.raises(DataError, match=r"t\.parquet has changed since it was listed"):
        train.encoded(41)
    if how == "cut":
        with pytest.raises(DataError, match="is not a whole parquet file"):
            images(server)


@pytest.mark.faults("L25")
def test_bytes_that_lie(server):
    server.fault = lambda path, number: "lies" if number > 2 else ""
    with pytest.raises(DataError, match="is not a whole parquet file"):
        [images(server).encoded(row) for row in range(42)]


@pytest.mark.faults("S6")
def test_a_far_folder_that_cannot_be_listed(server):
    with pytest.raises(DataError, match=r"there is no .*/nothing/index\.parquet"):
        open_source(f"{server.address}/nothing")
