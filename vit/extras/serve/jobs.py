"""Requests become rows: their bodies are read and their pixels counted within limits, then decoded, then computed

Threads decode for all requests, and one thread computes. A request takes turns, each for a portion of its images, so
that one with many images does not hold the others.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from vit.data.core.image_bytes import BytesReader, ImageError
from vit.data.core.image_header import num_pixels
from vit.data.loading.threads import available_cores, decoding_pool
from vit.inference.prediction import Prediction, read_input
from vit.inference.predictor import BATCH_SIZE, Input, Predictor

MAX_IMAGES = 1000  # of a request
MAX_WAITING_BYTES = 2**30  # of all requests together
MAX_WAITING_PIXELS = 600_000_000  # of all requests together
MAX_PIXELS_OF_REQUEST = 200_000_000  # before anything is decoded: 200 MB of memory need as little as 100 bytes
SPARSE_PIXELS, SPARSE = 16_000_000, 200  # an image of more pixels must have a byte for 200 of them: photographs have
_NAME = 255  # characters of a name that come back

Upload = tuple[str, bytes | ImageError]  # name as the client gave it, only shown; bytes, or why they are not decoded


class Jobs:
    """Answers requests, in one event loop. Nothing more is decoded or computed for one that is cancelled.

    Args:
        top_k: number of classes in a row.
        max_waiting: number of requests that may wait.
        on_failure: called when the model has failed.

    Attributes:
        failure: error of the model, after which nothing is computed.
        num_waiting: number of requests whose images are decoded or computed.
    """

    def __init__(self, predictor: Predictor, top_k: int, max_waiting: int, on_failure: Callable[[], object]) -> None:
        self._predictor, self._top_k = predictor, top_k
        self._max_waiting, self._on_failure = max_waiting, on_failure
        self.failure: Exception | None = None
        self.num_waiting = self._num_bytes = self._num_pixels = 0
        self._decoders, self._network = decoding_pool(), ThreadPoolExecutor(1, "predictions")

    async def answer(self, request: Request, max_bytes: int, seconds: float) -> tuple[list[Prediction], bool]:
        """(the rows of a request, whether it was a form).

        HTTPException: 400 no image, a broken form, or the client has gone; 408 the body takes more than `seconds`; 413
        it or its pixels are too large; 503 too many requests, bytes or pixels wait; 504 the rows take more than
        `seconds`. Any other error is one of the model.
        """
        body = bytearray()
        try:
            await self._receive(body, request, max_bytes, seconds)
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            is_form = kind == "multipart/form-data"
            files = await _of_form(request, bytes(body)) if is_form else [("image", bytes(body))]
            if not files or not body:
                raise HTTPException(400, "there is no image: send its bytes as the body, or a form with files")
            uploads, pixels = await asyncio.to_thread(count_pixels, files)
            rows, left = asyncio.ensure_future(self.rows(uploads, pixels)), asyncio.ensure_future(_gone(request))
            try:
                await asyncio.wait((rows, left), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if rows.done():
                    return rows.result(), is_form
            finally:
                rows.cancel()
                left.cancel()
            why = (400, "the client has gone") if left.done() else (504, f"no answer within {seconds:g} s")
            raise HTTPException(*why)
        finally:
            self._num_bytes -= len(body)

    async def _receive(self, body: bytearray, request: Request, max_bytes: int, seconds: float) -> None:
        """Put the bytes of a request into its body."""
        try:
            async with asyncio.timeout(seconds):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > max_bytes:
                        raise HTTPException(413, f"more than {max_bytes:,} bytes")
                    if self._num_bytes + len(chunk) > MAX_WAITING_BYTES:
                        raise _come_again()
                    self._num_bytes += len(chunk)
                    body += chunk
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {seconds:g} s", {"Connection": "close"}) from None
        except ClientDisconnect:
            raise HTTPException(400, "the client has gone") from None

    async def rows(self, uploads: list[Upload], pixels: int = 0) -> list[Prediction]:
        """The rows of images that have so many pixels together. HTTPException 503: too many requests or pixels wait."""
        too_large = self._num_pixels > 0 and self._num_pixels + pixels > MAX_WAITING_PIXELS
        if too_large or self.num_waiting >= self._max_waiting:
            raise _come_again()
        self.num_waiting += 1
        self._num_pixels += pixels
        loop, turn, rows = asyncio.get_running_loop(), asyncio.Semaphore(available_cores()), list[Prediction]()

        async def decode(upload: Upload) -> Input:
            async with turn:  # so that the decoders' queue has few images of each request
                return await loop.run_in_executor(self._decoders, self._decode, upload)

        try:
            for start in range(0, len(uploads), BATCH_SIZE):
                inputs = await asyncio.gather(*map(decode, uploads[start : start + BATCH_SIZE]))
                rows += await loop.run_in_executor(self._network, self._compute, inputs)
            return rows
        finally:
            self.num_waiting -= 1
            self._num_pixels -= pixels

    def _decode(self, upload: Upload) -> Input:
        name, data = upload
        if isinstance(data, ImageError):
            return name, data
        return name, read_input("0", self._predictor.preprocess, "", BytesReader([data]))

    def _compute(self, inputs: list[Input]) -> list[Prediction]:
        if self.failure is not None:
            raise self.failure
        try:
            return self._predictor.predict_inputs(inputs, self._top_k)
        except Exception as error:
            self.failure = error
            self._on_failure()
            raise

    def close(self) -> None:
        """End the threads."""
        self._decoders.shutdown()
        self._network.shutdown()


def count_pixels(uploads: list[tuple[str, bytes]]) -> tuple[list[Upload], int]:
    """(images, or why one is not decoded; the pixels of all by their headers). HTTPException 413: too many."""
    checked, total = list[Upload](), 0
    for name, data in uploads:
        pixels = num_pixels(data)
        if pixels > SPARSE_PIXELS and pixels > SPARSE * len(data):
            limit = f"above {SPARSE_PIXELS:,} pixels, {SPARSE} a byte are taken"
            problem = f"{pixels:,} pixels in {len(data):,} bytes; {limit}"
            checked.append((name, ImageError(name, "too_large", problem)))
            continue
        checked.append((name, data))
        total += pixels
        if total > MAX_PIXELS_OF_REQUEST:
            problem = f"the images have more than {MAX_PIXELS_OF_REQUEST:,} pixels together; send fewer at a time"
            raise HTTPException(413, problem)
    return checked, total


async def _of_form(request: Request, body: bytes) -> list[tuple[str, bytes]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser, end = MultiPartParser(request.headers, stream(), max_files=MAX_IMAGES, max_fields=10), asyncio.Event()
    parser.on_end = end.set  # type: ignore[method-assign]  # at the last boundary: before it, files may be missing
    try:
        form = await parser.parse()
        if not end.is_set():
            raise MultiPartException("it is cut")
    except (MultiPartException, KeyError, ValueError, AssertionError) as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    files = []
    for _, value in form.multi_items():
        if isinstance(value, UploadFile):
            name = (value.filename or "image").encode("utf-8", "replace")  # its charset may make half a character
            files.append((name.decode("utf-8")[:_NAME], await value.read()))
    await form.close()
    return files


async def _gone(request: Request) -> None:
    """Return when the client has closed its connection. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _come_again() -> HTTPException:
    return HTTPException(503, "too many requests, bytes or pixels wait", {"Retry-After": "1"})
