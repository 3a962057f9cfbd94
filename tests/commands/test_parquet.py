"""Commands on parquet tables: a training on a table is the training on the same images in folders."""

import json

import pytest
import yaml
from huggingface_hub import constants

from tests.data.parquet.hub import Hub, Repository
from tests.data.parquet.written import rows_of, write
from tests.runs import run_folder, trained
from tests.tables import rows

pytestmark = pytest.mark.usefixtures("here")
NAMES = ("blue", "green", "red")
TINY = (
    "--network", "vit_nano_patch2_8", "--image_size", 8, "--model.network.depth", 1, "--data.num_workers", 0,
    "--epochs", 2, "--batch_size", 8, "--wandb", "off", "--precision", "32-true",
)  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory, colors):
    return write(tmp_path_factory.mktemp("table") / "colors.parquet", *rows_of(colors, NAMES), NAMES)


@pytest.fixture(scope="module")
def run(tmp_path_factory, table):
    """A run on the table. Tests must not write to it."""
    return trained(tmp_path_factory.mktemp("runs"), table, *TINY)


def test_the_training_is_that_of_the_folder(run, colors, here):
    other = trained(here / "folder", colors, *TINY)
    ours, theirs = ({(row["label"], row["split"], row["content"]) for row in rows(one / "splits.csv")}
                    for one in (run, other))  # fmt: skip
    assert ours == theirs and len(ours) == 42
    losses = [[(row["train/loss"], row["val/loss"]) for row in rows(one / "metrics.csv")] for one in (run, other)]
    assert losses[0] == losses[1] and len(losses[0]) >= 2
    assert json.loads((run / "classes.json").read_text()) == json.loads((other / "classes.json").read_text())


def test_the_test_images_are_found_again_and_seen_images_are_left_out(vit, run, table, colors):
    assert vit("evaluate", run).code == 0
    vit("evaluate", run, colors).noted("left out: 30 images")
    vit("evaluate", run, table, "--include_seen").ok()


def test_predict_check_and_pack(vit, run, table, colors, here):
    assert vit("predict", run, table, "--output", "p.csv", "--gallery").code == 0
    assert vit("predict", run, colors, "--recursive", "--output", "q.csv").code == 0
    found, expected = rows(here / "p.csv"), rows(here / "q.csv")
    assert [row["path"] for row in found[:2]] == ["colors/000000/00.png", "colors/000001/01.png"]
    assert [(row["label"], row["probability"]) for row in found] == [
        (row["label"], row["probability"]) for row in expected
    ]
    assert vit("data", "check", table).code == 0
    vit("data", "pack", table, "packed").ok("42 images in 1 shard, ")
    vit("predict", run, table, colors).failed(2, "among other inputs")


def test_pretrain_needs_no_labels(vit, colors, here):
    images, _ = rows_of(colors, NAMES)
    file = write(here / "plain.parquet", images, [0.5] * 42, None)
    options = ("--data.labels", "none", "--out", "pretrained", *TINY[:-2])
    answer = vit("pretrain", file, *options)
    assert answer.code == 0 and (run_folder(here / "pretrained") / "backbone.safetensors").is_file(), answer.err


@pytest.mark.faults("L21")
@pytest.mark.slow
def test_a_column_of_labels_that_must_be_chosen(vit, colors, here):
    images, labels = rows_of(colors, NAMES)
    metadata = {"shape": labels, "size": [label % 2 for label in labels]}
    file = write(here / "two.parquet", images, [0.5] * 42, None, columns={key: [*row] for key, row in metadata.items()})
    vit("train", file, *TINY).failed(3, "no column of labels", "'shape' (int64)", "--label_column")
    run = trained(here / "runs", file, *TINY, "--data.label_column", "size")
    assert json.loads((run / "classes.json").read_text())["classes"] == ["0", "1"]
    assert vit("evaluate", run).code == vit("evaluate", run, file, "--include_seen").code == 0
    assert vit("data", "check", file, "--label_column", "shape").code in (0, 5)
    vit("data", "check", file, "--label_column", "shap").failed(2, "did you mean 'shape'")
    answer = vit("pretrain", file, *TINY[:-2], "--data.label_column", "size", "--out", "pretrained")
    assert answer.code == 0 and "Next: vit train two.parquet --data.label_column size --init_from" in answer.out, (
        answer.err
    )


@pytest.mark.slow
def test_a_run_records_the_revision_of_the_hub(vit, colors, here, monkeypatch):
    content = write(here / "t.parquet", *rows_of(colors, NAMES), NAMES).read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    with Hub() as hub:
        hub.repositories["o/plain"] = Repository({"main": {"data/train-00000-of-00001.parquet": content}})
        for name, value in (
            ("HF_HUB_CACHE", str(here / "hf")), ("HF_HUB_OFFLINE", False), ("ENDPOINT", hub.address),
            ("HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}"),
        ):  # fmt: skip
            monkeypatch.setattr(constants, name, value)
        vit("train", "hf:o/plain", *TINY, "--out", "runs").ok()
        run, pinned = run_folder(here / "runs"), f"hf:o/plain@{hub.repositories['o/plain'].commit('main')}"
        assert yaml.safe_load((run / "config.yaml").read_text())["data"]["source"] == pinned
        assert run.parts[-3] == "plain"
        hub.repositories["o/plain"] = Repository({"main": {"other.txt": b""}})  # the run reads what it has read
        assert vit("evaluate", run).code == 0
        assert vit("predict", run, pinned).code == 0


@pytest.mark.slow
def test_a_study_and_a_probe(vit, table):
    options = ("--sizes", "10,all", "--seeds", 2, "--budget", "steps:3", "--networks", "vit_nano_patch2_8")
    vit("study", table, *options, "--wandb", "off", "--name", "one").ok()
    vit("probe", table, "--backbones", "random:vit_nano_patch2_8", "--image_size", 8, "--seeds", 2).ok()
