"""Inference from a batch of images to logits, ours against other libraries, in turn in one process.

Ours: `vit.inference.engine.Engine` in the precision that it chooses, from uint8 images, which it normalizes itself.

Theirs: networks of the same size with random weights under inference_mode, from float32 images that are normalized
already. PyTorch's networks run in bfloat16 autocast where ours does. "timm compiled" is torch.compile of that network.
OpenVINO gets timm's network by `convert_model` and the hint bf16. onnxruntime runs timm's network in float32.
"vit --engine openvino" is our network in OpenVINO, from uint8 images.

    python benchmarks/inference.py --size ti16          (or 32px, resnet18)
"""

import argparse
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from peers import RESNET18, SIZES, Size, is_installed, networks
from timing import NOT_INSTALLED, Measurement, Work, interleave, measured_peak, without_slow
from torch import Tensor

from vit.checkpoints.format import Description, checkpoint_content
from vit.data.pixels.preprocess import Preprocess
from vit.errors import VitError
from vit.inference.devices import autocast, choose_device, choose_precision
from vit.inference.engine import Engine
from vit.models.spec import NetworkSpec

COMPILE_SECONDS = 150
DEVICE = choose_device()
PRECISION = choose_precision("auto", DEVICE)
Side = Callable[[], object]


class TooSlow(BaseException):  # compilers catch every Exception
    """The time of a side is over."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TooSlow in this thread after some seconds."""

    def end(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ours(size: Size, images: Tensor) -> Side:
    spec = NetworkSpec.named(size.name, size.num_classes)
    engine = Engine(spec.build(size.image_size), Preprocess(size.image_size), DEVICE, PRECISION)
    return lambda: engine.logits(images)


def our_openvino(size: Size, images: Tensor, folder: Path) -> Side:
    """Our network by `--engine openvino`, from a checkpoint as `vit predict` reads it."""
    import vit

    spec = NetworkSpec.named(size.name, size.num_classes)
    class_names = tuple(f"class {number}" for number in range(size.num_classes))
    about = Description(class_names, spec, Preprocess(size.image_size), precision=PRECISION)
    torch.save(checkpoint_content(about, about.build().state_dict()), folder / "model.ckpt")
    engine = vit.load(folder / "model.ckpt", engine="openvino").engine
    return lambda: engine.probabilities(images)


def eager(network: Any, images: Tensor) -> Side:
    network = network.to(DEVICE).eval()

    def compute() -> Tensor:
        with torch.inference_mode(), autocast(PRECISION, DEVICE):
            return network(images)

    return compute


def openvino(network: Any, images: Tensor) -> Side:
    import openvino as ov

    model = ov.convert_model(network.eval(), example_input=images, input=list(images.shape))
    fast = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "bf16", "PERFORMANCE_HINT": "LATENCY"})
    request, pixels = fast.create_infer_request(), images.numpy()
    return lambda: request.infer([pixels], share_inputs=True, share_outputs=True)


def onnxruntime(network: Any, images: Tensor) -> Side:
    import onnxruntime as ort

    program = torch.onnx.export(network.eval(), (images,), dynamo=True, verbose=False, input_names=["images"])
    assert program is not None
    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = ort.InferenceSession(program.model_proto.SerializeToString(), options, ["CPUExecutionProvider"])
    pixels = images.numpy()
    return lambda: session.run(None, {"images": pixels})


ENGINES = {"OpenVINO": ("openvino", openvino), "onnxruntime float32": ("onnxruntime", onnxruntime)}


def sides(
    size: Size, with_compiled: bool, folder: Path, wanted: Sequence[str] = ()
) -> tuple[dict[str, Side], dict[str, str]]:
    """The functions that compute a batch, ours first, and why others are missing, each by its side."""
    shape = (size.batch, 3, size.image_size, size.image_size)
    pixels, normalized = torch.randint(0, 256, shape, dtype=torch.uint8), torch.randn(shape, device=DEVICE)
    found, absent = networks(size, wanted)
    calls: dict[str, Side] = {"vit": ours(size, pixels)}
    if is_installed("openvino") and DEVICE.type == "cpu":
        try:
            calls["vit --engine openvino"] = our_openvino(size, pixels, folder)
        except VitError as error:
            absent["vit --engine openvino"] = str(error)
    calls |= {side: eager(network, normalized) for side, network in found.items()}
    if "timm" not in found:
        return calls, {**absent, "timm compiled": NOT_INSTALLED}
    if size.name == RESNET18.name:
        network = networks(size)[0]["timm"].to(memory_format=torch.channels_last)
        calls["timm channels-last"] = eager(network, normalized.to(memory_format=torch.channels_last))
    for side, (package, build) in ENGINES.items():
        if not is_installed(package):
            absent[side] = NOT_INSTALLED
        elif DEVICE.type != "cpu":
            absent[side] = "not measured on this device"
        else:
            calls[side] = build(found["timm"], normalized)
    if not with_compiled:
        return calls, {**absent, "timm compiled": "left out"}
    try:
        with at_most(COMPILE_SECONDS):
            call = eager(torch.compile(found["timm"]), normalized)
            call()
        calls["timm compiled"] = call
    except TooSlow:
        absent["timm compiled"] = f"compiles for more than {COMPILE_SECONDS} s"
    return calls, absent


def options(description: str | None, seconds: float) -> argparse.Namespace:
    """Options of a script that times functions of one size in turn; sets the threads and the random numbers, too."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="ti16", help="network, images and batch")
    parser.add_argument("--turns", type=int, default=7, help="turns of each side; default 7")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"length of a turn; default {seconds:g}")
    parser.add_argument("--batch", type=int, help="images of a batch; default: as for two cores")
    parser.add_argument("--peers", nargs="*", default=(), help="sides beside ours; default: all that are installed")
    parser.add_argument("--no_compile", action="store_true", help="leave the peers' torch.compile out")
    parser.add_argument("--ours", nargs="*", default=(), help="options of our training: trainer.compile=false")
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))))
    torch.manual_seed(0)
    return arguments


def main() -> None:
    arguments = options(__doc__, seconds=1.0)
    size = SIZES[arguments.size]
    size = replace(size, batch=arguments.batch or size.batch)
    work = Work.of(size.name, size.num_classes, size.image_size, is_training=False)
    with tempfile.TemporaryDirectory() as name:
        calls, absent = sides(size, not arguments.no_compile, Path(name), arguments.peers)
        peak = measured_peak(work.precision)
        speeds = interleave(without_slow(calls, absent), size.batch, arguments.turns, arguments.seconds)
    peak = max(peak, measured_peak(work.precision))
    what = f"Inference of {size.name}, {size.image_size} pixels, batches of {size.batch}, {work.precision}"
    Measurement(what, speeds, absent, work=work, peak=peak).show()


if __name__ == "__main__":
    main()
