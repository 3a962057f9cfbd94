"""A teacher answers for the picture that the other network sees, in that network's classes, as it predicts files."""

from dataclasses import replace

import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from tests.training.distillation.teachers import CLASSES, OWN, write_teacher
from vit.checkpoints.format import Description
from vit.data.core.batch import Batch
from vit.data.core.samples import Samples, Source
from vit.data.pixels.preprocess import Preprocess
from vit.models.spec import NetworkSpec
from vit.training.distillation import TeacherLogits, find_teacher
from vit.training.recipes.recipe import DistillConfig

STUDENT = Preprocess(12, mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))
PIXELS = torch.randint(0, 256, (4, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def source(class_names=CLASSES):
    labels = torch.arange(6).numpy() % len(class_names)
    return Source("photos", class_names, {"train": Samples([f"{n}.png" for n in range(6)], labels, None)})


def logits_of(path, class_names=CLASSES, preprocess=STUDENT):
    teacher = find_teacher(DistillConfig(str(path)), source(class_names))
    assert teacher is not None
    return TeacherLogits(teacher, preprocess, class_names, torch.device("cpu"), "32-true")


def batch_of(images):
    count = len(images)
    return Batch(
        images, torch.zeros(count).long(), tuple("abcd"[:count]), ("",) * count, torch.zeros(count), torch.ones(count)
    )


def test_it_normalizes_the_same_picture_by_its_own_mean_and_std(tmp_path):
    network = write_teacher(tmp_path / "t.ckpt")
    with torch.no_grad():
        expected = network(OWN.normalize(PIXELS))
        others = network(STUDENT.normalize(PIXELS))
    found = logits_of(tmp_path / "t.ckpt").of(batch_of(STUDENT.normalize(PIXELS)))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert (others - expected).abs().max() > 0.1  # the mean and std of the other network would show


def test_it_is_in_evaluation_mode_and_without_gradients(tmp_path):
    write_teacher(tmp_path / "t.ckpt")
    logits = logits_of(tmp_path / "t.ckpt")
    whole = logits.of(batch_of(STUDENT.normalize(PIXELS)))
    alone = logits.of(batch_of(STUDENT.normalize(PIXELS[:1])))
    torch.testing.assert_close(whole[:1], alone, rtol=1e-4, atol=1e-4)  # batch norm in training mode would differ
    assert not whole.requires_grad and not whole.is_inference()
    assert not logits.engine.network.training


def test_classes_in_another_order_are_matched_by_name(tmp_path):
    write_teacher(tmp_path / "t.ckpt")
    images = batch_of(STUDENT.normalize(PIXELS))
    straight, swapped = (
        logits_of(tmp_path / "t.ckpt", names).of(images) for names in (CLASSES, ("red", "blue", "green"))
    )
    torch.testing.assert_close(swapped, straight[:, [2, 0, 1]])
    assert (swapped - straight).abs().max() > 0.1


def test_the_picture_is_resized_to_the_size_of_the_teacher(tmp_path):
    large = replace(OWN, image_size=20)
    network = write_teacher(tmp_path / "t.ckpt", preprocess=large)
    resized = TF.resize(PIXELS, [20, 20], interpolation=InterpolationMode.BICUBIC, antialias=True)
    with torch.no_grad():
        expected = network(large.normalize(resized))
    found = logits_of(tmp_path / "t.ckpt").of(batch_of(STUDENT.normalize(PIXELS)))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_an_onnx_file_teaches_as_its_checkpoint_whatever_its_temperature(tmp_path):
    """Its graph gives probabilities of the checkpoint's logits, divided by the temperature of the description."""
    pytest.importorskip("onnxruntime")
    from tests.onnx_files import linear_classifier

    spec = NetworkSpec.named("vit_nano_patch2_8", len(CLASSES))
    about = Description(CLASSES, spec, replace(OWN, image_size=8), temperature=3.0)
    weights = torch.randn(192, 3, generator=torch.Generator().manual_seed(0)) / 1500
    (tmp_path / "t.onnx").write_bytes(linear_classifier(weights.numpy(), about.to_dict()).SerializeToString())
    student, pixels = replace(STUDENT, image_size=8), PIXELS[..., :8, :8]
    exported = logits_of(tmp_path / "t.onnx", preprocess=student).of(batch_of(student.normalize(pixels)))
    ours = 3 * (pixels.flatten(1).float() @ weights)
    for temperature in (1.0, 4.0):
        torch.testing.assert_close(
            (exported / temperature).softmax(1), (ours / temperature).softmax(1), rtol=1e-3, atol=1e-4
        )
    assert (ours.softmax(1) - (ours / 3).softmax(1)).abs().max() > 0.05  # the temperature of the file would show


def test_remembered_logits_are_found_by_the_image(tmp_path):
    write_teacher(tmp_path / "t.ckpt")
    logits = logits_of(tmp_path / "t.ckpt")
    expected = logits.of_pixels(PIXELS)
    logits.remembered, logits._values = {"b": 0, "a": 1, "d": 2}, expected[[1, 0, 3]]
    logits.of_pixels = None  # computes nothing
    torch.testing.assert_close(logits.of(batch_of(torch.zeros(2, 3, 12, 12))), expected[:2])
