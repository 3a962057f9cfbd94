"""pt2: a program of torch.export, which PyTorch runs without the code of this package"""

import io
from pathlib import Path

import torch

from vit.export.format import Classify, Format, description_text
from vit.inference.deployment import LoadedModel, describe_input, notes, traced

_AS_JSON = ("classes", "thresholds")


class Program(Format):
    """The same graph as in ONNX: from uint8 images to calibrated probabilities."""

    ending = ".pt2"
    imports = "import torch"

    def write(self, trained: LoadedModel, path: Path) -> None:
        words = notes(trained)
        files = {f"{name}.json" if name in _AS_JSON else f"{name}.txt": text for name, text in words.items()}
        extra = {"vit.json": description_text(trained.description), **files}
        content = io.BytesIO()  # where a disk is full, torch's own writer aborts the process
        torch.export.save(traced(trained), content, extra_files=extra)
        path.write_bytes(content.getbuffer())

    def read(self, trained: LoadedModel, path: Path) -> Classify:
        module = torch.export.load(path).module()
        return lambda images: module(images)

    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        return (
            f"model = torch.export.load({str(path)!r}).module()\n"
            f"probabilities = model(images)  # {describe_input(trained)}"
        )
