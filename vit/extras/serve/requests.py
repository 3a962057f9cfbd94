"""The body of a request becomes images: within limits of size and time, whoever sends it"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from vit.data.core.image_bytes import ImageError
from vit.data.core.image_header import num_pixels

MAX_IMAGES = 1000  # of a request
MAX_WAITING_BYTES = 2**30  # of all requests together
MAX_PIXELS_OF_REQUEST = 200_000_000  # before anything is decoded: 200 MB of memory need as little as 100 bytes
SPARSE_PIXELS, SPARSE = 16_000_000, 200  # an image of more pixels must have a byte for 200 of them: photographs have
_NAME = 255  # characters of a name that come back


@dataclass
class UploadBudget:
    """The bytes of all requests that are in memory now."""

    bytes: int = 0


@dataclass(frozen=True)
class Upload:
    """The images of a request."""

    names: list[str]  # name of each image as the client gave it; only shown, never opened
    images: list[bytes]  # bytes of each
    is_form: bool  # whether they came as a form, which gets a list of rows


@asynccontextmanager
async def uploaded(request: Request, budget: UploadBudget, max_bytes: int, seconds: float) -> AsyncIterator[Upload]:
    """The images of a request, whose bytes count in the budget until it is answered.

    Raises:
        HTTPException: 400 no image or a broken form, 408 the body does not come in time, 411 or 413 too large, 503
            too many bytes wait.
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
                    if budget.bytes + len(chunk) > MAX_WAITING_BYTES:
                        raise HTTPException(503, "too many bytes wait", {"Retry-After": "1"})
                    budget.bytes += len(chunk)
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
        budget.bytes -= len(body)


async def _of_form(request: Request, body: bytes) -> tuple[list[str], list[bytes]]:
    """Names and contents of the files of a form."""

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
    """(images to decode, or the reason why one is not, the pixels of all by their headers).

    Raises:
        HTTPException: 413 they have too many pixels together.
    """
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
