"""The HTTP interface of a model: /predict, /health, /metrics, /openapi.json and a form

FastAPI and uvicorn, and not LitServe 0.2: its queue has no bound, a request whose worker dies waits without end, and a
server that is asked to end loses answers.
"""

import asyncio
import collections
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from vit.errors import ResourceError
from vit.extras.serve.batching import Batcher, FullError, Upload, count_pixels, gone, uploaded
from vit.inference.prediction import Prediction
from vit.inference.rows import to_json

MAX_CONNECTIONS = 1024  # beyond them clients get 503 at once
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>vit serve</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; form-action 'self'"></head><body><main>
<h1>vit serve</h1><form method="post" action="/predict" enctype="multipart/form-data">
<label>Images <input type="file" name="images" multiple required></label> <button>Label them</button></form>
<p><a href="/openapi.json">interface</a>, <a href="/health">health</a>, <a href="/metrics">metrics</a></p>
</main></body></html>"""
_BODY = {
    "required": True,
    "content": {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"images": {"type": "array", "items": {"type": "string", "format": "binary"}}},
            }
        },
    },
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "a row as 'vit predict' writes it; for a form a list of rows"},
    400: {"description": "no image, a broken form, or a Host header that does not name this service"},
    408: {"description": "the body did not come in time"},
    413: {"description": "the body, an image or all images together are too large"},
    422: {"description": "no image could be read; the rows name the reasons"},
    503: {"description": "too many requests or pixels wait, or the model has failed"},
    504: {"description": "no answer in time"},
}


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens. ResourceError where the port is taken, or the machine has no such address."""
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


def create_app(batcher: Batcher, max_bytes: int, seconds: float, hosts: Sequence[str] = ("*",)) -> FastAPI:
    """The application of a model.

    Args:
        batcher: computes what clients send.
        max_bytes: most bytes of a request.
        seconds: time that a body may take, and then time that an answer may take.
        hosts: names of this service in requests. Others get 400: a page on the web may have a name of its own point to
            this machine, and then ask as if the service were its own.
    """
    app = FastAPI(title="vit serve", docs_url=None, redoc_url=None)  # their pages load scripts from elsewhere
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    held, registry = collections.Counter[str](), CollectorRegistry()
    num_answers = Counter("vit_requests", "Answers of /predict", ["code"], registry=registry)
    num_images = Counter("vit_images", "Images by the status of their row", ["status"], registry=registry)
    answer_seconds = Histogram("vit_request_seconds", "From request to answer", registry=registry)
    waiting = Gauge("vit_waiting_requests", "Requests that wait", registry=registry)
    waiting.set_function(lambda: batcher.num_waiting)

    @app.post("/predict", responses=_ANSWERS, openapi_extra={"requestBody": _BODY})
    async def predict(request: Request) -> JSONResponse:
        """Label an image, sent as the body, or the files of a form."""
        began = time.perf_counter()
        try:
            async with uploaded(request, held, max_bytes, seconds) as upload:
                rows = await _rows(request, upload, batcher, seconds)
            content, statuses = [to_json(row) for row in rows], [row.status for row in rows]
            code = 413 if set(statuses) == {"too_large"} else 422  # where no image could be read
            if not {"ok", "unsure", "novel"}.isdisjoint(statuses):
                code = 200
            answer = JSONResponse(content if upload.is_form else content[0], code)
            for status in statuses:
                num_images.labels(status).inc()
        except HTTPException as error:
            answer = JSONResponse({"error": error.detail}, error.status_code, error.headers)
        num_answers.labels(str(answer.status_code)).inc()
        answer_seconds.observe(time.perf_counter() - began)
        return answer

    @app.get("/health")
    async def health() -> JSONResponse:
        """Whether the model computes."""
        return JSONResponse({"status": "failed" if batcher.failure else "ok"}, 503 if batcher.failure else 200)

    @app.get("/metrics")
    async def tell() -> Response:
        """Counts and times in Prometheus's format."""
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> str:
        return PAGE

    return app


async def _rows(request: Request, upload: Upload, batcher: Batcher, seconds: float) -> list[Prediction]:
    """The rows of an upload. Where the client has gone or waits for too long, nothing more is decoded for it."""
    images, pixels = await asyncio.to_thread(count_pixels, upload)
    answer = asyncio.ensure_future(batcher.rows(upload.names, images, pixels))
    left = asyncio.ensure_future(gone(request))
    try:
        await asyncio.wait((answer, left), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            why = (400, "the client has gone") if left.done() else (504, f"no answer within {seconds:g} s")
            raise HTTPException(*why)
        return answer.result()
    except FullError:
        raise HTTPException(503, "too many requests or pixels wait", {"Retry-After": "1"}) from None
    except HTTPException:
        raise
    except Exception as error:
        raise HTTPException(503, f"the model has failed: {type(error).__name__}") from error
    finally:
        answer.cancel()
        left.cancel()
