"""uvicorn on a socket of ours: answers what it has when it is asked to end"""

import asyncio
import signal
import socket
from contextlib import suppress
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from vit.errors import ResourceError

MAX_CONNECTIONS = 1024  # beyond them clients get 503 at once


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        ResourceError: the port is taken, or the machine has no such address.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise ResourceError(f"cannot listen on {host}, port {port}: {error.strerror}", "give another --port") from error


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, with a limit for the time that a client takes for the head of a request."""

    class Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _is_timed = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_request()

        def data_received(self, data: bytes) -> None:
            self._expect_request()
            super().data_received(data)

        def _expect_request(self) -> None:
            if not self._is_timed and (self.cycle is None or self.cycle.response_complete):
                self._is_timed = True
                self.loop.call_later(seconds, self._close_without_request, self.cycle)

        def _close_without_request(self, last: object) -> None:
            self._is_timed = False
            if self.transport.is_closing():
                return
            if self.cycle is last:
                self.transport.close()
            else:  # a request came, and another one may have begun since
                self._expect_request()

    return Protocol


class Service:
    """An application on a socket."""

    def __init__(self, app: FastAPI, seconds: float) -> None:
        config = uvicorn.Config(
            app,
            http=_protocol(seconds),
            log_level="warning",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=int(seconds) + 1,
            server_header=False,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)

    def end(self) -> None:
        """Take no more requests, answer those that are there, and let `run` return."""
        self._server.should_exit = True

    def run(self, opened: socket.socket) -> None:
        """Serve until SIGTERM, Ctrl-C or `end`."""
        # uvicorn raises a signal again after it has ended; that the process then ends by it would look like a failure
        before = signal.signal(signal.SIGTERM, lambda number, frame: self.end())
        try:
            with suppress(KeyboardInterrupt):
                self._server.run(sockets=[opened])
        finally:
            signal.signal(signal.SIGTERM, before)
