"""`vit serve`: the rows of `vit predict` over HTTP, whatever clients send, and no answer lost at the end."""

import io
import re
import signal
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from PIL import Image

import vit.extras.serve.command as module
from tests.processes import finish, free_port, linux_only, start
from vit.data.core.image_bytes import BytesReader
from vit.inference.predictor import load
from vit.inference.rows import to_json

pytestmark = linux_only
LIMIT = 200_000  # bytes of a request
SECONDS = 6  # a client of 64 on a busy machine may take seconds to send its head
HTTP = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # httpx would read all certificates for each request
IMPATIENT = 2  # where a client never sends the rest


class Service:
    """A running `vit serve`."""

    def __init__(self, folder, model, *options):
        self.folder, self.port = folder, free_port()
        self.process = start(folder, "serve", model, "--port", self.port, "--device", "cpu", *options)
        self.address = f"http://127.0.0.1:{self.port}"
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            try:
                httpx.get(f"{self.address}/health", timeout=5, verify=HTTP)
                return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(finish(folder, self.process, 10))

    def post(self, **content):
        return httpx.post(f"{self.address}/predict", timeout=60, verify=HTTP, **content)


@pytest.fixture(scope="module")
def service(tmp_path_factory, digits_run):
    folder = tmp_path_factory.mktemp("service")
    one = Service(folder, digits_run.path, "--max_bytes", LIMIT, "--timeout_seconds", SECONDS)
    yield one
    one.process.send_signal(signal.SIGTERM)
    _, err = finish(folder, one.process, 60)
    assert one.process.returncode == 0, err


@pytest.fixture(scope="module")
def impatient(tmp_path_factory, digits_run):
    folder = tmp_path_factory.mktemp("impatient")
    one = Service(folder, digits_run.path, "--timeout_seconds", IMPATIENT)
    yield one
    one.process.send_signal(signal.SIGTERM)
    finish(folder, one.process, 60)


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("picture") / "a.png"
    Image.linear_gradient("L").resize((8, 8)).save(path)
    return path.read_bytes()


def test_the_rows_are_those_of_predict(service, digits_run, mixed):
    paths = sorted(path for path in mixed.iterdir() if path.is_file() and path.suffix == ".png")
    images = [path.read_bytes() for path in paths]
    names = [f"{number}.png" for number in range(len(paths))]
    expected = [
        to_json(row) for row in load(digits_run.best, "cpu").predict_files([str(n) for n in range(len(images))],
                                                                          reader=BytesReader(images))
    ]  # fmt: skip
    answer = service.post(files=[("images", (name, image)) for name, image in zip(names, images, strict=True)])
    assert answer.status_code == 200 and [row["path"] for row in answer.json()] == names
    statuses = set()
    for row, wanted, image in zip(answer.json(), expected, images, strict=True):
        alone = service.post(content=image)
        assert alone.status_code == {"ok": 200, "too_large": 413}.get(wanted["status"], 422)
        for found in (row, alone.json()):
            assert [one.pop("label") for one in found["top"]] == [one["label"] for one in wanted["top"]]
            got = [one["probability"] for one in found["top"]]
            assert got == pytest.approx([one["probability"] for one in wanted["top"]], abs=1e-5)
            for key in ("status", "label", "error", "engine"):
                assert found[key] == wanted[key]
        statuses.add(wanted["status"])
    assert statuses == {"ok", "unreadable", "too_large"}


@pytest.mark.faults("V1")
@pytest.mark.parametrize(
    ("body", "code", "said"),
    [(b"", 400, "there is no image"), (b"no image", 422, "not one of JPEG"), (b"\x89PNG\r\n\x1a\n", 422, "")],
)
def test_what_is_no_image(service, body, code, said):
    answer = service.post(content=body)
    assert answer.status_code == code and said in answer.json()["error"]


@pytest.mark.faults("V1")
def test_a_broken_form_and_a_form_without_files(service, picture):
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert service.post(content=picture, headers={"Content-Type": "multipart/form-data"}).status_code == 400
    assert service.post(data={"url": "file:///etc/passwd"}, files={}).status_code == 422, "an address is not an image"
    half = b'--x\r\nContent-Disposition: form-data; name="i"; filename="+2AA-.png"\r\n\r\n' + picture + b"\r\n--x--\r\n"
    for body in (b"garbage", b"--x\r\nbroken", half.removesuffix(b"--\r\n") + half[2:-50]):  # its second file is cut
        assert "the form cannot be read" in service.post(content=body, headers=kind).json()["error"]
    answer = service.post(content=half, headers={"Content-Type": "multipart/form-data; boundary=x; charset=utf-7"})
    assert answer.status_code == 200 and answer.json()[0]["path"] == "?.png"  # half a character
    odd = service.post(files=[("images", ("../../etc/passwd", b"x")), ("images", ("a.png", picture))])
    assert odd.status_code == 200 and [row["status"] for row in odd.json()] == ["not_image", "ok"]


@pytest.mark.faults("V2")
def test_a_body_that_is_too_large(service):
    told = service.post(content=bytes(LIMIT + 1))
    untold = service.post(content=(bytes(1000) for _ in range(LIMIT // 1000 + 1)))
    assert told.status_code == untold.status_code == 413 and "200,000" in told.json()["error"]


@pytest.mark.faults("V3")
@pytest.mark.slow
def test_a_body_that_is_only_half_sent(impatient, picture):
    head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(picture)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", int(impatient.port)), timeout=30) as half:
        half.sendall(head + picture[:20])
        began = time.monotonic()
        assert half.recv(4096).startswith(b"HTTP/1.1 408") and time.monotonic() - began < 4 * SECONDS
    with socket.create_connection(("127.0.0.1", int(impatient.port)), timeout=30) as gone:
        gone.sendall(head + picture[:20])
    assert impatient.post(content=picture).status_code == 200


def test_many_clients_lose_nothing(service, picture):
    bad = [b"x", picture[:30]]
    with ThreadPoolExecutor(64) as pool:
        bodies = [picture if number % 4 else bad[number % 8 // 4] for number in range(128)]
        answers = list(pool.map(lambda body: service.post(content=body), bodies))
    codes = [answer.status_code for answer in answers]
    assert codes == [200 if body is picture else 422 for body in bodies]
    assert len({answer.json()["label"] for answer in answers if answer.status_code == 200}) == 1


def test_health_metrics_interface_and_page(service, picture):
    before = counted(service)
    service.post(content=picture)
    assert httpx.get(f"{service.address}/health").json() == {"status": "ok"}
    assert counted(service) == before + 1
    paths = httpx.get(f"{service.address}/openapi.json").json()["paths"]
    assert {"/predict", "/health", "/metrics"} == set(paths) and "413" in paths["/predict"]["post"]["responses"]
    page = httpx.get(service.address).text
    assert 'action="/predict"' in page and not re.findall(r'(?:src|href)="https?:', page)


def counted(service, name='vit_images_total{status="ok"}'):
    text = httpx.get(f"{service.address}/metrics", timeout=30).text
    return float(re.search("^" + re.escape(name) + r" (\S+)", text, re.MULTILINE)[1])


@pytest.mark.faults("V4")
@pytest.mark.slow
def test_a_service_that_is_asked_to_end_answers_what_it_has(tmp_path, digits_run):
    one = Service(tmp_path, digits_run.path)
    file = io.BytesIO()
    Image.linear_gradient("L").resize((2000, 2000)).save(file, "PNG")
    files = [("images", (f"{number}.png", file.getvalue())) for number in range(8)]  # a second of decoding
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(one.post(files=files))) for _ in range(7)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 30
    while counted(one, "vit_waiting_requests") < 7 and time.monotonic() < until:
        time.sleep(0.05)
    assert counted(one, "vit_waiting_requests") > 0
    one.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join(60)
    _, err = finish(tmp_path, one.process, 60)
    assert one.process.returncode == 0 and "Traceback" not in err
    assert [answer.status_code for answer in answers] == [200] * 7


@pytest.mark.faults("V5")
def test_a_taken_port_and_a_missing_library(vit, digits_run, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        vit("serve", digits_run.path, "--port", port).failed(7, f"cannot listen on 127.0.0.1, port {port}", "--port")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    vit("serve", digits_run.path).failed(2, "[serve]")
    for command in ("serve", "demo"):
        vit(command, digits_run.path, "--port", 65536).failed(2, "--port is 65536")


def hostile(side=7990):
    """A few bytes that become 64 million pixels."""
    made = io.BytesIO()
    Image.new("RGB", (side, side), (200, 10, 10)).save(made, "WEBP", lossless=True, quality=0, method=0)
    return made.getvalue()


@pytest.mark.faults("V8")
@pytest.mark.slow
def test_a_few_bytes_do_not_become_a_gigabyte(service, picture):
    bomb = hostile()
    assert len(bomb) < 100
    began = time.monotonic()
    answers = service.post(files=[("images", ("b.webp", bomb))] * 40 + [("images", ("a.png", picture))])
    assert time.monotonic() - began < SECONDS and answers.status_code == 200
    assert [row["status"] for row in answers.json()] == ["too_large"] * 40 + ["ok"]
    assert "63,840,100 pixels in" in answers.json()[0]["error"]
    assert service.post(content=bomb).status_code == 413
    answers = service.post(files=[("images", ("b.webp", bomb + bytes(1000)))] * 40)
    assert answers.status_code == 413 and "200 a byte are taken" in answers.json()[0]["error"]
    longer = hostile(3990) + bytes(1000)  # 16 million pixels, and more bytes than an image of one color needs
    several = service.post(files=[("images", ("b.webp", longer))] * 20)
    assert several.status_code == 413 and "200,000,000 pixels together" in several.json()["error"]


@pytest.mark.faults("V9")
def test_connections_without_a_request_are_closed(impatient, picture):
    heads = (b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
    opened = [socket.create_connection(("127.0.0.1", int(impatient.port)), timeout=30) for _ in heads]
    after = socket.create_connection(("127.0.0.1", int(impatient.port)), timeout=30)
    after.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert after.recv(4096).startswith(b"HTTP/1.1 200")
    after.sendall(b"GET /hea")  # a second request that never ends
    for one, head in zip(opened, heads, strict=True):
        one.sendall(head)
    for one in (*opened, after):
        with one:
            began = time.monotonic()
            while one.recv(4096):  # the rest of an answer
                pass
            assert time.monotonic() - began < 4 * SECONDS
    assert impatient.post(content=picture).status_code == 200


@pytest.mark.faults("V10")
@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("", 400),
        ("localhost:99", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
    ],
)
def test_a_page_with_a_name_of_its_own_cannot_use_the_service(service, picture, host, code):
    answer = service.post(content=picture, headers={"Host": host, "Origin": f"http://{host}"})
    assert answer.status_code == code and "access-control-allow-origin" not in answer.headers
