"""What `--resume RUN` goes on with when a launcher has started its processes."""

import pytest

from vit.commands.resuming import recipe_of
from vit.training.recipe import Recipe, TrainerConfig
from vit.training.recipe_values import dump


@pytest.mark.faults("R6")
@pytest.mark.parametrize(
    ("options", "devices"), [((), "auto"), (("--checkpoint_every", "5s"), "auto"), (("--devices", "3"), 3)]
)
def test_the_launcher_decides_how_many_processes_go_on(tmp_path, monkeypatch, options, devices):
    """A run of two processes was refused by torchrun with three: "--devices 2, but torchrun started 3"."""
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "last.ckpt").touch()
    (run / "config.yaml").write_text(dump(Recipe(trainer=TrainerConfig(devices=2, num_nodes=2))))
    arguments = ("--resume", str(run), *options)
    monkeypatch.delenv("RANK", raising=False)
    expected = 3 if devices == 3 else 2
    assert recipe_of(str(run), arguments).trainer.devices == expected
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert recipe_of(str(run), arguments).trainer.devices == devices
