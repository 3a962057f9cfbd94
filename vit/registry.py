"""What the folder `extras` adds, by name: the core imports nothing of it but through these tables

Each module is imported when it is needed. A training on a folder of JPEG and PNG files needs none.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from vit.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """Something that an extra adds."""

    extra: str  # folder of `vit/extras`, and name of the extra in pyproject.toml
    module: str  # module in this folder
    name: str  # name of the class or function in the module

    def import_module(self) -> ModuleType:
        """Import the module. UsageError where this installation lacks the folder of the extra."""
        path = f"vit.extras.{self.extra}.{self.module}"
        try:
            return import_module(path)
        except ModuleNotFoundError as error:
            if error.name is None or not path.startswith(error.name):
                raise  # a package that the extra needs
            raise UsageError(
                f"this installation of vit lacks the part {self.extra!r}", f"restore the folder vit/extras/{self.extra}"
            ) from error

    def load(self) -> Any:
        """Import the class or function; UsageError as of `import_module`."""
        return getattr(self.import_module(), self.name)


def has_extra(image_format: str) -> bool:
    """Whether the extra is installed that reads a format, or of TIFF what Pillow does not keep whole."""
    return _is_installed(LIBRARIES[image_format])


@cache
def _is_installed(library: str) -> bool:
    return find_spec("vit.extras") is not None and find_spec(library) is not None


def command_module(name: str) -> ModuleType:
    """The module of a command, imported."""
    if name in COMMANDS:
        return COMMANDS[name].import_module()
    folder = next((f".{folder}" for folder, commands in _FOLDERS.items() if name in commands), "")
    return import_module(f"vit.commands{folder}.{name}")


_FOLDERS = {  # of `vit.commands`, with the commands in them
    "training": ("train",),
    "studies": ("study",),
    "comparing": ("crossval", "compare", "probe"),
    "predicting": ("predict", "embed", "similar", "explain", "inspect"),
    "measuring": ("evaluate", "data"),
    "exporting": ("export", "convert", "soup"),
}
COMMANDS = {
    "demo": Entry("demo", "command", "demo"),
    "pretrain": Entry("pretrain", "command", "pretrain"),
    "push": Entry("hub", "command", "push"),
    "serve": Entry("serve", "command", "serve"),
}
EXECUTORS = {  # of `vit.study.running.cluster.Cluster`
    "ray": Entry("ray", "tasks", "Ray"),
    "slurm": Entry("slurm", "tasks", "Slurm"),
}
FORMATS = {  # of `vit.export.format.Format`
    "onnx": Entry("export", "onnx_file", "OnnxFile"),
    "openvino": Entry("openvino", "files", "OpenVinoFiles"),
    "hf": Entry("hub", "transformers_folder", "TransformersFolder"),
}
INT8_FORMAT, INT8 = Entry("int8", "formats", "installed_format"), Entry("int8", "export", "write")
TRACKERS = {  # of `vit.training.tracking.tracker.TrackerKind`
    "tensorboard": Entry("tensorboard", "tracker", "TensorBoard"),
    "mlflow": Entry("mlflow", "tracker", "Mlflow"),
}
IMAGE_READERS = {  # format of an image -> a module, `FormatReader`; of HEIF a function that lets Pillow read it
    "DICOM": Entry("dicom", "reader", "read"),
    "TIFF": Entry("tiff", "reader", "read"),
    "HEIF": Entry("heif", "reader", "register"),
}
LIBRARIES = {"DICOM": "pydicom", "TIFF": "tifffile", "HEIF": "pillow_heif"}
SOURCES = {  # of images, beyond folders and CSV files
    "hub": Entry("hub", "source", "open_source"),  # a module, `TableSource`
    "tables": Entry("parquet", "open", "open_source"),  # a module, `TableSource`
    "addresses": Entry("s3", "far_images", "FarImages"),  # a class, `ImageReader`
    "pack": Entry("shards", "packing", "pack"),
    "tars": Entry("shards", "tars", "index_tars"),
}
COMPLETION = Entry("completion", "script", "completion_script")  # of `vit --print_completion`
PRETRAINING_PLAN = Entry("pretrain", "pretrainer", "make_pretrain_plan")
PRETRAINING_PAGE = Entry("pretrain", "page", "write_pretrain_report")
