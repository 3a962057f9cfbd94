"""Images of several requests as one batch: threads that decode in turn for all, and one thread that computes"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vit.data.image_bytes import BytesReader, ImageError
from vit.data.threads import available_cores, take_one_thread
from vit.inference.prediction import Prediction, read_input
from vit.inference.predictor import Predictor

MAX_WAITING_PIXELS = 600_000_000  # of all requests whose images are not decoded yet


class FullError(Exception):
    """The queue has no room: the client should come again."""


@dataclass(eq=False)
class _Job:
    """The images of one request.

    Attributes:
        names: name of each image, for its row.
        images: bytes of each image, or the reason why it is not decoded.
        pixels: number of pixels of all images, by their headers.
        answer: gets the rows, or the error that ended the thread.
        inputs: what is decoded, by place.
        num_begun: number of images whose decoding has begun.
    """

    names: Sequence[str]
    images: Sequence[bytes | ImageError]
    pixels: int
    answer: "Future[list[Prediction]]" = field(default_factory=Future)
    inputs: dict[int, Tensor | ImageError] = field(default_factory=dict)
    num_begun: int = 0

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless the client is gone."""
        if not self.answer.done() and (self.answer.running() or self.answer.set_running_or_notify_cancel()):
            self.answer.set_exception(error)


class Batcher:
    """Computes the images of requests, several requests at a time.

    Requests take turns with every image that is decoded, so that one with many large images does not hold the others.
    A request whose answer is cancelled decodes nothing more.

    Args:
        predictor: the model.
        top_k: number of classes in a row.
        max_batch: number of images after which a batch waits for no more.
        window: seconds that the first request of a batch waits for others.
        max_waiting: number of requests that may wait.
        on_failure: called in the thread where it ends by an error, after all who wait have got that error.
    """

    def __init__(
        self,
        predictor: Predictor,
        top_k: int,
        max_batch: int,
        window: float,
        max_waiting: int,
        on_failure: Callable[[], object],
    ) -> None:
        self._predictor, self._top_k = predictor, top_k
        self._max_batch, self._window, self._on_failure = max_batch, window, on_failure
        self._max_waiting, self._is_ending = max_waiting, False
        self._changed = threading.Condition()  # guards the next three and what is in their jobs
        self._turns: deque[_Job] = deque()
        self._waiting: set[_Job] = set()
        self._undecoded: set[_Job] = set()
        self._decoded: queue.Queue[_Job | None] = queue.Queue()
        self.failure: Exception | None = None
        num_threads, started = torch.get_num_threads(), threading.Barrier(available_cores() + 1)
        self._decoders = [
            threading.Thread(target=self._decode, args=(started,), name="decode", daemon=True)
            for _ in range(available_cores())
        ]
        for thread in self._decoders:
            thread.start()
        started.wait()
        torch.set_num_threads(num_threads)  # as `decode_threads`
        self._thread = threading.Thread(target=self._work, name="predictions", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._waiting)

    def submit(
        self, names: Sequence[str], images: Sequence[bytes | ImageError], pixels: int = 0
    ) -> "Future[list[Prediction]]":
        """The rows of some images, when they are computed. A cancelled answer is not computed.

        Args:
            names: name of each image.
            images: bytes of each, or the reason why it is not decoded.
            pixels: number of pixels of all images, by their headers.

        Raises:
            FullError: too many requests or pixels wait.
        """
        job = _Job(names, images, pixels)
        if self.failure is not None:
            job.answer.set_exception(self.failure)
            return job.answer
        with self._changed:
            held = sum(other.pixels for other in self._undecoded)
            if len(self._waiting) >= self._max_waiting or (held and held + pixels > MAX_WAITING_PIXELS):
                raise FullError
            self._waiting.add(job)
            self._undecoded.add(job)
            self._turns.append(job)
            self._changed.notify()
        job.answer.add_done_callback(lambda _: self._leave(job))
        return job.answer

    def close(self) -> None:
        """End the threads after what waits is computed."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        for thread in self._decoders:
            thread.join()
        self._decoded.put(None)
        self._thread.join()

    def _leave(self, job: _Job) -> None:
        with self._changed:
            self._waiting.discard(job)
            self._undecoded.discard(job)

    def _decode(self, started: threading.Barrier) -> None:
        take_one_thread()
        started.wait()
        preprocess = self._predictor.preprocess
        while (turn := self._next_image()) is not None:
            job, place = turn
            image = job.images[place]
            try:
                found = (
                    image if isinstance(image, ImageError) else read_input("0", preprocess, "", BytesReader([image]))
                )
            except Exception as error:  # noqa: BLE001  of one request: the others go on
                job.fail(error)
                continue
            with self._changed:
                job.inputs[place] = found
                if len(job.inputs) == len(job.images):
                    self._undecoded.discard(job)
                    self._decoded.put(job)

    def _next_image(self) -> tuple[_Job, int] | None:
        """(a request, the place of its next image), one request after the other; None at the end."""
        with self._changed:
            while True:
                while self._turns:
                    job = self._turns.popleft()
                    if job.answer.done():
                        continue
                    job.num_begun += 1
                    if job.num_begun < len(job.images):
                        self._turns.append(job)
                        self._changed.notify()
                    return job, job.num_begun - 1
                if self._is_ending:
                    return None
                self._changed.wait()

    def _work(self) -> None:
        jobs: list[_Job] = []
        try:
            while jobs := self._next():
                self._compute(jobs)
        except Exception as error:  # noqa: BLE001  whoever waits must get it
            self.failure = error
            for job in (*jobs, *self._waiting):
                job.fail(error)
            self._on_failure()

    def _next(self) -> list[_Job]:
        """The requests of the next batch; none at the end."""
        first = self._decoded.get()
        if first is None:
            return []
        jobs, count, until = [first], len(first.images), time.monotonic() + self._window
        while count < self._max_batch:
            try:
                job = self._decoded.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if job is None:
                self._decoded.put(None)  # the end, for the next call
                break
            jobs.append(job)
            count += len(job.images)
        return jobs

    def _compute(self, jobs: Sequence[_Job]) -> None:
        wanted = [job for job in jobs if job.answer.set_running_or_notify_cancel()]
        for job in wanted:
            self._leave(job)
        inputs = [(name, job.inputs[place]) for job in wanted for place, name in enumerate(job.names)]
        rows = self._predictor.predict_inputs(inputs, self._top_k) if inputs else []
        for job in wanted:
            job.answer.set_result(rows[: len(job.images)])
            rows = rows[len(job.images) :]
