"""Images of several requests as one batch: a bounded queue, and one thread that computes"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from vit.data.image_bytes import BytesReader
from vit.inference.prediction import Prediction
from vit.inference.predictor import Predictor


class FullError(Exception):
    """The queue has no room: the client should come again."""


@dataclass
class _Job:
    """The images of one request.

    Attributes:
        names: name of each image, for its row.
        images: bytes of each image.
        answer: gets the rows, or the error that ended the thread.
    """

    names: Sequence[str]
    images: Sequence[bytes]
    answer: "Future[list[Prediction]]" = field(default_factory=Future)


class Batcher:
    """Computes the images of requests in the order of their arrival, several requests at a time.

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
        self._waiting: queue.Queue[_Job | None] = queue.Queue(max_waiting)
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="predictions", daemon=True)
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Number of requests that wait."""
        return self._waiting.qsize()

    def submit(self, names: Sequence[str], images: Sequence[bytes]) -> "Future[list[Prediction]]":
        """The rows of some images, when they are computed. A cancelled answer is not computed.

        Raises:
            FullError: too many requests wait.
        """
        job = _Job(names, images)
        if self.failure is not None:
            job.answer.set_exception(self.failure)
            return job.answer
        try:
            self._waiting.put_nowait(job)
        except queue.Full:
            raise FullError from None
        return job.answer

    def close(self) -> None:
        """End the thread after what waits is computed."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        jobs: list[_Job] = []
        try:
            while jobs := self._next():
                self._compute(jobs)
        except Exception as error:  # noqa: BLE001  whoever waits must get it
            self.failure = error
            while not self._waiting.empty():
                job = self._waiting.get()
                jobs += [] if job is None else [job]
            for job in jobs:
                if not job.answer.done():
                    job.answer.set_exception(error)
            self._on_failure()

    def _next(self) -> list[_Job]:
        """The requests of the next batch; none at the end."""
        first = self._waiting.get()
        if first is None:
            return []
        jobs, count, until = [first], len(first.images), time.monotonic() + self._window
        while count < self._max_batch:
            try:
                job = self._waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if job is None:
                self._waiting.put(None)  # the end, for the next call
                break
            jobs.append(job)
            count += len(job.images)
        return jobs

    def _compute(self, jobs: Sequence[_Job]) -> None:
        wanted = [job for job in jobs if job.answer.set_running_or_notify_cancel()]
        reader = BytesReader([image for job in wanted for image in job.images])
        keys = [str(number) for number in range(len(reader))]
        found = list(self._predictor.predict_files(keys, self._top_k, self._max_batch, reader))
        for job in wanted:
            own, found = found[: len(job.images)], found[len(job.images) :]
            job.answer.set_result([replace(row, path=name) for row, name in zip(own, job.names, strict=True)])
