"""Files on other machines, read by fsspec in ranges, and asked for again after pauses

An answer has the length that was asked for, or is an error. What the bytes are, others check.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vit.errors import DataError, UsageError, first_line, install

FETCHED_AT_ONCE = 8  # requests of a process: small servers drop connections, if 50 come at the same time
EXTRAS = {"s3": "s3", "gs": "gcs"}  # kind of address -> extra with its library
_REFUSED = (401, 403)
_NO_SUCH_RANGE = 416
_VERSIONS = ("ETag", "etag", "generation", "Last-Modified", "LastModified")  # what stores say of a file's content
_PASSING = (408, 425, 429)  # answers below 500 that may change
_UNREACHABLE = {"ClientConnectorError", "ConnectionTimeoutError", "EndpointConnectionError", "ConnectTimeoutError"}

# File systems of the process that this one was forked from. They are never closed here: a fork shares the event queue
# of its parent, and closing a connection would take it out of that queue. The parent would wait for its next answer.
_OF_PARENTS: list[Any] = []


@dataclass(frozen=True)
class Patience:
    """How long far files are waited for."""

    attempts: int = 6  # number of times that a range is asked for
    first_pause: float = 0.5  # seconds before the second time; every pause is about twice the one before
    seconds: float = 30.0  # time without a byte after which an answer is given up
    connect_seconds: float = 10.0  # time that a host may take for a connection


PATIENCE = Patience()
MOST_BYTES = 2**32  # of an index: 100 million images take as much


class MissingError(DataError):
    """A file that is not there."""


class TooLargeError(DataError):
    """A file of more bytes than the limit."""


class FarFiles:
    """Files of the kind of an address. UsageError where the library for them is not installed.

    Args:
        max_bytes: most bytes of an answer. A longer one is given up while it comes.
    """

    def __init__(self, address: str, max_bytes: int = MOST_BYTES) -> None:
        self._kind, self._patience, self._max_bytes = address.partition("://")[0], PATIENCE, max_bytes
        self._opened: tuple[int, Any] | None = None  # process, and its file system: a fork needs its own
        self._reached: set[str] = set()  # hosts that have answered; others are tried twice: an address may be wrong
        self._file_system()

    def whole(self, address: str) -> bytes:
        """The content of a file; DataError as of `ranges`, or where it is larger than the limit."""
        stop = None if self._kind.startswith("http") else self._max_bytes + 1  # a server of http may know no ranges
        content = self.ranges([(address, None, stop)])[0]
        if len(content) > self._max_bytes:
            raise self._too_large(address)
        return content

    def ranges(self, wanted: Sequence[tuple[str, int | None, int | None]]) -> list[bytes]:
        """Ranges of files, fetched several at a time: (address, first byte, byte after the last) -> all these bytes.

        DataError where one is not there, is refused, or does not come.
        """
        contents: dict[int, bytes] = {}
        failed: dict[int, Exception] = {}
        for attempt in self._attempts():
            missing = [place for place in range(len(wanted)) if place not in contents]
            for place, answer in zip(missing, self._ask([wanted[place] for place in missing]), strict=True):
                if isinstance(answer, bytes):
                    contents[place] = answer
                    self._reached.add(wanted[place][0].split("/")[2])
                else:
                    self._raise_final(wanted[place][0], answer, attempt)
                    failed[place] = answer
            if len(contents) == len(wanted):
                return [contents[place] for place in range(len(wanted))]
        place = next(place for place in range(len(wanted)) if place not in contents)
        raise self._gave_up(wanted[place][0], failed[place]) from failed[place]

    def version(self, address: str) -> str:
        """A text that changes where a file changes, or "" of a server that tells none; DataError as of `ranges`."""
        failed: Exception = TimeoutError()
        for attempt in self._attempts():
            try:
                info = self._file_system().info(address)
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001  libraries of object stores raise errors of many types
                failed = error
                if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
                    failed = error.__cause__  # fsspec calls every failure of http so
                self._raise_final(address, failed, attempt)
                continue
            self._reached.add(address.split("/")[2])
            if info.get("type") == "directory":
                raise MissingError(f"there is no {address}", "check the address")
            return "\0".join(str(info[name]) for name in _VERSIONS if info.get(name) is not None)
        raise self._gave_up(address, failed)

    def _file_system(self) -> Any:
        """The file system of fsspec of this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            if self._opened is not None:
                _OF_PARENTS.append(self._opened[1])
            self._opened = os.getpid(), _open(self._kind, self._patience, self._max_bytes)
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _attempts(self) -> Iterator[int]:
        """The numbers of all attempts, with a pause before each but the first."""
        for attempt in range(self._patience.attempts):
            if attempt:
                pause = self._patience.first_pause * 2 ** (attempt - 1)
                time.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311  processes must not ask all at once
            yield attempt

    def _ask(self, wanted: Sequence[tuple[str, int | None, int | None]]) -> list[Any]:
        """What comes for each range: bytes or an exception."""
        if not wanted:
            return []
        addresses, starts, stops = map(list, zip(*wanted, strict=True))
        try:
            answers: list[Any] = self._file_system().cat_ranges(
                addresses, starts, stops, on_error="return", batch_size=FETCHED_AT_ONCE
            )
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001  libraries of object stores raise errors of many types
            return [error] * len(wanted)
        for place, ((_, start, stop), answer) in enumerate(zip(wanted, answers, strict=True)):
            if isinstance(answer, bytes) and start is not None and stop is not None and len(answer) != stop - start:
                answers[place] = OSError(f"{len(answer):,} bytes came instead of the {stop - start:,} of a range")
        return answers

    def _gave_up(self, address: str, error: Exception) -> DataError:
        return DataError(
            f"{address} cannot be read ({self._patience.attempts} attempts): {_describe(error)}",
            "check the network and the address; 'vit train --resume' continues a training",
        )

    def _raise_final(self, address: str, error: Exception, attempt: int) -> None:
        """Raise DataError where another attempt would end the same."""
        status, host = _status(error), address.split("/")[2]
        if _UNREACHABLE.isdisjoint(one.__name__ for one in type(error).__mro__):
            self._reached.add(host)
        elif attempt and host not in self._reached:
            problem = f"{address} cannot be read, because {host} cannot be reached ({_describe(error)})"
            raise DataError(problem, "check the address and the network") from error
        if isinstance(error, _LongAnswerError):
            raise self._too_large(address) from error
        if isinstance(error, FileNotFoundError) or status in (404, 410):
            raise MissingError(f"there is no {address}", "check the address") from error
        if isinstance(error, PermissionError) or status in _REFUSED or "credential" in str(error).casefold():
            problem = f"{address} is refused ({_describe(error)})"
            raise DataError(problem, "check the permissions and credentials of this machine") from error
        if status == _NO_SUCH_RANGE:
            fix = "restore the file, which is cut; or make the index again with 'vit data index'"
            raise DataError(f"{address} ends before the bytes that the index lists", fix) from error
        if isinstance(status, int) and 400 <= status < 500 and status not in _PASSING:
            raise DataError(f"{address} cannot be read ({_describe(error)})", "check the address") from error

    def _too_large(self, address: str) -> TooLargeError:
        return TooLargeError(f"{address} has more than {self._max_bytes:,} bytes", "copy it to this machine")


class _LongAnswerError(Exception):
    """An answer of more bytes than the limit."""


def _open(kind: str, patience: Patience, max_bytes: int) -> Any:
    import fsspec

    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    try:
        if kind in ("http", "https"):
            import aiohttp

            class Answer(aiohttp.ClientResponse):
                """An answer that is read up to the limit: its server may not say how long it is, or may lie."""

                async def read(self) -> bytes:
                    parts, size = [], 0
                    async for part in self.content.iter_any():
                        parts.append(part)
                        size += len(part)
                        if size > max_bytes:
                            self.close()
                            raise _LongAnswerError
                    return b"".join(parts)

            timeout = aiohttp.ClientTimeout(sock_connect=patience.connect_seconds, sock_read=patience.seconds)
            options["client_kwargs"] = {"timeout": timeout, "response_class": Answer}
        elif kind == "s3":
            waiting = {"connect_timeout": patience.connect_seconds, "read_timeout": patience.seconds}
            options["config_kwargs"] = {**waiting, "retries": {"total_max_attempts": 1}}
        files = fsspec.filesystem(kind, **options)
        if kind == "s3":
            files.retries = 1  # s3fs and botocore would each try five times, for many minutes: `FarFiles` tries again
        return files
    except ImportError as error:
        extra = EXTRAS.get(kind)
        fix = install(extra) if extra else "pip install aiohttp"
        raise UsageError(f"{kind}:// needs a library that is not installed: {first_line(error)}", fix) from error


def _status(error: Exception) -> object:
    """The status of an answer of HTTP that an error stands for; None where it tells none."""
    response = getattr(error, "response", None)  # of botocore
    code = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    return getattr(error, "status", None) or getattr(error, "code", None) or code


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {getattr(error, 'status', None) or first_line(error)}"
