"""`label_column` and `image_column` of a CSV: honoured, or refused where DATA have no columns."""

import json
import shutil

import pytest

from tests.runs import run_folder
from tests.tables import rows
from vit.commands.studies.study_options import read_words as read_study_words

pytestmark = pytest.mark.usefixtures("here")
TINY = (
    "--network", "vit_nano_patch2_8", "--image_size", 8, "--model.network.depth", 1, "--data.num_workers", 0,
    "--optim.steps", 1, "--batch_size", 8, "--augment", "none", "--wandb", "off",
)  # fmt: skip


@pytest.fixture
def two(colors, here):
    """A CSV whose label is the number's parity, and whose species is the color; thumb is another picture."""
    shutil.copytree(colors, here / "images")
    lines = ["path,thumb,label,species"]
    for name in ("blue", "green", "red"):
        lines += [f"images/{name}/{i:02}.png,images/{name}/{i:02}.png,{'ab'[i % 2]},{name}" for i in range(14)]
    (here / "two.csv").write_text("\n".join(lines))
    return "two.csv"


def test_training_and_evaluation_read_the_given_column(vit, two, here):
    answer = vit("train", two, *TINY, "--dry_run")
    assert "2 classes: a, b" in answer.out and "labels are the column 'label', not 'species'" in answer.out
    answer = vit("train", two, *TINY, "--data.label_column", "species", "--data.image_column", "thumb", "--out", "runs")
    assert answer.code == 0 and "3 classes: blue, green, red" in answer.out, answer
    assert "'thumb' as path, 'species' as label" in answer.out and "not 'species'" not in answer.out
    run = run_folder(here / "runs")
    assert json.loads((run / "classes.json").read_text())["classes"] == ["blue", "green", "red"]
    vit("evaluate", run, two, "--include_seen").ok()  # the run's columns
    vit("evaluate", run, two, "--include_seen", "--label_column", "label").failed(3, "the model does not know: a, b")
    (here / "plain.csv").write_text("path,label\nimages/blue/00.png,blue\nimages/red/00.png,red\n")
    vit("evaluate", run, "plain.csv", "--include_seen").ok()  # has no column species
    assert vit("evaluate", run, "images", "--include_seen").code == 0
    words = ("--format", "safetensors", "--output", "m.safetensors", "--measure", two)
    assert "does not know" not in vit("export", run, *words).err


def test_a_study_has_the_options_that_errors_name():
    options = read_study_words(["two.csv", "--label_column", "species", "--image_column", "thumb"])
    assert options.data == {"label_column": "species", "image_column": "thumb"}


def test_check_pack_and_pretrain_read_the_given_column(vit, two, here):
    assert "3 classes" in vit("data", "check", two, "--label_column", "species").err
    assert vit("data", "pack", two, "packed", "--label_column", "species").code == 0
    assert "3 classes: blue, green, red" in vit("train", "packed", *TINY, "--dry_run").out
    (here / "bare.csv").write_text((here / two).read_text().replace("path,thumb,label", "one,two,three"))
    words = ("--data.image_column", "two", "--method", "diet", *TINY[:-4], "--wandb", "off", "--dry_run")
    vit("pretrain", "bare.csv", *words).ok("read 'two' as path")


@pytest.mark.faults("D35")
@pytest.mark.parametrize("option", ["label_column", "image_column"])
def test_a_column_that_does_not_exist_is_refused(vit, two, digits_run, option):
    said = f"{option} 'specie' is not a column of two.csv; did you mean 'species'?"
    for line in (
        ("train", two, *TINY, f"--data.{option}", "specie"),
        ("pretrain", two, f"--data.{option}", "specie", "--wandb", "off"),
        ("study", two, "--networks", "vit_nano_patch2_8", "--sizes", "all", f"--data.{option}", "specie"),
        ("crossval", two, *TINY, f"--data.{option}", "specie"),
        ("probe", two, "--backbones", digits_run.path, f"--{option}", "specie"),
        ("data", "check", two, f"--{option}", "specie"),
        ("data", "pack", two, "packed", f"--{option}", "specie"),
        ("evaluate", digits_run.path, two, f"--{option}", "specie"),
    ):
        answer = vit(*line)
        assert answer.code == 2 and said in answer.err, (line, answer.err)


@pytest.mark.faults("D35")
@pytest.mark.parametrize("option", ["label_column", "image_column"])
def test_columns_of_data_without_columns_are_refused(vit, two, digits_run, option, here):
    assert vit("data", "pack", "images", "packed").code == 0
    for data in ("images", "packed", "digits"):
        said = f"{option} 'species' is for parquet tables and CSV files, and {data} is neither"
        for line in (
            ("train", data, *TINY, f"--data.{option}", "species"),
            ("data", "check", data, f"--{option}", "species"),
            ("data", "pack", data, "other", f"--{option}", "species"),
            ("evaluate", digits_run.path, data, f"--{option}", "species"),
            ("pretrain", data, f"--data.{option}", "species", "--wandb", "off"),
        ):
            answer = vit(*line)
            assert answer.code == 2 and said in answer.err, (line, answer.err)
    assert not (here / "other").exists() and not (here / "runs").exists()


@pytest.mark.faults("D35")
@pytest.mark.parametrize("option", ["label_column", "image_column"])
def test_a_column_without_data_is_refused(vit, digits_run, option, here):
    """The column was ignored, and the labels of the training were measured."""
    answer = vit("evaluate", digits_run.path, f"--{option}", "species")
    assert answer.code == 2 and f"--{option} is for DATA" in answer.err and not list(here.iterdir())


@pytest.mark.faults("D35")
def test_prediction_reads_the_given_column(vit, digits_run, colors, here):
    names = [str(path) for path in sorted(colors.glob("*/*.png"))[:4]]
    (here / "list.csv").write_text("path,thumb\n" + "".join(f"{names[0]},{name}\n" for name in names))
    vit("predict", digits_run.path, "list.csv", "--image_column", "thumb", "--output", "rows.csv").ok()
    assert [row["path"] for row in rows("rows.csv")] == names
    vit("predict", digits_run.path, "list.csv", "--image_column", "thum").failed(2, "thumb")
    vit("predict", digits_run.path, colors, "--recursive", "--image_column", "thumb").failed(2, "image_column 'thumb'")
