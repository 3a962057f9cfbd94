"""Which engine computes a checkpoint: PyTorch, or OpenVINO where it is asked for or faster"""

from dataclasses import dataclass
from pathlib import Path

import torch

from vit.inference.checked_engine import CheckedEngine
from vit.inference.deployed import Trained
from vit.inference.devices import choose_device
from vit.inference.engine import Engine
from vit.inference.engine_names import EngineName
from vit.inference.onnx_engine import OnnxEngine
from vit.inference.openvino_engine import OpenVinoEngine
from vit.inference.openvino_model import convert

AnyEngine = Engine | OnnxEngine | OpenVinoEngine | CheckedEngine


@dataclass(frozen=True)
class Job:
    """A checkpoint to compute.

    Attributes:
        path: file of the checkpoint.
        trained: its content.
        device: device as asked for.
        precision: precision as asked for.
        num_images: number of images to compute.
    """

    path: Path
    trained: Trained
    device: str
    precision: str
    num_images: int


def choose_engine(engine: EngineName, job: Job) -> AnyEngine:
    """The engine of a checkpoint."""
    if engine == "openvino":
        model = convert(job.trained, "--engine openvino")
        return CheckedEngine(_torch_engine(job, torch.device("cpu")), OpenVinoEngine(model, job.precision, job.path))
    return _torch_engine(job, choose_device(job.device))


def _torch_engine(job: Job, device: torch.device) -> Engine:
    description = job.trained.description
    return Engine(job.trained.network, description.preprocess, device, job.precision, description.temperature)
