"""Every format answers as the checkpoint does, in one file with everything in it; or it is not written at all."""

import inspect
import json
import math
import os
import shutil
import stat
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from vit import registry
from vit.commands.exporting.export import export as command
from vit.data.pixels.preprocess import Preprocess
from vit.errors import CheckpointError, DataError, ResourceError, UsageError
from vit.export import exporting, weights
from vit.export.exporting import export, export_format
from vit.export.format import Format
from vit.export.verify import ExportDifference, compare, random_images
from vit.export.weights import Weights, _crop_pct
from vit.extras.export import onnx_file
from vit.extras.export.onnx_file import OnnxFile
from vit.inference.deployment import describe_input
from vit.inference.engine import Engine
from vit.weights.open import open_pretrained

NAMES = {
    "onnx": "m.onnx",
    "pt2": "m.pt2",
    "safetensors": "m.safetensors",
    "timm": "m.safetensors",
    "hf": "m",
    "openvino": "m",
}
FRACTIONS = (0.8, 0.85, 0.875, 0.9, 0.91, 0.93, 0.95, 0.96, 1.0)


def images(side, count):
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def answers(made, batch):
    """Probabilities by the checkpoint's own network."""
    description = made.description
    engine = Engine(made.network, description.preprocess, torch.device("cpu"), "32-true", description.temperature)
    return engine.probabilities(batch).numpy()


@pytest.fixture(scope="module")
def written(trained, tmp_path_factory):
    """An ONNX file of a calibrated ViT; tests only read its folder."""
    path = tmp_path_factory.mktemp("onnx") / "m.onnx"
    assert export(trained("vit", temperature=2.0), "onnx", path).is_small
    return path


@pytest.mark.faults("E1")
def test_onnx_answers_as_the_checkpoint_on_256_images(trained, written):
    made = trained("vit", temperature=2.0)
    read = OnnxFile().read(made, written)
    for count in (1, 7, 256):
        batch = images(8, count)
        found, expected = read(batch).numpy(), answers(made, batch)
        assert found.shape == (count, 3) and np.abs(found - expected).max() < 1e-6
        assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()
    assert expected.std() > 0.1, "answers that are all alike show nothing"


@pytest.mark.faults("E2")
def test_onnx_is_one_file_that_works_anywhere(trained, written, tmp_path):
    assert os.listdir(written.parent) == ["m.onnx"]
    moved = shutil.copy(written, tmp_path / "moved.onnx")
    made = trained("vit", temperature=2.0)
    np.testing.assert_allclose(OnnxFile().read(made, moved)(images(8, 2)), answers(made, images(8, 2)), atol=1e-6)


@pytest.mark.faults("E3")
def test_safetensors_are_bit_equal_and_described(trained, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file

    made, path = trained("vit", temperature=2.0), tmp_path / "m.safetensors"
    before = os.umask(0o022)
    try:
        assert export(made, "safetensors", path).is_small
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    weights = load_file(path)
    expected = made.network.state_dict()
    assert weights.keys() == expected.keys() and all(torch.equal(weights[key], expected[key]) for key in weights)
    with safe_open(path, framework="pt") as file:
        notes = file.metadata()
    assert json.loads(notes["classes"]) == list(made.description.class_names)
    assert json.loads(notes["vit"])["preprocess"] == made.description.preprocess.to_dict()


@pytest.mark.parametrize("name", ["safetensors", "timm", "hf"])
def test_weights_have_the_same_bytes_every_time(trained, tmp_path, name):
    written = []
    for number in range(4):
        export_format(name).write(trained("vit"), tmp_path / f"{number}.safetensors")
        file = tmp_path / f"{number}.safetensors" / "model.safetensors"
        written.append((file if name == "hf" else file.parent).read_bytes())
    assert len(set(written)) == 1


@pytest.mark.faults("E4")
def test_onnx_says_what_it_takes_and_refuses_the_rest(written):
    import onnxruntime

    session = onnxruntime.InferenceSession(written)
    notes = session.get_modelmeta().custom_metadata_map
    assert notes["input"].startswith("uint8 (batch, 3, 8, 8): sRGB (embedded ICC profiles converted), upright")
    assert json.loads(notes["classes"])[0] == "cat"
    for wrong, words in (
        (np.zeros((1, 3, 8, 8), np.float32), "uint8"),
        (np.zeros((1, 3, 9, 9), np.uint8), "Expected: 8"),
        (np.zeros((1, 8, 8, 3), np.uint8), "Expected: 3"),
    ):
        with pytest.raises(Exception, match=words):
            session.run(None, {"images": wrong})


@pytest.mark.slow
def test_an_exported_file_does_not_name_this_machine_s_folders(trained, written, tmp_path):
    folder = os.fsencode(Path(exporting.__file__).parents[1])
    for name in ("pt2", "openvino"):
        found = export(trained("vit", temperature=0.5), name, tmp_path / NAMES[name])
        assert found.num_images == 8 and found.largest < 1e-5 and found.num_labels == 0
    for path in (written, tmp_path / "m.pt2", tmp_path / "m" / "openvino_model.xml"):
        content = path.read_bytes()
        assert folder not in content and b"deployment.py" not in content


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("vit_later", "safetensors"),
        ("vit_mean", "timm"),
        ("vit_rotary", "timm"),
        ("vit_eva", "timm"),
        ("vit", "hf"),
        ("vit_post", "safetensors"),
        ("timm", "timm"),
        *(pytest.param("vit_later", name, marks=pytest.mark.slow) for name in ("openvino", "onnx")),
        *(pytest.param("vit_eva", name, marks=pytest.mark.slow) for name in ("openvino", "onnx", "pt2")),
        *(pytest.param(kind, "openvino", marks=pytest.mark.slow) for kind in ("vit_mean", "cnn")),
        pytest.param("cnn", "pt2", marks=pytest.mark.slow),
    ],
)
def test_formats_keep_the_calibrated_answers(trained, tmp_path, kind, name):
    made, path = trained(kind, temperature=0.5), tmp_path / "new" / NAMES[name]
    found = export(made, name, path)
    assert found.num_images == 8 and found.largest < 1e-5 and found.num_labels == 0
    batch = images(made.network.image_size, 4)
    with torch.inference_mode():
        theirs = export_format(name).read(made, path)(batch).numpy()
    np.testing.assert_allclose(theirs, answers(made, batch), atol=1e-5)
    if name in ("onnx", "openvino", "pt2"):  # the lines that the command prints compute as exactly
        code = f"{export_format(name).imports}\n{export_format(name).how_to_load(made, path)}"
        exec(code, scope := {"images": batch if name == "pt2" else batch.numpy()})
        np.testing.assert_allclose(scope["probabilities"], answers(made, batch), atol=1e-5)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("name", ["safetensors", "timm", "hf"])
def test_an_export_is_taken_back_by_this_program(trained, tmp_path, name):
    made, path = trained("vit"), tmp_path / NAMES[name]
    export(made, name, path)
    network = made.description.build()
    open_pretrained(str(path)).fill(network)
    again, expected = network.state_dict(), made.network.state_dict()
    assert all(torch.equal(again[key], expected[key]) for key in expected)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("vit_later", "safetensors"),
        ("vit_rotary", "timm"),  # LayerScale has another name there
        ("vit_eva", "safetensors"),
        ("vit_eva", "timm"),  # gates and values are layers of their own there
    ],
)
def test_a_network_whose_options_shapes_do_not_show_is_built_again_from_its_export(trained, tmp_path, kind, name):
    made, path = trained(kind), tmp_path / "m.safetensors"
    export(made, name, path)
    network = open_pretrained(str(path)).build(3).network.eval()
    batch = torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        torch.testing.assert_close(network(batch), made.network(batch))


@pytest.mark.parametrize("kind", ["vit", "vit_rotary"])
def test_the_lines_for_timm_are_code_that_runs(trained, tmp_path, kind):
    from safetensors import safe_open

    made, path = trained(kind, temperature=0.5), tmp_path / "m.safetensors"
    export(made, "timm", path)
    exec(f"{export_format('timm').imports}\n{export_format('timm').how_to_load(made, path)}", scope := {})
    model = scope["model"].eval()
    with torch.inference_mode():
        theirs = model(made.description.preprocess.normalize(images(8, 3))).softmax(dim=1)
    np.testing.assert_allclose(theirs, answers(made, images(8, 3)), atol=1e-5)
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["vit"])["temperature"] == 1.0, "it is in the weights, and must not come twice"
    data = scope["timm"].data.resolve_model_data_config(model)
    assert (data["input_size"], data["mean"], data["crop_pct"]) == ((3, 8, 8), (0.5, 0.4, 0.3), 8 / 9)


@pytest.mark.parametrize("name", ["timm", "hf"])
def test_code_for_other_libraries_says_what_becomes_of_color_profiles(trained, name):
    """Their transforms ignore embedded profiles."""
    made = trained("vit")
    code = export_format(name).how_to_load
    assert "# pictures upright (PIL.ImageOps.exif_transpose), on white, in sRGB" in code(made, Path("m"))
    ignoring = replace(made.description.preprocess, color_profiles="ignore")
    made = replace(made, description=replace(made.description, preprocess=ignoring))
    assert "sRGB" not in code(made, Path("m"))


def test_transformers_find_classes_and_preprocessing(trained, tmp_path, scene):
    from transformers import AutoConfig, AutoImageProcessor

    made, path = trained("vit"), tmp_path / "m"
    export(made, "hf", path)
    assert AutoConfig.from_pretrained(path).id2label == dict(enumerate(made.description.class_names))
    processor = AutoImageProcessor.from_pretrained(path)
    picture = scene(3, 90, 60)
    plain = made.description.preprocess
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    ours = plain.normalize(plain(pixels)[None])
    theirs = torch.as_tensor(np.array(processor(picture, return_tensors="np")["pixel_values"]))
    assert theirs.shape == ours.shape
    assert (theirs - ours).abs().max() < 2.5 / 255 / 0.2  # two gray levels: another resizer
    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()}
    assert len(modes) == 1, "weights are as readable as their config"


@pytest.mark.parametrize(
    ("name", "mode"), [("timm", "shortest"), ("hf", "shortest"), ("timm", "squash"), ("hf", "squash"), ("timm", "pad")]
)
def test_peers_see_files_as_the_checkpoint_does(trained, tmp_path, scene, name, mode):
    """From the bytes of photographs of odd shapes, through the library's own transform."""
    made, files = trained("vit", resize_mode=mode), []
    for number, (width, height) in enumerate([(90, 61), (33, 80), (8, 8), (20, 9), (7, 7)]):
        files.append(str(tmp_path / f"{number}.png"))
        scene(number, width, height).save(files[-1])
    turned = scene(9, 40, 30).convert("RGB")
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", quality=95, exif=exif)
    scene(10, 30, 40).convert("RGBA").resize((30, 40)).save(tmp_path / "whole.png")
    clear = scene(11, 30, 40).convert("RGBA")
    clear.putalpha(60)
    clear.save(tmp_path / "clear.png")
    files += [str(tmp_path / other) for other in ("turned.jpg", "whole.png", "clear.png")]
    seen = export(made, name, tmp_path / NAMES[name], files).peer
    assert seen.num_images == 7 and seen.num_others == 1 and seen.gray < 0.3 and seen.largest < 0.05


def test_no_processor_of_transformers_pads_with_a_color(trained, tmp_path):
    with pytest.raises(UsageError, match="no image processor of transformers pads") as refused:
        export(trained("vit", resize_mode="pad"), "hf", tmp_path / "folder")
    assert "timm" in refused.value.fix and not list(tmp_path.iterdir())


def test_a_graph_says_how_pictures_are_padded(trained):
    words = describe_input(trained("vit", resize_mode="pad"))
    assert "the longer side resized to 9" in words and "a shorter side is filled up with [" in words


def test_a_graph_says_which_values_a_window_makes_black_and_white(trained):
    made = trained("vit")  # of a TIFF with 16 bits for a color, too
    seen = replace(made.description.preprocess, window=(0.0, 4095.0))
    words = describe_input(replace(made, description=replace(made.description, preprocess=seen)))
    assert words.endswith("; values of more than 8 bits: 0 to 0, 4095 to 255")


@pytest.mark.parametrize(("size", "fraction"), [(size, f) for size in (8, 12, 96, 224, 299, 384) for f in FRACTIONS])
def test_timm_resizes_to_our_side(size, fraction):
    """timm rounds down and we round to the nearest: 24 of these 54 pairs would be off by a pixel."""
    plain = Preprocess(size, fraction)
    assert math.floor(size / _crop_pct(plain)) == plain.resize_side


def test_a_peer_that_cuts_one_pixel_beside_is_found(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "_crop_pct", lambda plain: plain.image_size / (plain.resize_side + 1))
    with pytest.raises(
        CheckpointError, match=r"the transform of timm prepares a random picture .* nothing was written"
    ):
        export(trained("vit"), "timm", tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("P2")
@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("cnn", "hf", "transformers does not have a model for the weights of resnet10_small"),
        ("vit_mean", "hf", "transformers' ViT does not have pool 'mean'"),
        ("cnn", "timm", "timm does not have resnet10_small, whose stem is made for small images"),
        ("ablated", "timm", "timm does not have vit_nano_ablated, a ViT that can lack parts of the paper"),
        ("vit_post", "timm", "norm_placement 'post'"),
        ("vit_later", "timm", "stem 'conv'"),
        ("vit_later", "hf", "stem 'conv'"),
        ("vit_rotary", "hf", "transformers' ViT does not have pos_embed 'rope2d'"),
        ("vit_eva", "hf", "transformers' ViT does not have "),
    ],
)
def test_what_a_format_cannot_hold_is_refused(trained, tmp_path, kind, name, words):
    with pytest.raises(UsageError, match=words):
        export(trained(kind), name, tmp_path / NAMES[name])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["cnn", "timm", "vit_mean", "vit_post", "vit_later", "vit_rotary", "vit_eva"])
def test_advice_for_other_formats_names_timm_only_where_it_has_the_network(trained, tmp_path, kind):
    made = trained(kind)
    with pytest.raises(UsageError) as refused:
        export(made, "hf", tmp_path / "m")
    assert {word.strip(",") for word in refused.value.fix.split()} >= {"onnx", "pt2", "safetensors"}
    try:
        export(made, "timm", tmp_path / "m.safetensors")
    except UsageError:
        assert "timm" not in refused.value.fix
    else:
        assert refused.value.fix.endswith("or timm")


def test_a_network_that_one_file_cannot_hold_is_refused(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "ONNX_MAX_BYTES", 1000)
    with pytest.raises(UsageError, match="larger than one ONNX file can be"):
        export(trained("vit"), "onnx", tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


class _Wrong(Weights):
    """A format that loses something."""

    def __init__(self, change) -> None:
        self.change = change

    def read(self, trained, path):
        right = super().read(trained, path)
        return lambda batch: self.change(right(batch))


@pytest.mark.faults("E1", simulated="an exporter that changes the answers")
@pytest.mark.parametrize(
    "change",
    [lambda p: p + 2e-4, lambda p: p.flip(1), lambda p: p * float("nan"), lambda p: (p * 1e3).softmax(dim=1)],
    ids=["a little off", "other labels", "no numbers", "no temperature"],
)
def test_a_file_that_differs_is_not_kept(trained, tmp_path, monkeypatch, change):
    monkeypatch.setitem(exporting.CORE_FORMATS, "safetensors", lambda: _Wrong(change))
    with pytest.raises(CheckpointError, match=r"differs from the checkpoint by up to .* nothing was written"):
        export(trained("vit"), "safetensors", tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_labels_are_compared_beyond_a_tie():
    def say(*rows):
        return lambda batch: torch.tensor(rows)[: len(batch)]

    two = [torch.zeros(2, 3, 1, 1)]
    one_other = compare(say([0.5, 0.5 - 5e-5], [0.7, 0.3]), say([0.5 - 5e-5, 0.5], [0.7, 0.3]), two)
    assert one_other == ExportDifference(2, pytest.approx(5e-5, rel=0.01), 1) and not one_other.is_small
    assert compare(say([0.5, 0.5], [0.7, 0.3]), say([0.5 - 1e-7, 0.5], [0.7, 0.3]), two).is_small
    assert not compare(say(), say(), []).is_small


def test_random_images_are_the_same_every_time_and_of_both_batch_sizes():
    one, other = random_images(8), random_images(8)
    assert [batch.shape[0] for batch in one] == [7, 1]
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_real_images_are_compared_and_unreadable_ones_passed_over(trained, tmp_path, mixed):
    from vit.inference.files import list_files

    files = list_files([mixed], recursive=False).paths
    found = export(trained("vit"), "safetensors", tmp_path / "m.safetensors", files)
    assert found.num_images == len(files) - 6
    with pytest.raises(DataError, match="no image can be read; files: 1;"):
        export(trained("vit"), "safetensors", tmp_path / "n.safetensors", [str(mixed / "notes.txt")])


def test_nothing_is_overwritten_and_endings_are_kept(trained, tmp_path):
    (tmp_path / "mine.onnx").write_text("mine")
    for name, path, words in (
        ("onnx", "mine.onnx", "exists"),
        ("onnx", "m.pt2", "ends in .onnx"),
        ("hf", "mine.onnx", "exists"),
    ):
        with pytest.raises(UsageError, match=words):
            export(trained("vit"), name, tmp_path / path)
    assert (tmp_path / "mine.onnx").read_text() == "mine"
    with pytest.raises(ResourceError, match="cannot write"):
        export(trained("vit"), "safetensors", tmp_path / "mine.onnx" / "m.safetensors")


def test_a_missing_package_is_named_with_its_extra(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(OnnxFile, "packages", ("onnx", "no_such_package"))
    with pytest.raises(UsageError, match=r"needs no_such_package; .* -m pip install -e '.*\[export\]'"):
        export(trained("vit"), "onnx", tmp_path / "m.onnx")


def test_every_format_is_a_format():
    names = get_args(inspect.signature(command).parameters["format"].annotation)
    assert set(names) == exporting.CORE_FORMATS.keys() | registry.FORMATS.keys()
    assert all(isinstance(export_format(name), Format) for name in names)


@pytest.mark.faults("F7")
@pytest.mark.parametrize("kind", ["file", "folder", "empty folder"])
def test_what_appears_under_the_name_meanwhile_stays(tmp_path, kind):
    """Another program makes a file or a folder of this name after the check, and before the export is named."""
    name, output = ("safetensors", tmp_path / "m.safetensors") if kind == "file" else ("hf", tmp_path / "m")
    with ExitStack() as export_of:
        written = export_of.enter_context(exporting.new_output(name, output))
        if kind == "file":
            written.write_text("mine")
            output.write_text("theirs")
        else:
            written.mkdir()
            (written / "config.json").write_text("mine")
            output.mkdir()
        if kind == "folder":
            (output / "config.json").write_text("theirs")
        with pytest.raises(UsageError, match="another program has made it"):
            export_of.close()
    assert os.listdir(tmp_path) == [output.name], "nothing of the export is left"
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert texts == ([] if kind == "empty folder" else ["theirs"])
