"""openvino: a folder with a graph from uint8 images to calibrated probabilities, for OpenVINO"""

from pathlib import Path

from vit.export.format import Classify, Format, label_code
from vit.inference.deployment import LoadedModel, describe_input
from vit.inference.engine import Classifies
from vit.inference.engines.exported_engines import INPUT, OUTPUT, OpenVinoEngine, convert, read, save
from vit.layout import OPENVINO_GRAPH


class OpenVinoFiles(Format):
    """A graph that `vit predict` accepts, too. A folder, because a graph without its weights is worth nothing."""

    ending = ""
    imports = "import numpy, openvino"
    library = "openvino"
    next_command = f"vit predict {{path}}/{OPENVINO_GRAPH} FOLDER_OF_IMAGES"
    packages = ("openvino",)
    extra = "openvino"

    def write(self, trained: LoadedModel, path: Path) -> None:
        path.mkdir()
        save(convert(trained, "--format openvino"), path / OPENVINO_GRAPH)

    def read(self, trained: LoadedModel, path: Path) -> Classify:
        return self.engine(path).probabilities

    def engine(self, path: Path) -> Classifies:
        return OpenVinoEngine(read(path / OPENVINO_GRAPH), "32-true", path / OPENVINO_GRAPH)

    def how_to_load(self, trained: LoadedModel, path: Path) -> str:
        exact = {"INFERENCE_PRECISION_HINT": "f32"}  # as `engine`; else bfloat16 where the CPU has it
        label = label_code(trained, "probabilities", "numpy.array")
        return (
            f"model = openvino.Core().compile_model({str(path / OPENVINO_GRAPH)!r}, config={exact})\n"
            f'probabilities = model({{"{INPUT}": images}})["{OUTPUT}"]  # {describe_input(trained)}{label}'
        )
