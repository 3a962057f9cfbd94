"""Wrong words on the command line are errors before torch is imported, which takes seconds."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vit
from tests.processes import environment
from vit.data.core.dataset_names import TORCHVISION
from vit.data.sources import torchvision_source
from vit.models.catalog import suggestion
from vit.models.network_names import timm_names

ALL_IN_ONE = """
import contextlib, io, json, os, sys
from vit.__main__ import main
heavy = {"torch", "timm", "lightning", "torchvision", "sklearn", "pyarrow"}
for line in sys.stdin:
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(line.split())
    print(json.dumps([code, said.getvalue(), sorted(heavy & set(sys.modules)), sorted(os.listdir())]))
"""
WRONG = [
    ("train digits --network vit_tiny", 2, "did you mean 'vit_tiny_cifar' or 'vit_tiny_patch16_224'?"),
    ("train digits --network resnet_18", 2, "did you mean 'resnet18_cifar' or 'resnet18'?"),
    ("train digits --network vit_tiny_patch16_224 --image_size 95", 2, "95 is not divisible by patch_size 16"),
    ("train digits --image_size 1000000000", 2, "give a number >0 and <=8000, because images have at most 64,000,000"),
    ("study digits --set optim.lrr=3", 2, "vit train has no option --optim.lrr; did you mean '--optim.lr'?"),
    ("study digits --vary data.rot=3", 2, "did you mean '--data.root'?"),
    ("train nothing", 2, "DATA 'nothing'"),
    ("train no/thing", 3, "there is no no/thing"),
    ("train empty", 3, "empty has no class folders"),
    ("train digits --init_from nothing.ckpt", 4, "there is no checkpoint nothing.ckpt"),
    ("train digits --init_from https://host/x.pth", 4, "download it first"),
    ("train --resume nothing", 2, "nothing is not a run folder"),
    ("study digits --networks digits_cnnn", 2, "did you mean 'digits_cnn'?"),
    ("study digits --networks digits,vit_tyni_cifar", 2, "did you mean 'vit_tiny_cifar'?"),
    ("study nothing", 2, "DATA 'nothing'"),
    ("predict nothing empty", 4, "there is no checkpoint nothing"),
    ("predict m.ckpt nothing.jpg", 3, "there is no nothing.jpg"),
    ("predict m.ckpt empty", 3, "empty holds no files"),
    ("predict m.ckpt empty --output mine.csv", 2, "mine.csv exists"),
    ("predict m.ckpt empty --output rows.txt", 2, "rows.txt ends in .txt"),
    ("predict m.ckpt mine.csv --rows_per_part 5", 2, "--rows_per_part without --parts"),
    ("predict --merge empty --coverage 0.9", 2, "--merge takes a folder of --parts alone"),
    ("report empty --root sets", 2, "--root is for runs, and empty is a study"),
    ("compare nothing empty --root sets", 2, "--root without --page"),
    ("evaluate nothing digits", 4, "there is no checkpoint nothing"),
    ("evaluate empty digits", 4, "empty has no checkpoints/best.ckpt"),
    ("evaluate m.ckpt", 2, "DATA must be given"),
    ("evaluate m.ckpt nothing", 2, "DATA 'nothing'"),
    ("evaluate m.ckpt digits --output mine.csv", 2, "mine.csv is not an empty folder"),
    ("explain nothing empty", 4, "there is no checkpoint nothing"),
    ("explain m.ckpt nothing.jpg", 3, "there is no nothing.jpg"),
    ("inspect nothing", 4, "there is no checkpoint nothing"),
    ("export nothing", 4, "there is no checkpoint nothing"),
    ("export m.ckpt --verify nothing", 3, "there is no nothing"),
    ("convert nothing.pth --output x.ckpt", 4, "there is no file nothing.pth"),
    ("demo nothing", 4, "there is no checkpoint nothing"),
    ("data check no/thing", 3, "there is no no/thing"),
    ("predict mine.csv empty", 4, "mine.csv (4 bytes) is not a checkpoint: it is not a PyTorch file"),
    ("predict m.pt2 empty", 4, "m.pt2 ends in .pt2: such weights or exports are for other programs; give the run"),
    ("predict m.ckpt m.pt2 empty", 4, "m.pt2 ends in .pt2"),
    ("evaluate m.ckp empty", 4, "there is no file m.ckp, did you mean 'm.ckpt'?"),
    ("train empty --network vit_tiny_patch16_224 --image_size 95", 2, "patch_size 16, as 80 and 96 would be"),
    ("train emty/", 3, "did you mean 'empty'?"),
    ("train digits --early_stopping 3", 2, "did you mean '--patience'?"),
    ("train digits --resize_mod squash", 2, "did you mean '--resize_mode'?"),
    ("train digits --imgsz 32", 2, "did you mean '--image_size'?"),
    ("train digits --nothing_like_it 3", 2, "no option --nothing_like_it; see 'vit train --help all'"),
    ("predict m.ckpt empty --sort", 2, "did you mean '--sort_into'?"),
    ("version", 2, "there is no command 'version'; choose one of"),
    ("models vit_tny", 2, "did you mean 'vit_tiny_cifar' or 'vit_tiny_patch16_224'?"),
]


@pytest.mark.faults("K1")
def test_it_is_refused_without_torch(here):
    (here / "empty").mkdir()
    for name in ("m.ckpt", "m.pt2"):
        (here / name).write_bytes(b"PK")
    (here / "mine.csv").write_text("mine")
    done = subprocess.run(
        [sys.executable, "-c", ALL_IN_ONE], input="\n".join(line for line, _, _ in WRONG),
        env=environment(here), cwd=here, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(WRONG), done.stderr
    for (line, code, words), answer in zip(WRONG, answers, strict=True):
        assert answer[0] == code and words in answer[1] and answer[1].count("vit: error[") == 1, (line, answer)
        assert answer[2:] == [[], ["empty", "m.ckpt", "m.pt2", "mine.csv"]], (line, answer)


def test_names_are_those_of_what_they_name():
    import timm
    from timm.models._registry import _deprecated_models

    assert set(torchvision_source.SETS) == TORCHVISION
    assert timm_names() == {*timm.list_models(), *_deprecated_models}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vit_smal_patch16_224", "did you mean 'vit_small_patch16_224'?"),
        ("resnet18_cifa", "did you mean 'resnet18_cifar'?"),
        ("convnext_tny", "did you mean 'convnext_tiny'?"),
        ("resnet50x", "did you mean 'resnet50'?"),
        ("timm:tf_efficientnet_lite0.in1k", "did you mean 'tf_efficientnet_lite0'?"),
    ],
)
def test_names_of_ours_are_suggested_first(name, words):
    assert suggestion(name) == words


def test_no_advice_destroys():
    """Only an empty folder, a line or a column of a table may go: files and folders are left out or moved elsewhere."""
    advice = re.compile(
        r'"[^"]*\b(?:remove|delete) (?:it|them|this|its|one of|(?:the )?(?:folder|file|page|image|cop|oth))'
    )
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(Path(vit.__file__).parent.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if advice.search(line) and '"""' not in line
    ]
    line = 'fix = to_convert or (others if skipped_here else "remove it")  # a folder without any file'
    assert found == [f"folder_source.py: {line}"]
