"""The best checkpoint is measured on the device of the training."""

import torch

from vit.report import run_figures

TINY = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--batch_size", 8, "--wandb", "off")


def test_a_training_measures_on_the_device_that_it_trained_on(vit, colors, tmp_path, monkeypatch):
    """The device "meta" plays the first GPU of a machine, which another process trains on; the trainer has its own."""
    monkeypatch.setattr(run_figures, "draw_run", lambda *_: None)
    monkeypatch.setattr("vit.training.distributed.devices.choose_device", lambda name: torch.device("meta"))
    answer = vit("train", colors, *TINY, "--epochs", 1, "--trainer.accelerator", "cpu", "--out", tmp_path)
    assert answer.code == 0, answer.err
