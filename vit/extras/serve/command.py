"""`vit serve RUN|CKPT|EXPORT`: rows of `vit predict` over HTTP"""

import os
import socket
from importlib.util import find_spec
from typing import Literal

from vit.commands.cli.arguments import Fraction, ModelOrExport, Port, PositiveInt, trusted_hosts
from vit.commands.predicting.prediction_setup import AnswerOptions, PredictionSetup
from vit.console import Reporter
from vit.errors import ResourceError, UsageError, explained, install
from vit.inference.engines.engine_names import EngineName

HERE = "127.0.0.1"
_LOCAL = (HERE, "localhost", "::1")


def serve(
    model: ModelOrExport,
    *,
    host: str = HERE,
    port: Port = 8000,
    top_k: PositiveInt = 5,
    reject_below: Fraction | None = None,
    target_accuracy: Fraction | None = None,
    coverage: Fraction | None = None,
    sets: Literal["lac", "aps", "class_conditional"] = "lac",
    reject_novel: bool = False,
    max_queue: PositiveInt = 256,
    max_bytes: PositiveInt = 32 * 2**20,
    timeout_seconds: PositiveInt = 30,
    device: str = "auto",
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto",
    engine: EngineName = "auto",
    unfinished: bool = False,
) -> None:
    """Serve a model over HTTP until Ctrl-C or SIGTERM. Answers are the rows that 'vit predict' writes.

    POST an image as the body to /predict, or a form with files. Further addresses: /health, /metrics (Prometheus),
    /openapi.json. There is no password: put a server in front of it that has one, before others can reach it.

    Args:
        model: a run folder, a checkpoint, or an exported .onnx or .xml file
        host: 0.0.0.0: other machines can ask too, by any name; else requests must name this host
        port: port to listen on
        top_k: number of classes in a row; of several labels, every label of an image is there too
        reject_below: as of 'vit predict'
        target_accuracy: as of 'vit predict'
        coverage: as of 'vit predict'
        sets: as of 'vit predict'
        reject_novel: as of 'vit predict'
        max_queue: number of requests that may wait; further ones get 503
        max_bytes: largest body of a request
        timeout_seconds: time that the head of a request may take, then its body, and then the answer
        device: cpu, cuda or mps; auto: an accelerator if there is one
        precision: as of 'vit predict'
        engine: as of 'vit predict'
        unfinished: as of 'vit predict'

    Raises:
        VitError: the model cannot be used, a library is missing, or the port is taken.

    Example:
        vit serve runs/photos/vit_tiny_patch16_224/20260101-120000
    """
    model = os.fspath(model)
    wanted = AnswerOptions(reject_below, target_accuracy, coverage, sets, reject_novel)
    setup = PredictionSetup(model, wanted, top_k, False, device, precision, engine, unfinished)
    setup.check()
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn", "multipart", "prometheus_client")):
        raise UsageError("a service needs fastapi, uvicorn, python-multipart and prometheus-client", install("serve"))

    from vit.extras.serve.app import Service, create_app
    from vit.extras.serve.jobs import Jobs

    # a taken port must show before the model is loaded
    with explained(ResourceError, f"cannot listen on {host}, port {port}", "give another --port"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.create_server((host, port), family=family, backlog=512)
    reporter = Reporter()
    with opened:
        predictor = setup.load(reporter)
        jobs = Jobs(predictor, setup.num_ranked(predictor), max_queue, on_failure=lambda: service.end())
        service = Service(create_app(jobs, max_bytes, timeout_seconds, trusted_hosts(host)), timeout_seconds)
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        reporter.line(f"{address}/predict takes images; Ctrl-C ends the service")
        if host not in _LOCAL:
            reporter.warn("everyone who can reach this machine can use the service: it has no password")
        reporter.next_command(f"curl --data-binary @photo.jpg {address}/predict")
        service.run(sockets=[opened])
    if jobs.failure is not None:
        raise jobs.failure
    jobs.close()
