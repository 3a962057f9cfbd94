"""`vit train` that cannot succeed: its exit code, its one line, and what it leaves on disk."""

import pytest
import torch
from PIL import Image

from vit.models.vision_transformer import VisionTransformer

QUICK = ("--epochs", 1, "--wandb", "off")


@pytest.mark.faults("D23")
def test_a_batch_larger_than_the_data(vit, colors, tmp_path):
    vit("train", colors, "--batch_size", 31, "--out", tmp_path, *QUICK).failed(3, "31", "30 training images")
    parts = ("--batch_size", 32, "--optim.accumulate", 2)
    vit("train", colors, *parts, "--out", tmp_path, *QUICK).failed(3, "32", "30 training images", "--batch_size 6 ")
    assert not list(tmp_path.iterdir())


def test_ten_images_are_enough_for_batch_norm(vit, draw_classes, tmp_path):
    data = draw_classes(tmp_path / "data", ("dark", "light"), 5)
    options = ("--network", "resnet10_small", "--model.network.widths", "[8,8,8,8]", "--image_size", 8)
    options += ("--out", tmp_path / "runs", *QUICK)
    vit("train", data, *options).ok()
    vit("train", data, "--batch_size", 1, *options).failed(2, "resnet10_small has batch norm", "--batch_size 2 ")


@pytest.mark.parametrize("part", ["val", "test"])
def test_a_part_of_empty_class_folders(vit, draw_classes, tmp_path, part):
    data = tmp_path / "data"
    draw_classes(data / "train", ("dark", "light"), 6)
    for name in ("dark", "light"):
        (data / part / name).mkdir(parents=True)
    words = "validation" if part == "val" else part
    vit("train", data, "--out", tmp_path / "runs", *QUICK).failed(3, f"{words} split of data has no images")
    assert not (tmp_path / "runs").exists()


def test_steps_in_parts_are_the_same_steps(vit, colors, tmp_path):
    """30 images in batches of 9: 3 steps, whether a step is computed at once or in 3 parts.

    Adam would divide by the gradients' own size: it hides a wrong scale, and makes rounding as large as a step.
    """
    options = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--batch_size", 9, "--seed", 5,
               "--precision", "32-true", "--optim.optimizer", "sgd", "--lr", 0.01, "--keep_state", "true")  # fmt: skip
    found = []
    for parts in (1, 3):
        out = tmp_path / str(parts)
        vit("train", colors, *options, "--optim.accumulate", parts, "--out", out, *QUICK).ok()
        (last,) = out.glob("**/last.ckpt")
        found.append(torch.load(last, weights_only=True))
    one, three = found
    assert one["global_step"] == three["global_step"] == 3
    for name, value in one["state_dict"].items():
        assert torch.allclose(three["state_dict"][name], value, atol=1e-6), name


@pytest.mark.faults("D1")
def test_data_that_are_not_there(vit, tmp_path):
    vit("train", tmp_path / "photos", "--out", tmp_path, *QUICK).failed(3, "there is no", "photos")
    vit("train", "photos.csv", "--out", tmp_path, *QUICK).failed(3, "photos.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("D2")
def test_a_folder_without_classes(vit, tmp_path):
    (tmp_path / "flat").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "flat" / "a.png")
    vit("train", tmp_path / "flat", "--out", tmp_path / "runs", *QUICK).failed(3, "1 images", "<class>")


@pytest.mark.faults("F1")
def test_out_that_cannot_be_written(vit, colors, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        vit("train", colors, "--out", out, *QUICK).failed(7, str(out), "--out")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.faults("F2", simulated="torch.save fails")
def test_a_disk_that_fills_up_keeps_the_older_checkpoint(vit, colors, tmp_path, monkeypatch):
    saved = []
    save = torch.save

    def full(content, file, *rest, **options):
        if len(saved) >= 3:
            file.write(b"half")
            raise OSError(28, "No space left on device")
        saved.append(file)
        return save(content, file, *rest, **options)

    monkeypatch.setattr(torch, "save", full)
    answer = vit("train", colors, "--epochs", 4, "--out", tmp_path, "--wandb", "off")
    answer.failed(7, "No space left on device", ".ckpt", "the previous file is intact")
    (folder,) = tmp_path.glob("**/checkpoints")
    assert {path.name for path in folder.iterdir()} <= {"best.ckpt", "last.ckpt"}
    for path in folder.iterdir():
        torch.load(path, weights_only=True)


@pytest.mark.faults("N1")
@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "muon"])
def test_a_learning_rate_that_explodes(vit, tmp_path, optimizer):
    options = ("--lr", 1e30, "--optim.optimizer", optimizer, "--optim.warmup", 0, "--optim.clip_norm", 0)
    answer = vit("train", "digits", *options, "--out", tmp_path, *QUICK)
    answer.failed(6, "not a number at step", "--lr")
    assert answer.err.count("\n") == 1
    assert not list(tmp_path.glob("**/result.json"))


@pytest.mark.faults("N1", simulated="a network's output is set to NaN")
def test_a_loss_that_turns_nan_late_names_its_images(vit, tmp_path, monkeypatch):
    calls = []
    forward = VisionTransformer.forward

    def poisoned(network, images):
        calls.append(len(images))
        return forward(network, images) * (float("nan") if len(calls) == 5 else 1.0)

    monkeypatch.setattr(VisionTransformer, "forward", poisoned)
    vit("train", "digits", "--out", tmp_path, *QUICK).failed(6, "at step", "digits/")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--strategy", "deepspeed"), ["--strategy deepspeed", "auto, ddp, fsdp"]),
        (("--strategy", "dpp"), ["--strategy dpp", "auto, ddp, fsdp"]),
        (
            ("--network", "resnet10_small", "--image_size", 16, "--optim.optimizer", "muon"),
            ["muon, given or of the recipe, needs a transformer"],
        ),
        (("--network", "vit_nano_patch2_8", "--model.network.depth", 0), ["depth"]),
    ],
)
def test_settings_that_only_training_can_refuse(vit, colors, tmp_path, options, words):
    vit("train", colors, *options, "--out", tmp_path / "runs", *QUICK).failed(2, *words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.faults("N4", "N8", simulated="the network raises what PyTorch raises")
@pytest.mark.parametrize("kind", ["CPU", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("GPU", "Python"))])
def test_out_of_memory_says_what_to_try(vit, colors, tmp_path, monkeypatch, kind):
    forward = VisionTransformer.forward

    def allocate(network, images):
        if images.is_meta:  # its FLOPs are being counted
            return forward(network, images)
        if kind == "GPU":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        if kind == "Python":
            raise MemoryError
        return torch.empty(2**50)

    monkeypatch.setattr(VisionTransformer, "forward", allocate)
    options = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--batch_size", 6, "--out", tmp_path)
    options += ("--precision", "32-true")
    answer = vit("train", colors, *options, *QUICK)
    answer.failed(7, "out of memory with 6 images of 8 pixels in 32-true, 6 parts", "give a smaller --batch_size")
    assert [parts for parts in (2, 6) if f"starting again in {parts} micro-batches" in answer.err] == [2, 6]


@pytest.mark.faults("N7")
def test_images_that_are_all_black_train(vit, tmp_path):
    for name in ("coal", "night"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for place in range(14):
            Image.new("RGB", (9, 9)).save(tmp_path / "data" / name / f"{place}.png")
    options = ("--network", "resnet10_small", "--model.network.widths", "[8,8,8,8]", "--augment", "strong")
    options += ("--batch_size", 10, "--out", tmp_path / "runs")
    answer = vit("train", tmp_path / "data", *options, *QUICK, drawn=True).ok()
    (metrics,) = tmp_path.glob("runs/**/metrics.csv")
    assert "nan" not in metrics.read_text()
    warning = "not shown to be better than guessing: the balanced accuracy is 50.00 %"
    assert warning in answer.out and "that of guesses 50.00 %" in answer.out
    assert warning in metrics.with_name("report.html").read_text()
    evaluated = vit("evaluate", metrics.parent, "--output", tmp_path / "evaluated", drawn=True)
    for one in (answer, evaluated):
        assert one.out.splitlines()[-1] == f"Next: vit data check {tmp_path / 'data'}"
    (tmp_path / "data").rename(tmp_path / "moved")
    assert vit("report", metrics.parent).out.splitlines()[-1] == "Next: vit data check DATA"
    assert warning in evaluated.out and warning in (tmp_path / "evaluated" / "report.html").read_text()


@pytest.mark.faults("C9", "C11")
def test_a_start_that_does_not_fit(vit, digits_run, tmp_path):
    options = ("--network", "vit_mini_patch4_28", "--image_size", 28, "--out", tmp_path)
    answer = vit("train", "digits", "--model.init_from", digits_run.path, *options, *QUICK)
    answer.failed(4, "does not fit", str(digits_run.path))
    assert not list(tmp_path.iterdir())  # before a run folder is made
    (tmp_path / "x.safetensors").write_bytes(b"<html>")
    options = ("--model.init_from", tmp_path / "x.safetensors", "--out", tmp_path / "runs")
    vit("train", "digits", *options, *QUICK).failed(4, "x.safetensors")


@pytest.mark.parametrize(
    "words",
    [
        ("train", "DATA", "--network", "levit_128", "--image_size", 200, "--init", "random"),
        ("crossval", "DATA", "--network", "levit_128", "--image_size", 200, "--init", "random"),
        ("study", "DATA", "--networks", "resnet10_small,levit_128 --model.preprocess.image_size=200"),
    ],
)
def test_a_size_that_a_network_cannot_compute_is_refused_before_images_are_read(vit, colors, here, monkeypatch, words):
    monkeypatch.setattr("vit.data.checks.bursts.clusters_of", lambda *_: pytest.fail("images were read"))
    monkeypatch.setattr("vit.data.core.samples.read_bytes", lambda *_: pytest.fail("an image was read"))
    words = [colors if word == "DATA" else word for word in words]
    vit(*words, "--out", here / "out").failed(
        2, "levit_128: it is made for images of 224 pixels, and cannot compute 200 pixels"
    )
