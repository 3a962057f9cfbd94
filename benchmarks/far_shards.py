"""Images of shards on a server with a delay, beside the same shards on the disk: decoded images per second.

    python benchmarks/far_shards.py FOLDER_OF_IMAGES [milliseconds]

The server is a process of this machine, which waits before every answer (20 ms by default). Near and far take turns,
and each pair gives a ratio: other work on the machine slows both. The cache is empty before each far turn.
"""

import multiprocessing
import os
import sys
import tempfile
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from vit.data.dataset import ImageDataset
from vit.data.epoch_order import ImageOrder
from vit.data.loader import batch_loader
from vit.data.module import train_order
from vit.data.preprocess import Preprocess
from vit.data.sampler import TrainSampler
from vit.data.sources import open_source
from vit.extras.shards.packing import pack

PAIRS, BATCH_SIZE, WORKERS = 5, 64, 2


class Listening(ThreadingHTTPServer):
    """A server that many may connect to at the same time."""

    request_queue_size = 128


class Delayed(SimpleHTTPRequestHandler):
    """Files and ranges of files, after a delay."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: object, seconds: float, **options: object) -> None:
        self.seconds = seconds
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Answer with a file or a range of it."""
        time.sleep(self.seconds)
        file = Path(self.translate_path(self.path))
        wanted = self.headers.get("Range", "")
        first, last = (int(part) for part in wanted[6:].split("-")) if wanted else (0, file.stat().st_size - 1)
        with open(file, "rb") as opened:
            opened.seek(first)
            data = opened.read(last + 1 - first)
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(folder: str, seconds: float, answer: Connection) -> None:
    """Serve a folder until the process ends; the port goes to `answer`."""
    server = Listening(("127.0.0.1", 0), partial(Delayed, directory=folder, seconds=seconds))
    answer.send(server.server_port)
    server.serve_forever()


def images_per_second(data: str) -> float:
    """One epoch of decoded batches."""
    samples = open_source(data).splits["train"]
    dataset = ImageDataset(samples, Preprocess(image_size=224), None, seed=0, in_memory=False)
    order: ImageOrder = train_order(samples, 0, BATCH_SIZE, "natural")
    sampler = TrainSampler(order, BATCH_SIZE)
    began, done = time.perf_counter(), 0
    for batch in batch_loader(dataset, sampler, WORKERS, keep_workers=False):
        done += len(batch.image)
    assert not dataset.unreadable
    return done / (time.perf_counter() - began)


def main() -> None:
    """Print the ratio of each pair and their median."""
    milliseconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    with tempfile.TemporaryDirectory() as folder:
        shards = Path(folder) / "shards"
        shards.mkdir()
        pack(open_source(sys.argv[1]), shards, 8_000_000, lambda done, total: None)
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(folder, milliseconds / 1000, theirs), daemon=True
        )
        server.start()
        address = f"http://127.0.0.1:{ours.recv()}/shards"
        ratios = []
        for pair in range(PAIRS):
            os.environ["VIT_CACHE"] = str(Path(folder) / f"cache{pair}")
            near, far = images_per_second(str(shards)), images_per_second(address)
            ratios.append(far / near)
            print(f"near {near:.0f}, far {far:.0f} images/s: {ratios[-1]:.3f}", flush=True)
        server.terminate()
    print(f"median ratio {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {PAIRS} pairs)")


if __name__ == "__main__":
    main()
