"""A short hash of the weights to start from, so that a study knows them by their content"""

import hashlib
from pathlib import Path

from vit.checkpoints.io import file_hash
from vit.checkpoints.run import start_of
from vit.errors import CheckpointError
from vit.weights.file import FOLDER_FILES
from vit.weights.hubs import from_hugging_face


def weights_hash(source: str) -> str:
    """A hash of the files that an `init_from` means; a library's own model has its name instead. Errors:
    `open_pretrained`.
    """
    library, _, name = source.partition(":")
    if library in ("timm", "torchvision"):
        return source
    path = from_hugging_face(name) if library == "hf" else Path(source).expanduser()
    digest = hashlib.sha256()
    for file in _files(path):
        try:
            digest.update(file_hash(file).encode())
        except OSError as error:
            raise CheckpointError(f"{file} cannot be read: {error.strerror}", "check --init_from") from error
    return digest.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    """The files of a folder of another library that describe its weights, or the one file that a path means."""
    if path.is_dir() and any((path / file).is_file() for file in ("config.json", *FOLDER_FILES)):
        return sorted(file for file in path.iterdir() if file.suffix in (".json", ".safetensors", ".bin"))
    return [start_of(path)]
