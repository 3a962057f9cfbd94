"""Images of several requests: threads decode in turn for all of them, and one thread computes what is decoded

What is decoded while the network computes is the next batch, so that no request waits for others to come.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from vit.data.core.image_bytes import BytesReader, ImageError
from vit.data.loading.threads import available_cores, take_one_thread
from vit.inference.prediction import Prediction, read_input
from vit.inference.predictor import Predictor

MAX_WAITING_PIXELS = 600_000_000  # of all requests whose images are not decoded yet
Inputs = list[tuple[str, Tensor | ImageError]]
Job = tuple[Inputs, asyncio.Future[list[Prediction]]]  # the decoded images of a request, and who waits for their rows


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
        """The rows of the images of a request.

        Args:
            images: bytes of each, or the reason why it is not decoded.
            pixels: number of pixels of all images, by their headers.

        Raises:
            FullError: too many requests or pixels wait.
            Exception: the error of the model.
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
