"""What `--resume RUN` goes on with when a launcher has started its processes."""

import pytest

from tests.processes import finish_all, linux_only, srun
from vit.commands.training.resuming import recipe_of
from vit.commands.training.train_options import read_words
from vit.training.recipes.recipe import Recipe, TrainerConfig
from vit.training.recipes.values import dump


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
    given = read_words(("--resume", str(run), *options)).layers
    monkeypatch.delenv("RANK", raising=False)
    expected = 3 if devices == 3 else 2
    assert recipe_of(run, given).trainer.devices == expected
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert recipe_of(run, given).trainer.devices == devices


@linux_only
@pytest.mark.faults("X3")
def test_a_run_that_cannot_go_on_ends_all_tasks_of_srun(tmp_path):
    """The first process ended before the others could ask it. They waited for it for more than ten minutes."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(dump(Recipe()))
    (first, _, said), *others = finish_all(tmp_path, srun(tmp_path, *[("train", "--resume", run)] * 3), 200)
    assert first == 2 and "start it again as a new run: it has no checkpoint" in said
    assert others == [(2, "", "")] * 2
