"""The k-NN accuracy of the weights that a pretraining starts from: the first row of metrics.csv"""

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from vit.extras.pretrain.images import PretrainingData
from vit.extras.pretrain.pretrainer import KNN, Pretrainer
from vit.training.callbacks.metrics_csv import Recorder


class StartingAccuracy(Callback):
    """Measures the weights before the first step. Without this row nothing would show what the pretraining adds."""

    @torch.no_grad()
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, Pretrainer)
        if trainer.global_step:
            return  # a resumed training has the row already
        data = trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, PretrainingData)
        pl_module.eval()
        with trainer.precision_plugin.val_step_context():
            for number, loader in enumerate(data.val_dataloader()):
                for batch in loader:
                    there = batch.to(pl_module.device)
                    pl_module.add_neighbors(there, data.preprocess.normalize(there.image), number)
        value = float(pl_module.neighbors.compute())
        pl_module.neighbors.reset()
        pl_module.train()
        recorder = next(callback for callback in trainer.callbacks if isinstance(callback, Recorder))  # type: ignore[attr-defined]
        recorder.write({KNN: value}, trainer)
        recorder.exclude_time()
