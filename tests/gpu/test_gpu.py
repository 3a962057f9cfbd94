"""Every path of a training and of a prediction that CPUs never take, each in seconds: `pytest -m gpu`, `make gpu`."""

import json
import os
import signal
import time
from functools import partial

import httpx
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tests.conftest import ask
from tests.gpu.conftest import CNN, VIT, apart, weights_apart
from tests.processes import finish, free_port, start
from vit.commands.training import train_progress
from vit.commands.training.train_options import read_values
from vit.inference.deployment import prepared
from vit.inference.devices import autocast
from vit.inference.predictor import load
from vit.models.attend import attend
from vit.models.spec import NetworkSpec
from vit.models.vision_transformer import Mlp
from vit.training import loop
from vit.training.distributed.devices import Sharding
from vit.training.planning.plan import Plan, plan_of

pytestmark = pytest.mark.gpu
BOTH = [pytest.param(VIT, id="vit"), pytest.param(CNN, id="cnn", marks=pytest.mark.slow)]  # `-m gpu` runs both
AVERAGED = ("--optim.ema_decay", 0.9, "--optim.clip_norm", 0.5)


@pytest.fixture
def measured(record_property):
    """`measured(value, limit)` notes a difference beside the outcome, and holds it below a limit."""

    def note(value, limit):
        record_property("measured", f"{value:.1e} (at most {limit:g})")
        assert value <= limit

    return note


@pytest.mark.parametrize("network", BOTH)
@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed"])
@pytest.mark.slow
def test_half_precision_with_clipping_learns_as_float32(train, images, device, measured, network, precision):
    if device == "cpu" and precision == "16-mixed":
        precision = "bf16-mixed"  # Lightning has no float16 on CPUs
    exact = train(images, *network, *AVERAGED)
    half = train(images, *network, *AVERAGED, "--precision", precision, "--keep_state", "true")
    if precision == "16-mixed":
        state = torch.load(half.path / "checkpoints" / "last.ckpt", weights_only=True)["MixedPrecision"]
        assert state["scale"] > 1
    measured(apart(half.losses, exact.losses), 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("network", BOTH)
@pytest.mark.parametrize("graphs", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_compiled_training_has_the_losses_of_an_eager_one(
    train, images, device, measured, monkeypatch, network, graphs
):
    if device == "cpu":  # without a C++ compiler
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    eager = train(images, *network)
    from torch._inductor import config  # slow to import

    with config.patch({"triton.cudagraphs": graphs}):
        compiled = train(images, *network, "--trainer.compile", "true")
    measured(apart(compiled.losses, eager.losses), 0.01)


@pytest.mark.parametrize(("steps", "is_long"), [(2_990, False), (3_000, True)])
def test_a_long_training_is_compiled_on_a_gpu(images, device, steps, is_long):
    options = {"network": VIT[1], "image_size": 16, "init_from": "none", "optim.steps": steps}
    plan = plan_of(read_values(images, (), None, options).layers.recipe())
    assert plan.recipe.trainer.compile is (is_long and device == "cuda")


@pytest.mark.parametrize("network", BOTH)
def test_weights_that_are_cast_once_give_the_answers_of_autocast(device, measured, network):
    made = NetworkSpec.named(network[1], 3).build(16).eval().to(device)
    pixels, where = torch.randn(8, 3, 16, 16, device=device), torch.device(device)
    for head in (part for part in made.modules() if isinstance(part, torch.nn.Linear) and part.out_features == 3):
        torch.nn.init.normal_(head.weight)
    with torch.inference_mode(), autocast("bf16-mixed", where):
        own, plain = prepared(made, where, "bf16-mixed")(pixels).float(), made(pixels).float()
    measured(((own - plain).abs().max() / plain.abs().max()).item(), 0.05)


def test_attention_runs_in_a_fused_kernel(device):
    q = torch.randn(4, 3, 197, 64, device=device, dtype=torch.bfloat16, requires_grad=device == "cuda")
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        attend(q, q, q)
    names = {event.key for event in seen.key_averages() if "attention" in event.key}
    fused = {name for name in names if any(kernel in name for kernel in ("flash", "cudnn", "efficient"))}
    assert device == "cpu" or (fused and not any("attention_math" in name for name in names)), names


@pytest.mark.slow
@pytest.mark.parametrize("network", BOTH)
def test_weights_statistics_and_averages_are_those_of_a_cpu(train, images, measured, network):
    """Batch norm's running statistics and the moving average are among the weights of best.ckpt."""
    options = (*network, *AVERAGED, "--optim.best_metric", "last", "--optim.optimizer", "sgd", "--lr", 0.01)
    measured(weights_apart(train(images, *options), train(images, *options, on="cpu")), 0.02)


def test_a_cnn_computes_the_same_in_both_memory_formats(device, measured):
    network = NetworkSpec.named("resnet10_small", 3).build(16).eval().to(device)
    pixels = torch.randn(8, 3, 16, 16, device=device)
    with torch.inference_mode():
        plain = network(pixels)
        laid_out = network.laid_out_for(torch.device(device))
        moved = laid_out.to(memory_format=torch.channels_last)(pixels.to(memory_format=torch.channels_last))
    measured((plain - moved).abs().max().item(), 5e-3)


@pytest.mark.slow
def test_a_stopped_training_resumes_bit_equal(train, images, monkeypatch):
    options = (*VIT, *AVERAGED, "--augment", "standard", "--checkpoint_every", "0s")
    torch.use_deterministic_algorithms(True)
    try:
        whole = train(images, *options)

        def end(watcher, done, *rest):
            if done == 3:
                os.kill(os.getpid(), signal.SIGTERM)

        with monkeypatch.context() as patch:
            patch.setattr(train_progress.TrainProgress, "step", end)
            stopped = train(images, *options, code=143)
        assert ask("train", "--resume", stopped.path).code == 0
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(value, whole.weights[name]) for name, value in stopped.weights.items())


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param("mae", marks=pytest.mark.slow), "diet"])
def test_a_pretraining_has_the_losses_of_a_cpu(train, images, measured, method):
    options = (*VIT, "--method", method)
    on_device, on_cpu = (train(images, *options, on=on, command="pretrain") for on in (None, "cpu"))
    measured(apart(on_device.losses, on_cpu.losses), 0.02)


@pytest.mark.slow
def test_a_taught_training_has_the_losses_of_a_cpu(train, images, measured):
    teacher = train(images, *CNN)
    options = (*VIT, "--distill.teacher", teacher.path, "--augment", "standard")
    measured(apart(train(images, *options).losses, train(images, *options, on="cpu").losses), 0.02)


@pytest.mark.slow
def test_lora_has_the_losses_of_a_cpu(train, images, measured):
    pytest.importorskip("peft")
    first = train(images, *VIT)
    options = ("--init_from", first.path, "--model.lora", 4, "--augment", "none")
    measured(apart(train(images, *options).losses, train(images, *options, on="cpu").losses), 0.02)


@pytest.mark.slow
def test_several_labels_have_the_losses_of_a_cpu(train, labels_csv, measured):
    options = (*VIT, "--augment", "strong", "--optim.accumulate", 2)
    measured(apart(train(labels_csv, *options).losses, train(labels_csv, *options, on="cpu").losses), 0.02)


@pytest.mark.slow
def test_a_training_that_does_not_fit_starts_again_in_smaller_parts(train, images, device, monkeypatch):
    if device == "cuda":  # real: the process may have memory for some of these images
        _, total = torch.cuda.mem_get_info()
        options = ["--network", "vit_small_patch16_224", "--image_size", 224, "--batch_size", 64]
        torch.cuda.set_per_process_memory_fraction(2.5 * 2**30 / total)
    else:
        run = train_progress.TrainProgress.step

        def refuse(watcher, done, *rest):
            monkeypatch.setattr(train_progress.TrainProgress, "step", run)
            raise torch.OutOfMemoryError

        monkeypatch.setattr(train_progress.TrainProgress, "step", refuse)
        options = [*VIT, "--batch_size", 64]
    run = train(images, *options, "--optim.steps", 5, "--data.validation", 0.1, "--data.test", 0.1)
    assert "out of memory: starting again in" in run.out


@pytest.mark.parametrize("again", ["false", "true"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.slow
def test_weights_spread_by_fsdp_have_the_losses_of_whole_ones(
    train, images, device, measured, monkeypatch, precision, again
):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", free_port())
    options = (*VIT, "--optim.ema_decay", "0", "--precision", precision)  # averaged weights are not spread
    whole = train(images, *options)
    monkeypatch.setattr(Plan, "is_sharded", property(lambda plan: True))  # `vit train` shards two processes or more
    monkeypatch.setattr(loop, "strategy_for", lambda *_: Sharding(1))
    computed = []
    forward = Mlp.forward
    monkeypatch.setattr(Mlp, "forward", lambda mlp, tokens: computed.append(mlp.fc1.weight) or forward(mlp, tokens))
    try:
        sharded = train(images, *options, "--trainer.grad_checkpointing", again)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    expected = {torch.bfloat16 if precision == "bf16-mixed" else torch.float32}
    assert {value.dtype for value in computed} == expected
    assert {value.dtype for value in sharded.weights.values()} == {torch.float32}
    measured(apart(sharded.losses, whole.losses), 0.01 if precision == "32-true" else 0.05)


@pytest.mark.slow
def test_blocks_that_are_computed_again_train_as_others(train, images, device, measured):
    options = (*VIT, "--model.network.depth", 4, "--batch_size", 64, "--model.network.drop_path_rate", 0.2)
    losses, peaks = [], []
    for again in ("false", "true"):
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        losses.append(train(images, *options, "--trainer.grad_checkpointing", again).losses)
        peaks.append(torch.cuda.max_memory_allocated() if device == "cuda" else -len(peaks))
    assert peaks[1] < peaks[0]
    measured(apart(*losses), 1e-3 if device == "cuda" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("network", BOTH)
def test_answers_and_maps_are_those_of_a_cpu(train, images, device, measured, network, tmp_path):
    run = train(images, *network)
    answers = []
    for number, where in enumerate(("cpu", device)):
        predictor = load(run.path, where, precision="32-true")
        answers.append([[chance for _, chance in sorted(row.top)] for row in predictor.predict(images, recursive=True)])
        page = ("--faithfulness", "false", "--output", tmp_path / str(number))
        ask("explain", run.path, images / "red" / "00.png", "--device", where, *page).ok()
    measured((torch.tensor(answers[0]) - torch.tensor(answers[1])).abs().max().item(), 1e-3)


@pytest.mark.slow
def test_images_kept_in_memory_train_as_files_do(train, images, measured):
    options = (*VIT, "--augment", "standard")
    kept, read = (train(images, *options, "--data.cache", cache) for cache in ("memory", "none"))
    measured(apart(kept.losses, read.losses), 1e-6)


@pytest.mark.slow
def test_workers_train_as_the_main_process_does(train, images, measured):
    options = (*VIT, "--augment", "standard", "--data.cache", "none")
    here, there = (train(images, *options, "--data.num_workers", count) for count in (0, 2))
    measured(apart(here.losses, there.losses), 1e-6)


@pytest.mark.slow
def test_the_largest_batch_is_found(train, images):
    run = train(images, *VIT, "--batch_size", "auto", "--optim.steps", 5)
    config = (run.path / "config.yaml").read_text()
    assert "batch_size: auto" not in config


@pytest.mark.slow
def test_serve_answers_with_the_rows_of_predict(train, images, device, tmp_path):
    for package in ("fastapi", "uvicorn", "multipart"):
        pytest.importorskip(package)
    run = train(images, *VIT)
    expected = next(iter(load(run.path, device).predict(images / "red" / "00.png")))
    port = free_port()
    process = start(tmp_path, "serve", run.path, "--port", port, "--device", device, real=device == "cuda")
    try:
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        content = (images / "red" / "00.png").read_bytes()
        row = json.loads(httpx.post(f"http://127.0.0.1:{port}/predict", content=content, timeout=60).text)
    finally:
        process.send_signal(signal.SIGTERM)
        finish(tmp_path, process, 60)
    assert row["label"] == expected.label and abs(row["probability"] - expected.probability) < 1e-3
