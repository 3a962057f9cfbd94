"""A checkpoint as a model of MLflow: images as bytes in, labels and probabilities out; nothing is pickled

MLflow keeps the checkpoint and the name of this module, which reads the checkpoint as `vit predict` does. So this
program must be installed where the model is used. Paths are not taken: a served model would read files of its machine.
"""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vit.data.core.image_bytes import BytesReader
from vit.inference.predictor import load
from vit.version import __version__

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "image"  # of the input: the bytes of an image file


class MlflowModel:
    """What `mlflow.pyfunc.load_model` gives: `predict` of a table with the column `image`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._predictor = load(path)

    def predict(self, model_input: "pd.DataFrame", params: Mapping[str, object] | None = None) -> "pd.DataFrame":
        """One row for each image, with columns as `vit predict` writes them; "; " stands between several labels.

        Args:
            model_input: table with the column `image`, whose cells are the bytes of image files.
        """
        import pandas as pd

        images = [bytes(data) for data in model_input[COLUMN]]
        names = [str(number) for number in range(len(images))]
        rows = list(self._predictor.predict_files(names, reader=BytesReader(images)))
        return pd.DataFrame(
            {
                "label": [one.label for one in rows],
                "labels": ["; ".join(one.labels) for one in rows],
                "probability": [float("nan") if one.probability is None else one.probability for one in rows],
                "status": [one.status for one in rows],
                "error": [one.error for one in rows],
            }
        )


def save_mlflow_model(checkpoint: Path, folder: Path) -> None:
    """Write the checkpoint of a classifier as a model of MLflow with its signature, into a new folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow, about its own types
        from mlflow import pyfunc
        from mlflow.models import ModelSignature
        from mlflow.types import ColSpec, Schema

        texts = [ColSpec("string", name) for name in ("label", "labels", "status", "error")]
        texts.insert(2, ColSpec("double", "probability"))
        pyfunc.save_model(
            str(folder),
            loader_module=__name__,
            data_path=str(checkpoint),
            signature=ModelSignature(Schema([ColSpec("binary", COLUMN)]), Schema(texts)),
            pip_requirements=[f"vit-lightning=={__version__}"],
        )


_load_pyfunc = MlflowModel  # the name that MLflow calls, with the path of the checkpoint
