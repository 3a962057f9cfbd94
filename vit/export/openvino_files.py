"""openvino: a folder with a graph from uint8 images to calibrated probabilities, for OpenVINO"""

from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor

from vit.checkpoints.format import KEY
from vit.export.format import Classify, Int8Format, Progress, description_text
from vit.inference.deployed import Trained, input_words
from vit.inference.engine import Classifies
from vit.inference.engines.openvino_engine import OpenVinoEngine
from vit.inference.engines.openvino_model import INPUT, OUTPUT, convert, read, save
from vit.layout import OPENVINO_GRAPH


class OpenVinoFiles(Int8Format):
    """A graph that `vit predict` accepts, too. A folder, because a graph without its weights is worth nothing."""

    ending = ""
    packages = ("openvino",)
    extra = "openvino"
    int8_packages = ("nncf",)
    int8_extra = "int8"

    def write(self, trained: Trained, path: Path) -> None:
        path.mkdir()
        save(convert(trained, "--format openvino"), path / OPENVINO_GRAPH)

    def write_int8(self, trained: Trained, path: Path, images: Tensor, progress: Progress) -> None:
        from vit.export.openvino_int8 import quantized

        path.mkdir()
        save(quantized(convert(trained, "--format openvino"), images, progress), path / OPENVINO_GRAPH)

    def describe(self, trained: Trained, path: Path) -> None:
        model = read(path / OPENVINO_GRAPH)
        model.graph.set_rt_info(description_text(trained.description), [KEY])
        with TemporaryDirectory(dir=path.parent) as folder:  # the weights of the graph are still mapped
            save(model, Path(folder) / OPENVINO_GRAPH)
            for file in Path(folder).iterdir():
                file.replace(path / file.name)

    def engine(self, path: Path) -> Classifies:
        graph = path / OPENVINO_GRAPH
        return OpenVinoEngine(read(graph), "32-true", graph)

    def read(self, trained: Trained, path: Path) -> Classify:
        graph = path / OPENVINO_GRAPH
        return OpenVinoEngine(read(graph), "32-true", graph).probabilities

    def how_to_load(self, trained: Trained, path: Path) -> str:
        return (
            f"model = openvino.Core().compile_model({str(path / OPENVINO_GRAPH)!r})\n"
            f'probabilities = model({{"{INPUT}": images}})["{OUTPUT}"]  # {input_words(trained)}'
        )
