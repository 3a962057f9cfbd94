"""Names of classes and files that are formulas to a spreadsheet, from the folder of images through every command."""

import shutil
from pathlib import Path

import pytest

from tests.tables import formulas, rows
from vit.data.sources.sources import open_source

CLASSES = ("=cmd|'calc'!A0", "@SUM(1)", "a;=1+1", "'=quoted")
QUICK = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--epochs", 1, "--wandb", "off",
    "--data.num_workers", 0,
)  # fmt: skip


@pytest.mark.faults("H2")
def test_no_table_of_any_command_holds_a_formula(vit, draw_classes, here):
    photos = draw_classes(here / "photos", CLASSES, 8)
    for file in sorted(photos.rglob("*.png")):
        file.rename(file.with_name(f"-2+3;={file.name}"))
    names = {file.name for file in photos.rglob("*.png")}

    def done(*words, codes=(0,)):
        answer = vit(*words, drawn=words[0] != "train")  # names are in figures
        assert answer.code in codes, answer.err
        return answer

    def trained(data, seed):
        before = set(here.glob("runs/*/*/*"))
        done("train", data, *QUICK, "--seed", seed)
        (run,) = set(here.glob("runs/*/*/*")) - before
        return run

    one = trained(photos, 0)
    two = trained(photos, 1)
    assert set(open_source(str(one / "splits.csv")).class_names) == set(CLASSES)  # training reads what a run wrote
    for run in (one, two):
        listed = rows(run / "splits.csv")
        assert {row["label"] for row in listed} == set(CLASSES)
        assert all(Path(row["path"]).is_file() for row in listed)
        tested = rows(run / "predictions" / "test.csv")
        assert {row["label"] for row in tested} == set(CLASSES)
        assert {Path(row["path"]).name for row in tested} <= names
    done("compare", one, two, "--output", "compared.csv")
    done("evaluate", one, "--output", "evaluated")
    (photos / CLASSES[0] / "=broken.png").write_bytes(b"no image")
    shutil.copy(next((photos / CLASSES[1]).iterdir()), photos / CLASSES[0] / "=copy.png")
    done("data", "check", photos, "--output", "checked.csv", codes=(5,))
    done("predict", one, photos, "--recursive", "--output", "predicted.csv")
    assert {Path(row["path"]).name for row in rows("predicted.csv")} > names
    done("explain", one, next((photos / CLASSES[2]).iterdir()), "--output", "explained")
    tables = sorted(here.rglob("*.csv"))
    assert {table.name for table in tables} == {
        "splits.csv", "metrics.csv", "validation.csv", "test.csv", "compared.csv", "predictions.csv", "checked.csv",
        "predicted.csv", "explanations.csv",
    }  # fmt: skip
    assert {str(table): found for table in tables if (found := formulas(table))} == {}
