"""Several trackers: one that fails is one warning, and the others get everything."""

from types import SimpleNamespace

import pytest

from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.open import Trackers
from vit.training.tracking.tracker import check_trackers, chosen_trackers, wandb_mode

CALLS = [
    ("log", {"train/loss": 1.0}, 1),
    ("figure", "figures/worst", "worst.png", True),
    ("table", "results", ["series"], [["vit"]]),
    ("confusion_matrix", "test/confusion", [0], [1], ["cat", "dog"]),
    ("configure", {"optim": {}}),
    ("summary", {"test/acc1": 1.0}),
    ("artifact", "best.ckpt", "best", {}),
    ("finish",),
    ("interrupt",),
]


def recorder():
    calls = []
    tracker = SimpleNamespace(
        **{
            name: (lambda *arguments, name=name: calls.append((name, *arguments)))
            for name in {name for name, *_ in CALLS}
        }
    )
    return tracker, calls


@pytest.mark.faults("T23", simulated="a method of the tracker raises the error")
@pytest.mark.parametrize("failing", [name for name, *_ in CALLS])
def test_a_failing_tracker_is_one_warning_and_the_others_go_on(failing):
    broken, seen = recorder()
    whole, calls = recorder()
    notices = []

    def fail(*_):
        raise OSError("No space left\non device")

    setattr(broken, failing, fail)
    trackers = Trackers({"TensorBoard": broken, "MLflow": whole}, notices.append)
    for name, *arguments in CALLS:
        getattr(trackers, name)(*arguments)
    assert calls == CALLS
    assert seen == CALLS[: [name for name, *_ in CALLS].index(failing)]
    assert notices == ["TensorBoard stopped (OSError: No space left on device); training goes on without it"]


@pytest.mark.parametrize(
    ("options", "names", "mode"),
    [
        ({}, ("wandb",), "auto"),
        ({"wandb": "off"}, (), "off"),
        ({"wandb": "offline"}, ("wandb",), "offline"),
        ({"tracker": "tensorboard"}, ("tensorboard",), "off"),
        ({"tracker": "tensorboard", "wandb": "off"}, ("tensorboard",), "off"),
        ({"tracker": "wandb, mlflow,wandb"}, ("wandb", "mlflow"), "auto"),
        ({"tracker": "mlflow,wandb", "wandb": "online"}, ("mlflow", "wandb"), "online"),
    ],
)
def test_trackers_of_a_recipe(options, names, mode):
    recipe = Recipe(**options)
    assert chosen_trackers(recipe) == names
    assert wandb_mode(recipe) == mode


@pytest.mark.faults("T20")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tracker": "tensorbord"}, ["--tracker tensorbord", "'tensorboard'"]),
        ({"tracker": "wandb,clearml"}, ["--tracker clearml", "mlflow"]),
        ({"tracker": "csv"}, ["metrics.csv"]),
        ({"tracker": " , "}, ["names no tracker"]),
        ({"tracker": "wandb", "wandb": "off"}, ["--wandb off"]),
        ({"tracker": "mlflow", "wandb": "offline"}, ["--wandb offline", "mlflow,wandb"]),
        ({"tracker": "tensorboard", "mlflow.register": "digits"}, ["--mlflow.register"]),
    ],
)
def test_a_wrong_choice_is_refused(vit, options, words):
    answer = vit("train", "digits", *(part for key, value in options.items() for part in (f"--{key}", value))).failed(2)
    assert all(word in answer.err for word in words), answer.err


@pytest.mark.faults("T21", simulated="the package is not found")
@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_extra_is_refused_before_anything_is_read(monkeypatch, name):
    monkeypatch.setattr("vit.training.tracking.tracker.find_spec", lambda _: None)
    with pytest.raises(UsageError) as caught:
        check_trackers(Recipe(tracker=name))
    assert name in caught.value.problem
    assert "pip install" in caught.value.fix and f"[{name}]" in caught.value.fix
    check_trackers(Recipe())
