"""`vit explain`: pictures, a page and rows for a ViT and a CNN, whatever files are called, and its refusals."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.commands.following import next_words
from tests.tables import formulas, rows
from vit.checkpoints.format import Description, checkpoint_content
from vit.data.pixels.preprocess import Preprocess
from vit.models.spec import NetworkSpec

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def picture(here):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(here / "leaf.png")
    return here / "leaf.png"


@pytest.fixture
def cnn(here):
    """A checkpoint of a small CNN with random weights and classes that are text."""
    class_names = ("=1+1", "<b>bold</b>")
    spec = NetworkSpec.named("resnet10_small", len(class_names), {"widths": (4, 4, 4, 4)})
    about = Description(class_names, spec, Preprocess(16))
    torch.save(checkpoint_content(about, spec.build(16).state_dict()), here / "cnn.ckpt")
    return here / "cnn.ckpt"


def test_a_vit_is_explained_by_every_method(vit, digits_run, picture, here):
    answer = vit("explain", digits_run.path, picture, "--layers", "0,3", figures=True).ok()
    assert " cpu, 32-true" in answer.err  # `vit predict` may take bf16-mixed, whose probabilities differ
    table = rows(here / "explanations" / "explanations.csv")
    assert [row["method"] for row in table] == ["attention", "rollout", "relevance", "gradcam"]
    assert all(0 <= float(row[name]) <= 1 for row in table for name in ("deletion", "insertion", "random"))
    assert len({row["random"] for row in table}) == 1 and len({row["deletion"] for row in table}) > 1
    made = sorted(path.name for path in (here / "explanations").iterdir())
    assert made == ["0001-leaf-heads.png", "0001-leaf.png", "explanations.csv", "explanations.html"]
    with (
        Image.open(here / "explanations" / "0001-leaf.png") as strip,
        Image.open(here / "explanations" / "0001-leaf-heads.png") as heads,
    ):
        assert strip.width > 4 * strip.height > 400 and heads.width > heads.height  # five pictures; 2 blocks, 4 heads
    html = (here / "explanations" / "explanations.html").read_text()
    assert html.count("<img ") == 6 and "leaf.png" in html and table[0]["explained"] in html
    assert "of 1" in answer.out and answer.out.strip().splitlines()[-1].startswith(
        f"Next: vit inspect {digits_run.path} "
    )


def test_a_cnn_is_explained_by_grad_cam_and_names_stay_text(vit, cnn, picture, here):
    answer = vit("explain", cnn, picture, "--label", "<b>bold</b>", "--output", "why", figures=True).ok()
    (row,) = rows(here / "why" / "explanations.csv")
    assert row["method"] == "gradcam" and row["explained"] == "<b>bold</b>" and row["label"] in ("=1+1", "<b>bold</b>")
    assert formulas(here / "why" / "explanations.csv") == []
    html = (here / "why" / "explanations.html").read_text()
    assert "<b>bold" not in html and "&lt;b&gt;bold" in html
    assert answer.out.strip().splitlines()[-1] == f"Next: vit predict {cnn} {picture} --gallery"  # inspect is for ViTs


def test_the_next_command_reads_the_same_files(vit, digits_run, cnn, draw_classes, here):
    draw_classes(here / "photos", ("a", "b"), 1)
    quick = ("--method", "gradcam", "--faithfulness", "false", "--recursive")
    for model in (digits_run.path, cnn):
        answer = vit("explain", model, "photos", *quick).ok()
        assert vit(*next_words(answer)).code == 0, next_words(answer)


def test_odd_names_and_bad_files_are_told_and_nothing_is_overwritten(vit, digits_run, mixed, here):
    quick = ("--method", "attention", "--faithfulness", "false")
    answer = vit("explain", digits_run.path, mixed, *quick).ok()
    assert "WARNING: 6 files could not be read" in answer.err and "notes.txt" in answer.err
    assert f"1 folder in {mixed} was not read (--recursive reads it)" in answer.err.splitlines()
    assert "\x1b" not in answer.out + answer.err
    table = rows(here / "explanations" / "explanations.csv")
    assert len(table) == 14 and {row["deletion"] for row in table} == {""}
    pictures = list((here / "explanations").glob("*.png"))
    assert len(pictures) == 14 and all(path.name.isascii() and path.name[:4].isdigit() for path in pictures)
    html = (here / "explanations" / "explanations.html").read_text()
    assert "<script" not in html and "&lt;script&gt;alert(1)&lt;.png" in html and "\x1b" not in html
    assert "How far to believe" not in html and "notes.txt" in html
    assert vit("explain", digits_run.path, mixed / "a b.png", *quick).code == 0
    assert (here / "explanations-2" / "0001-a-b.png").is_file()
    again = vit("explain", digits_run.path, mixed / "a b.png", *quick, "--output", "explanations-2")
    assert again.code == 2 and "explanations-2 exists" in again.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "rolout"], ["'rolout'", "'rollout'"]),
        (["--label", "zebra"], ["'zebra'", "no class"]),
        (["--layers", "4"], ["'4'", "0 to 3"]),
        (["--layers", "last"], ["'last'", "0 to 3"]),
        (["table.parquet"], ["table.parquet is a table", "give files or folders of images"]),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("--") else None,
)
def test_wrong_usage(vit, digits_run, picture, here, options, words):
    (here / "table.parquet").touch()
    answer = vit("explain", digits_run.path, picture, *options)
    assert answer.code == 2 and answer.err.count("\n") == 1
    assert all(word in answer.err for word in words)
    assert not (here / "explanations").exists()


def test_a_cnn_has_no_attention(vit, cnn, picture, mixed):
    for options, words in ((["--method", "rollout"], "SmallImageResNet"), (["--layers", "all"], "cannot be read")):
        vit("explain", cnn, picture, *options).failed(2, words)
    vit("explain", cnn, mixed / "notes.txt").failed(3, "no image can be read in 1 file;")
