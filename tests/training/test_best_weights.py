"""The best checkpoint is measured on the device of the training."""

import torch

TINY = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--batch_size", 8, "--wandb", "off")


def test_a_training_measures_on_the_device_that_it_trained_on(vit, colors, tmp_path, monkeypatch):
    """The device "meta" plays the first GPU of a machine, which another process trains on; the trainer has its own."""
    monkeypatch.setattr("vit.training.distributed.devices.choose_device", lambda name: torch.device("meta"))
    vit("train", colors, *TINY, "--epochs", 1, "--trainer.accelerator", "cpu", "--out", tmp_path).ok()


def test_images_set_aside_for_calibration_serve_for_nothing_else(vit, tmp_path):
    """The temperature and the scores in the checkpoint are those of the calibration images alone."""
    import json

    from tests.runs import run_folder
    from tests.tables import rows
    from vit.checkpoints.io import read_checkpoint

    words = ("train", "digits", "--model.network.depth", 1, "--epochs", 1, "--batch_size", 128, "--seed", 1)
    answer = vit(*words, "--data.calibration", 0.2, "--wandb", "off", "--out", tmp_path).ok()
    run = run_folder(tmp_path)
    counts = json.loads((run / "result.json").read_text())["images"]
    assert counts["calibration"] == 356 and counts["validation"] == 179  # not 359: half of each class is for training
    splits = rows(run / "splits.csv")
    by_split = {name: {row["path"] for row in splits if row["split"] == name} for name in counts}
    assert sum(map(len, by_split.values())) == len(set.union(*by_split.values())) == len(splits)
    assert "356 calibration images" in answer.out + answer.err
    scores = read_checkpoint(run / "checkpoints" / "best.ckpt")["vit"]["validation_scores"]
    from vit.checkpoints.validation_scores import ValidationScores

    table = rows(run / "predictions" / "calibration.csv")
    kept = ValidationScores.from_plain(scores, 10)
    assert len(kept) == len(table) == 356
    assert abs(kept.highest.mean() - sum(float(row["probability"]) for row in table) / 356) < 1e-5
