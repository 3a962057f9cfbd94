"""`--trainer.compile true`: the same training through torch.compile, with plain checkpoints."""

import signal
from dataclasses import replace
from functools import partial

import pytest
import torch

from tests.comparing import differences
from tests.runs import died, run_folder
from vit.errors import UsageError
from vit.models.spec import NetworkSpec
from vit.training.distributed.devices import Machine
from vit.training.planning import compatibility
from vit.training.planning.compatibility import check_compatibility
from vit.training.planning.network_choice import WantedNetwork
from vit.training.recipes.recipe import DistillConfig, ModelConfig, OptimConfig, Recipe, TrainerConfig

TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 2, "--epochs", 2, "--batch_size", 8, "--optim.ema_decay",
    0.9, "--checkpoint_every", "0s", "--wandb", "off", "--precision", "32-true", "--keep_state", "true",
)  # fmt: skip
COMPILED = ("--trainer.compile", "true")
CPU = Machine(torch.device("cpu"), 1, "32-true")
compile_by = torch.compile


def checkpoint(out, name="last"):
    return torch.load(run_folder(out) / "checkpoints" / f"{name}.ckpt", weights_only=True)


@pytest.fixture
def quick_compiler(monkeypatch):
    """torch.compile without a C++ compiler: the graphs are traced, and their backward pass is written."""
    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", partial(compile_by, backend="aot_eager"))
    yield
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_blocks_that_are_computed_again_train_to_the_same_weights(vit, colors, tmp_path, quick_compiler, compiled):
    options = ("--model.network.drop_rate", 0.1, "--model.network.drop_path_rate", 0.3, *COMPILED[: 2 * compiled])
    for name in ("false", "true"):
        again = ("--trainer.grad_checkpointing", name)
        answer = vit("train", colors, *TINY, *options, *again, "--out", tmp_path / name).ok()
        assert ("blocks computed again in the backward pass" in answer.out) == (name == "true")
    found, expected = (checkpoint(tmp_path / name) for name in ("true", "false"))
    assert not differences(found["state_dict"], expected["state_dict"])
    assert not differences(found["optimizer_states"], expected["optimizer_states"])


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["learned", "rope2d", "rope2d_eva"])
def test_weights_are_those_of_a_plain_training_and_a_run_resumes_bit_equal(
    vit, colors, tmp_path, quick_compiler, positions
):
    compiling = (*COMPILED, "--model.network.pos_embed", positions)
    for name, options in (("plain", compiling[2:]), ("compiled", compiling)):
        vit("train", colors, *TINY, *options, "--out", tmp_path / name).ok()
    plain, compiled = (checkpoint(tmp_path / name) for name in ("plain", "compiled"))
    assert compiled["state_dict"].keys() == plain["state_dict"].keys()
    for name, value in plain["state_dict"].items():
        assert torch.allclose(compiled["state_dict"][name], value, atol=1e-4), name

    vit("train", "--resume", died(tmp_path / "killed", 5, colors, *TINY, *compiling)).ok()
    resumed = checkpoint(tmp_path / "killed")
    assert not differences(resumed["state_dict"], compiled["state_dict"])
    assert not differences(resumed["optimizer_states"], compiled["optimizer_states"])


def train_with_broken_compiler(vit, data, out, monkeypatch, number=None):
    """The answer where compiling fails, after a signal of a number to this process, if there is one."""

    def broken(graph, inputs):
        if number is not None:
            signal.raise_signal(number)
        raise OSError("no C++ compiler")

    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", partial(compile_by, backend=broken))
    answer = vit("train", data, *TINY, *COMPILED, "--out", out)
    torch.compiler.reset()
    return answer


def test_a_signal_that_ends_the_compiler_is_not_an_error_of_the_compiler(vit, colors, tmp_path, monkeypatch):
    answer = train_with_broken_compiler(vit, colors, tmp_path, monkeypatch, signal.SIGTERM)
    assert answer.code == 143
    assert answer.err.endswith("vit: error[143]: terminated; start it again\n")


def test_a_compiler_that_fails_is_one_error_with_a_fix(vit, colors, tmp_path, monkeypatch):
    answer = train_with_broken_compiler(vit, colors, tmp_path, monkeypatch)
    assert answer.code == 7
    assert "torch.compile cannot compile vit_nano_patch2_8 on this machine (--trainer.compile)" in answer.err
    assert "no C++ compiler" in answer.err
    assert "give --trainer.compile false" in answer.err and "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("model", "trainer", "said"),
    [
        (ModelConfig(), {"strategy": "fsdp"}, "--strategy fsdp does not go with --trainer.compile true"),
        (ModelConfig(freeze="backbone", init_from="x"), {}, "--trainer.compile true with --freeze backbone"),
        (ModelConfig(network={"name": "resnet18"}), {"grad_checkpointing": True}, "is for our ViTs whose blocks"),
    ],
)
def test_what_cannot_be_compiled_is_refused(model, trainer, said):
    recipe = Recipe(model=model, trainer=TrainerConfig(**{"compile": True, **trainer}))
    name = model.network["name"]
    with pytest.raises(UsageError, match=said):
        check_compatibility(recipe, CPU, WantedNetwork(None if name == "auto" else NetworkSpec(name, 1), None))


def test_two_heads_that_a_teacher_computes_one_by_one_are_not_compiled():
    """Also where weights to start from have them."""
    recipe = Recipe(distill=DistillConfig("x"), trainer=TrainerConfig(compile=True))
    with pytest.raises(UsageError, match="--teacher and pool cls_dist"):
        check_compatibility(recipe, CPU, WantedNetwork(None, None, {"pool": "cls_dist"}))


@pytest.mark.parametrize(
    ("options", "device", "processes", "steps", "is_compiled"),
    [
        ({}, "cuda", 1, 3_000, True),
        ({}, "cuda", 1, 2_999, False),
        ({}, "cpu", 1, 100_000, False),
        ({}, "cuda", 2, 3_000, False),
        ({"trainer": TrainerConfig(compile=True)}, "cpu", 1, 1, True),
        ({"trainer": TrainerConfig(compile=False)}, "cuda", 1, 3_000, False),
        ({"model": ModelConfig(lora=4)}, "cuda", 1, 3_000, False),
        ({"optim": OptimConfig(time="9min")}, "cuda", 1, 100_000, False),
        ({"optim": OptimConfig(time="10min")}, "cuda", 1, 1, True),
    ],
)
def test_auto_compiles_long_trainings_on_a_gpu(monkeypatch, options, device, processes, steps, is_compiled):
    monkeypatch.setattr(compatibility, "has_compiler", lambda: True)
    machine = Machine(torch.device(device), processes, "bf16-mixed")
    recipe = Recipe(**options)
    recipe = replace(recipe, model=replace(recipe.model, network={"name": "resnet18_cifar"}))
    assert compatibility.compiles(recipe, machine, steps) is is_compiled
    assert not compatibility.compiles(Recipe(model=ModelConfig({"name": "timm_network"})), machine, steps)
    monkeypatch.setattr(compatibility, "has_compiler", lambda: False)
    is_given = options.get("trainer") == TrainerConfig(compile=True)
    assert compatibility.compiles(recipe, machine, steps) is is_given


@pytest.mark.slow
def test_the_default_compiler_gives_the_weights_of_a_plain_training(vit, colors, tmp_path):
    """It needs a C++ compiler."""
    for name, options in (("plain", ()), ("compiled", COMPILED)):
        vit("train", colors, *TINY, *options, "--out", tmp_path / name).ok()
    plain, compiled = (checkpoint(tmp_path / name)["state_dict"] for name in ("plain", "compiled"))
    assert all(torch.allclose(compiled[name], value, atol=1e-4) for name, value in plain.items())
