"""The HTTP interface of a model: /predict, /health, /metrics, /openapi.json and a form

FastAPI and uvicorn, and not LitServe 0.2: its queue has no bound, a request whose worker dies waits without end, and a
server that is asked to end loses answers.
"""

import asyncio
from collections.abc import Sequence
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from vit.extras.serve.jobs import Jobs
from vit.inference.rows import to_json

MAX_CONNECTIONS = 1024  # beyond them clients get 503 at once
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>vit serve</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; form-action 'self'"></head><body><main>
<h1>vit serve</h1><form method="post" action="/predict" enctype="multipart/form-data">
<label>Images <input type="file" name="images" multiple required></label> <button>Label them</button></form>
<p><a href="/openapi.json">interface</a>, <a href="/health">health</a>, <a href="/metrics">metrics</a></p>
</main></body></html>"""
_FILE = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"images": {"type": "array", "items": _FILE}}}
_BODY = {
    "required": True,
    "content": {"application/octet-stream": {"schema": _FILE}, "multipart/form-data": {"schema": _FORM}},
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "a row as 'vit predict' writes it; for a form a list of rows"},
    400: {"description": "no image, a broken form, or a Host header that does not name this service"},
    408: {"description": "the body did not come in time"},
    413: {"description": "the body, an image or all images together are too large"},
    422: {"description": "no image could be read; the rows name the reasons"},
    503: {"description": "too many requests, bytes or pixels wait, or the model has failed"},
    504: {"description": "no answer in time"},
}


def create_app(jobs: Jobs, max_bytes: int, seconds: float, hosts: Sequence[str] = ("*",)) -> FastAPI:
    """The application of a model.

    Args:
        max_bytes: most bytes of a request.
        seconds: time that a body may take, and then time that an answer may take.
        hosts: names of this service in requests. Others get 400: a page on the web may have a name of its own point to
            this machine, and then ask as if the service were its own.
    """
    app = FastAPI(title="vit serve", docs_url=None, redoc_url=None)  # their pages load scripts from elsewhere
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    registry = CollectorRegistry()
    num_answers = Counter("vit_requests", "Answers of /predict", ["code"], registry=registry)
    num_images = Counter("vit_images", "Images by the status of their row", ["status"], registry=registry)
    answer_seconds = Histogram("vit_request_seconds", "From request to answer", registry=registry)
    waiting = Gauge("vit_waiting_requests", "Requests that wait", registry=registry)
    waiting.set_function(lambda: jobs.num_waiting)

    @app.post("/predict", responses=_ANSWERS, openapi_extra={"requestBody": _BODY})
    async def predict(request: Request) -> JSONResponse:
        """Label an image, sent as the body, or the files of a form."""
        try:
            with answer_seconds.time():
                rows, is_form = await jobs.answer(request, max_bytes, seconds)
            content, statuses = [to_json(row) for row in rows], [row.status for row in rows]
            code = 413 if set(statuses) == {"too_large"} else 422  # where no image could be read
            if not {"ok", "unsure", "novel"}.isdisjoint(statuses):
                code = 200
            answer = JSONResponse(content if is_form else content[0], code)
            for status in statuses:
                num_images.labels(status).inc()
        except HTTPException as error:
            answer = JSONResponse({"error": error.detail}, error.status_code, error.headers)
        except Exception as error:  # noqa: BLE001  whatever the model raises
            answer = JSONResponse({"error": f"the model has failed: {type(error).__name__}"}, 503)
        num_answers.labels(str(answer.status_code)).inc()
        return answer

    @app.get("/health")
    async def health() -> JSONResponse:
        """Whether the model computes."""
        return JSONResponse({"status": "failed" if jobs.failure else "ok"}, 503 if jobs.failure else 200)

    @app.get("/metrics")
    async def tell() -> Response:
        """Counts and times in Prometheus's format."""
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> str:
        return PAGE

    return app


class Service(uvicorn.Server):
    """An application, which serves until SIGTERM, Ctrl-C or `end`. It then answers the requests that it has."""

    def __init__(self, app: FastAPI, seconds: float) -> None:
        config = uvicorn.Config(
            app,
            http=_protocol(seconds),
            log_level="warning",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=int(seconds),
            timeout_graceful_shutdown=int(seconds) + 1,
            server_header=False,
            lifespan="off",
        )
        super().__init__(config)

    def end(self) -> None:
        """Take no more requests."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End at a signal, without uvicorn's second one at the end, which would look like a failure."""
        self.end()


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, with a limit for the time that a client takes for the head of a request."""

    class Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def data_received(self, data: bytes) -> None:
            ends = None if self.timeout_keep_alive_task is None else self.timeout_keep_alive_task.when()
            super().data_received(data)  # ends the timer, even at a part of a head
            if ends is not None and (self.cycle is None or self.cycle.response_complete):
                self.timeout_keep_alive_task = self.loop.call_at(ends, self.timeout_keep_alive_handler)

    return Protocol
