"""The recipe of a pretraining without labels: that of a training, with what only a pretraining decides"""

from dataclasses import dataclass, field
from typing import Literal

from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import Recipe

Method = Literal["diet", "mae"]
UNUSED = (  # options of a training that a pretraining does not use
    "model.init_head", "model.freeze", "model.lora", "data.sampling", "data.calibration", "data.fold", "augment.mixup",
    "augment.cutmix", "augment.own", "optim.time", "optim.patience", "optim.loss", "optim.metric",
    "optim.label_smoothing", "optim.class_weights",
    "optim.logit_adjustment", "optim.multilabel_loss", "optim.min_precision", "optim.best_metric", "optim.ema_decay",
    "distill.teacher", "distill.kind", "distill.temperature", "distill.weight", "distill.teacher_hash",
    "mlflow.register",
)  # fmt: skip


@dataclass
class PretrainDataConfig(DataConfig):
    """Where images come from.

    Args:
        unlabeled: folder with more images to learn from, which lie at any depth and need no labels; null: none.
        labels: use of DATA's labels. auto: where DATA has class folders or a column of labels, only its training
            images are learned from, and nearest neighbors of validation images show the progress. none: all images of
            DATA are learned from, in whatever folders they lie.
    """

    unlabeled: str | None = None
    labels: Literal["auto", "none"] = "auto"


@dataclass
class PretrainRecipe(Recipe):
    """One pretraining.

    Args:
        data: source and split of the images.
        method: what is learned from images without labels. diet: which image it is, under augmentation. mae: the
            pixels of hidden patches.
    """

    data: PretrainDataConfig = field(default_factory=PretrainDataConfig)
    method: Method = "diet"
