"""Which engine computes a checkpoint: PyTorch, or OpenVINO where it is asked for or faster

`auto` decides by the work first. The same command on the same files therefore uses the same engine, whether or not a
converted model exists already. Where OpenVINO could pay, both engines are timed once, and the faster one is remembered
beside the converted model. Two predictions of one command are equal as long as that file exists.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch

from vit.atomic_files import write_json
from vit.errors import VitError
from vit.inference.deployed import Trained
from vit.inference.devices import choose_device, choose_precision
from vit.inference.engine import Engine, trained_engine
from vit.inference.engines.checked_engine import CheckedEngine
from vit.inference.engines.engine_names import EngineName
from vit.inference.engines.onnx_engine import OnnxEngine
from vit.inference.engines.openvino_cache import Folders, cache_folders, converted
from vit.inference.engines.openvino_engine import OpenVinoEngine
from vit.inference.engines.openvino_library import NAME
from vit.layout import ConvertedLayout
from vit.plain_files import read_json

AnyEngine = Engine | OnnxEngine | OpenVinoEngine | CheckedEngine

FEW_IMAGES = 64  # for fewer images FLOPs are not even counted
FLOPS_PER_THREAD = 1e13  # of all images: 8,000 of ViT-Ti on two cores, 35 s; a conversion takes 5 s, once
GAIN = 1.1  # by which OpenVINO must be faster: noise must not decide
FLOPS_PER_PASS = 5e10  # of a timed pass: 20 images of ViT-Ti
ROUNDS = 3


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
    """The engine of a checkpoint.

    "auto" is "openvino" if all of this holds, and "torch" otherwise: openvino is installed, one process computes on a
    CPU, the images need more than `FLOPS_PER_THREAD`, openvino can compute the network, and openvino was measured to
    be faster on this kind of CPU.

    Raises:
        UsageError: there is no such device, or openvino was asked for and cannot compute the network.
    """
    if engine == "openvino":
        model, _ = converted(cache_folders(job.path), job.trained, "--engine openvino")
        other = OpenVinoEngine(model, job.precision, job.path)
        return CheckedEngine(_torch_engine(job, torch.device("cpu")), other)
    device = choose_device(job.device)
    if engine == "auto" and _is_worth_converting(job, device):
        return _faster_engine(job)
    return _torch_engine(job, device)


def _faster_engine(job: Job) -> Engine | CheckedEngine:
    """The faster engine on this CPU, by a measurement that is made once."""
    device, folders = torch.device("cpu"), cache_folders(job.path)
    machine = _machine(choose_precision(job.precision, device))
    if _remembered(folders, machine) == Engine.name:  # openvino is not imported
        return _torch_engine(job, device)
    try:
        model, folder = converted(folders, job.trained, "--engine auto")
        other = OpenVinoEngine(model, job.precision, job.path)
    except VitError:
        return _torch_engine(job, device)
    ours = _torch_engine(job, device)  # after the conversion, because an engine may change its network's weights
    if folder is None:  # the next run would have to measure again, and could choose the other engine
        return ours
    faster = _remembered(folders, machine)
    if not faster:
        _measure(ours, other, _flops(job), folder, machine)
        faster = _remembered(folders, machine)
    return CheckedEngine(ours, other) if faster == other.name else ours


def _torch_engine(job: Job, device: torch.device) -> Engine:
    return trained_engine(job.trained, device, job.precision)


def _is_worth_converting(job: Job, device: torch.device) -> bool:
    """Whether the work alone justifies a conversion. A pure function of the command and the machine."""
    if device.type != "cpu" or job.precision == "16-mixed" or job.num_images < FEW_IMAGES:
        return False
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 or find_spec(NAME) is None:
        return False
    return _flops(job) * job.num_images >= FLOPS_PER_THREAD * torch.get_num_threads()


def _flops(job: Job) -> int:
    """FLOPs of one image."""
    description = job.trained.description
    return description.spec.cost(description.preprocess.image_size).flops


def _machine(precision: str) -> str:
    """What a measurement holds for: a kind of CPU, and a precision."""
    amx = ", AMX" if torch.cpu._is_amx_tile_supported() else ""
    return f"{torch.backends.cpu.get_cpu_capability()}{amx}, {torch.get_num_threads()} threads, {precision}"


def _read_speeds(folder: ConvertedLayout) -> dict[str, dict[str, float]]:
    """Seconds of each engine by the kind of CPU. A damaged file has none."""
    names = (Engine.name, OpenVinoEngine.name)
    with suppress(OSError, ValueError, AttributeError, TypeError, KeyError):
        content = read_json(folder.speeds_path)
        return {machine: {name: float(seconds[name]) for name in names} for machine, seconds in content.items()}
    return {}


def _remembered(folders: Folders, machine: str) -> str:
    """Name of the faster engine on a kind of CPU, or "" where it was not measured."""
    for folder in folders:
        seconds = _read_speeds(folder).get(machine)
        if seconds is not None:
            is_faster = seconds[Engine.name] > GAIN * seconds[OpenVinoEngine.name]
            return OpenVinoEngine.name if is_faster else Engine.name
    return ""


def _measure(ours: Engine, other: OpenVinoEngine, flops: int, folder: ConvertedLayout, machine: str) -> None:
    """Time both engines in turns, and remember the times."""
    side = ours.preprocess.image_size
    count = max(1, min(FEW_IMAGES, int(FLOPS_PER_PASS / flops)))
    images = torch.zeros(count, ours.preprocess.channels, side, side, dtype=torch.uint8)
    seconds = {ours.name: float("inf"), other.name: float("inf")}
    for _ in range(1 + ROUNDS):  # the first passes allocate and compile, and are never the fastest
        for engine in (ours, other):
            start = time.perf_counter()
            engine.probabilities(images)
            seconds[engine.name] = min(seconds[engine.name], time.perf_counter() - start)
    with suppress(OSError):
        write_json(folder.speeds_path, {**_read_speeds(folder), machine: seconds})
