"""Shards in an object store: moto's S3 on the loopback, behind a proxy that delays and drops."""

import http.client
import time

import pytest

from tests.data.shards.proxy import proxied
from tests.runs import run_folder
from vit.data.checks.contents import read_contents
from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.extras.s3 import far_files
from vit.extras.s3.far_files import Patience
from vit.extras.shards.packing import pack

HOW = "pip install 's3fs' 'moto[server]' to run the tests of an object store"
moto = pytest.importorskip("moto.server", reason=HOW)
boto3 = pytest.importorskip("boto3", reason=HOW)
pytest.importorskip("s3fs", reason=HOW)
pytestmark = pytest.mark.slow
NAMES = ("blue", "green", "red")
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
DATA = "s3://bucket/shards"


@pytest.fixture(scope="module")
def files(tmp_path_factory, colors):
    """{key: content} of shards of the colors."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "shards").mkdir()
    pack(open_source(str(colors)), folder / "shards", 6_000, lambda done, total: None)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}


@pytest.fixture(scope="module")
def moto_server():
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def store(moto_server, files, tmp_path, monkeypatch):
    """(proxy, client of the store without the proxy); `s3://bucket/` has the files."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    nowhere = {"AWS_CONFIG_FILE": str(tmp_path / "no"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no")}
    region = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    with proxied(moto_server) as proxy:
        cache = {"VIT_CACHE": str(tmp_path / "cache"), "AWS_ENDPOINT_URL": proxy.address}
        for name, value in (nowhere | region | KEYS | cache).items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{moto_server}")
        client.create_bucket(Bucket="bucket")
        for key, content in files.items():
            client.put_object(Bucket="bucket", Key=key, Body=content)
        monkeypatch.setattr(far_files, "PATIENCE", Patience(attempts=4, first_pause=0.01, seconds=5.0))
        yield proxy, client
        client.close()


def all_images():
    train = open_source(DATA).splits["train"]
    return [train.encoded(row) for row in range(len(train))]


def test_images_of_the_store_are_those_of_the_folder(store, colors):
    source = open_source(DATA)
    assert source.class_names == NAMES and len(source.splits["train"]) == 42
    assert sorted(read_contents(source).hashes["train"]) == sorted(
        read_contents(open_source(str(colors))).hashes["train"]
    )


def test_a_training_and_its_evaluation(store, vit, here):
    options = ("--network", "vit_nano_patch2_8", "--image_size", 8, "--model.network.depth", 1, "--wandb", "off")
    vit("train", DATA, *options, "--epochs", 2, "--batch_size", 8, "--data.num_workers", 2,
                 "--data.cache", "none", "--out", "runs").ok()  # fmt: skip
    assert vit("evaluate", run_folder(here / "runs")).code == 0


@pytest.mark.faults("L28", simulated="moto stands in for the store")
def test_missing_credentials(store, monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name)
    with pytest.raises(DataError, match=r"is refused \(.*redentials.*check the permissions and credentials"):
        open_source(DATA)


@pytest.mark.faults("L28", simulated="moto stands in for the store")
def test_keys_that_the_store_does_not_know(store, moto_server):
    def reset(count):
        connection = http.client.HTTPConnection("127.0.0.1", moto_server, timeout=20)
        connection.request("POST", "/moto-api/reset-auth", str(count), {"Content-Type": "text/plain"})
        assert connection.getresponse().status == 200
        connection.close()

    began = time.perf_counter()
    reset(0)  # from now on the store checks keys
    try:
        with pytest.raises(DataError, match="is refused"):
            open_source(DATA)
    finally:
        reset("inf")
    assert time.perf_counter() - began < 10


@pytest.mark.faults("L28", simulated="moto stands in for the store")
@pytest.mark.parametrize("data", ["s3://bucket/nothing", "s3://no-such-bucket/shards", "s3://bucket"])
def test_nothing_there(store, data):
    with pytest.raises(DataError, match="there is no s3://"):
        open_source(data)


@pytest.mark.faults("L29", simulated="moto stands in for the store")
@pytest.mark.parametrize("cached", [True, False])
def test_an_object_that_changed(store, files, monkeypatch, cached):
    """Objects that are replaced while a training reads them: of the same size, so that only the content tells."""
    monkeypatch.setenv("VIT_CACHE_GB", "20" if cached else "0")
    train, client = open_source(DATA).splits["train"], store[1]
    for key, content in files.items():
        if key.endswith("tar"):
            client.put_object(Bucket="bucket", Key=key, Body=bytes(byte ^ 1 for byte in content))
    with pytest.raises(DataError, match=r"is not the image that .* lists"):
        train.encoded(len(train) - 1)


@pytest.mark.faults("L29", simulated="moto stands in for the store")
def test_an_object_that_is_cut(store, files):
    client = store[1]
    for key, content in files.items():
        if key.endswith("tar"):
            client.put_object(Bucket="bucket", Key=key, Body=content[: len(content) // 3])
    with pytest.raises(DataError, match=r"ends before the bytes that the index lists|cannot be read"):
        all_images()


@pytest.mark.faults("S5")
@pytest.mark.parametrize("after", [0, 40, 700])
def test_dropped_connections_are_tried_again(store, after):
    """Every third answer is dropped: before its first byte, in its head, or in its body."""
    proxy = store[0]
    proxy.cut = lambda number: after if number % 3 == 0 else None
    assert all(all_images()) and proxy.dropped > 0


@pytest.mark.faults("S5")
def test_connections_that_are_always_dropped_end_in_an_error(store):
    proxy = store[0]
    train = open_source(DATA).splits["train"]
    proxy.cut = lambda number: 0
    with pytest.raises(DataError, match=r"cannot be read \(4 attempts\)"):
        train.encoded(0)


def test_a_distant_store(store):
    """20 ms an answer: the images of a batch are waited for together, and are then at hand."""
    proxy = store[0]
    train = open_source(DATA).splits["train"]
    train.encoded(0)  # opens a connection
    proxy.seconds = 0.02
    before = proxy.answers
    train.prepare(range(42))
    requests = proxy.answers - before
    assert all(train.encoded(row) for row in range(42)) and proxy.answers - before == requests > 4
    assert proxy.most_at_once >= 4
