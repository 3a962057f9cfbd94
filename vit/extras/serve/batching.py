"""The body of a request becomes images, within limits; and images of several requests become rows together

Threads decode in turn for all requests, and one thread computes what is decoded. What is decoded while the network
computes is the next batch, so that no request waits for others to come.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

import torch
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from torch import Tensor

from vit.data.core.image_bytes import BytesReader, ImageError
from vit.data.core.image_header import num_pixels
from vit.data.loading.threads import available_cores, take_one_thread
from vit.inference.prediction import Prediction, read_input
from vit.inference.predictor import Predictor

MAX_IMAGES = 1000  # of a request
MAX_WAITING_BYTES = 2**30  # of all requests together
MAX_WAITING_PIXELS = 600_000_000  # of all requests whose images are not decoded yet
MAX_PIXELS_OF_REQUEST = 200_000_000  # before anything is decoded: 200 MB of memory need as little as 100 bytes
SPARSE_PIXELS, SPARSE = 16_000_000, 200  # an image of more pixels must have a byte for 200 of them: photographs have
_NAME = 255  # characters of a name that come back

Inputs = list[tuple[str, Tensor | ImageError]]
Job = tuple[Inputs, asyncio.Future[list[Prediction]]]  # the decoded images of a request, and who waits for their rows


@dataclass(frozen=True)
class Upload:
    """The images of a request."""

    names: list[str]  # name of each image as the client gave it; only shown, never opened
    images: list[bytes]  # bytes of each
    is_form: bool  # whether they came as a form, which gets a list of rows


@asynccontextmanager
async def uploaded(request: Request, held: Counter[str], max_bytes: int, seconds: float) -> AsyncIterator[Upload]:
    """The images of a request. Until it is answered, `held` counts its "bytes" among those of all requests.

    HTTPException: 400 no image or a broken form, 408 the body does not come in time, 413 too large, 503 too many bytes
    wait.
    """
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > max_bytes:
        raise HTTPException(413, f"{int(length):,} bytes; the limit is {max_bytes:,}")
    body = bytearray()
    try:
        try:
            async with asyncio.timeout(seconds):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > max_bytes:
                        raise HTTPException(413, f"more than {max_bytes:,} bytes")
                    if held["bytes"] + len(chunk) > MAX_WAITING_BYTES:
                        raise HTTPException(503, "too many bytes wait", {"Retry-After": "1"})
                    held["bytes"] += len(chunk)
                    body += chunk
            names, images, is_form = ["image"], [bytes(body)], False
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "multipart/form-data":
                (names, images), is_form = await _of_form(request, bytes(body)), True
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {seconds:g} s", {"Connection": "close"}) from None
        except ClientDisconnect:
            raise HTTPException(400, "the client has gone") from None
        if not images or not body:
            raise HTTPException(400, "there is no image: send its bytes as the body, or a form with files")
        yield Upload(names, images, is_form)
    finally:
        held["bytes"] -= len(body)


async def _of_form(request: Request, body: bytes) -> tuple[list[str], list[bytes]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        form = await MultiPartParser(request.headers, stream(), max_files=MAX_IMAGES, max_fields=10).parse()
    except (MultiPartException, KeyError, ValueError, AssertionError) as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    names, images = [], []
    try:
        for _, value in form.multi_items():
            if isinstance(value, UploadFile):
                name = (value.filename or "image").encode("utf-8", "replace")  # its charset may make half a character
                names.append(name.decode("utf-8")[:_NAME])
                images.append(await value.read())
    finally:
        await form.close()
    return names, images


def count_pixels(upload: Upload) -> tuple[list[bytes | ImageError], int]:
    """(images to decode, or why one is not; the pixels of all by their headers). HTTPException 413: too many."""
    images: list[bytes | ImageError] = []
    total = 0
    for name, data in zip(upload.names, upload.images, strict=True):
        pixels = num_pixels(data)
        if pixels > SPARSE_PIXELS and pixels > SPARSE * len(data):
            limit = f"above {SPARSE_PIXELS:,} pixels, {SPARSE} a byte are taken"
            images.append(ImageError(name, "too_large", f"{pixels:,} pixels in {len(data):,} bytes; {limit}"))
            continue
        total += pixels
        if total > MAX_PIXELS_OF_REQUEST:
            problem = f"the images have more than {MAX_PIXELS_OF_REQUEST:,} pixels together; send fewer at a time"
            raise HTTPException(413, problem)
        images.append(data)
    return images, total


async def gone(request: Request) -> None:
    """Return when the client has closed its connection. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class FullError(Exception):
    """Too many requests or pixels wait: the client should come again."""


class Batcher:
    """Computes the images of requests, several requests at a time. Its methods run in one event loop.

    A request has at most one image for each core in the decoders' queue, so that one with many large images does not
    hold the others. A request that is cancelled decodes nothing more.

    Args:
        top_k: number of classes in a row.
        max_batch: number of images from which on no further request joins a batch.
        max_waiting: number of requests that may wait.
        on_failure: called when the model has failed, after all who wait have got that error.

    Attributes:
        failure: error of the model, after which nothing is computed.
        num_waiting: number of requests without an answer.
    """

    def __init__(
        self, predictor: Predictor, top_k: int, max_batch: int, max_waiting: int, on_failure: Callable[[], object]
    ) -> None:
        self._predictor, self._top_k, self._max_batch = predictor, top_k, max_batch
        self._max_waiting, self._on_failure = max_waiting, on_failure
        self.failure: Exception | None = None
        self.num_waiting = self._undecoded_pixels = 0
        self._decoded: deque[Job] = deque()
        self._computing: asyncio.Task[None] | None = None
        self._cores, num_threads = available_cores(), torch.get_num_threads()
        self._decoders = ThreadPoolExecutor(self._cores, "decode", take_one_thread)
        all_started = threading.Barrier(self._cores)
        list(self._decoders.map(lambda _: all_started.wait(), range(self._cores)))
        torch.set_num_threads(num_threads)  # as `decode_threads`
        self._network = ThreadPoolExecutor(1, "predictions")

    async def rows(
        self, names: Sequence[str], images: Sequence[bytes | ImageError], pixels: int = 0
    ) -> list[Prediction]:
        """The rows of the images of a request. FullError: too many requests or pixels wait.

        Args:
            images: bytes of each, or the reason why it is not decoded.
            pixels: number of pixels of all images, by their headers.
        """
        held = self._undecoded_pixels
        if self.num_waiting >= self._max_waiting or (held and held + pixels > MAX_WAITING_PIXELS):
            raise FullError
        self.num_waiting += 1
        self._undecoded_pixels += pixels
        try:
            try:
                inputs = await self._decode(images)
            finally:
                self._undecoded_pixels -= pixels
            return await self._compute(list(zip(names, inputs, strict=True)))
        finally:
            self.num_waiting -= 1

    def close(self) -> None:
        """End the threads."""
        self._decoders.shutdown()
        self._network.shutdown()

    async def _decode(self, images: Sequence[bytes | ImageError]) -> list[Tensor | ImageError]:
        loop, turn = asyncio.get_running_loop(), asyncio.Semaphore(self._cores)

        def read(image: bytes) -> Tensor | ImageError:
            return read_input("0", self._predictor.preprocess, "", BytesReader([image]))

        async def decode(image: bytes | ImageError) -> Tensor | ImageError:
            if isinstance(image, ImageError):
                return image
            async with turn:
                return await loop.run_in_executor(self._decoders, read, image)

        return await asyncio.gather(*map(decode, images))

    async def _compute(self, inputs: Inputs) -> list[Prediction]:
        if self.failure is not None:
            raise self.failure
        answer: asyncio.Future[list[Prediction]] = asyncio.get_running_loop().create_future()
        self._decoded.append((inputs, answer))
        if self._computing is None:
            self._computing = asyncio.create_task(self._compute_batches())
        return await answer

    async def _compute_batches(self) -> None:
        """Compute until nothing is decoded."""
        jobs: list[Job] = []
        try:
            while jobs := self._next_jobs():
                inputs = [one for inputs, _ in jobs for one in inputs]
                predict = self._predictor.predict_inputs
                rows = await asyncio.get_running_loop().run_in_executor(self._network, predict, inputs, self._top_k)
                for inputs, answer in jobs:
                    if not answer.done():
                        answer.set_result(rows[: len(inputs)])
                    rows = rows[len(inputs) :]
        except Exception as error:  # noqa: BLE001  whoever waits must get it
            self.failure = error
            for _, answer in (*jobs, *self._decoded):
                if not answer.done():
                    answer.set_exception(error)
            self._on_failure()
        finally:
            self._computing = None

    def _next_jobs(self) -> list[Job]:
        """The requests of the next batch, without those that are cancelled."""
        jobs: list[Job] = []
        while self._decoded and sum(len(inputs) for inputs, _ in jobs) < self._max_batch:
            job = self._decoded.popleft()
            if not job[1].done():
                jobs.append(job)
        return jobs
