"""Commands import only what they need: seconds of waiting that no command may bring back."""

import json
import subprocess
import sys

import pytest

from tests.processes import environment
from tests.runs import run_folder

RUN_AND_WATCH = """
import contextlib, io, json, sys
from vit.__main__ import main
watched, seen = json.loads(sys.argv[1]), set()
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(json.loads(line))
    new = {name for name in watched if name in sys.modules} - seen
    seen |= new
    print(json.dumps([code, said.getvalue(), sorted(new)]))
"""
WATCHED = (
    "huggingface_hub", "jinja2", "lightning", "matplotlib", "onnxruntime", "pandas", "scipy", "scipy.optimize",
    "scipy.stats", "sklearn", "timm", "torch", "torchmetrics", "torchvision", "transformers", "wandb",
)  # fmt: skip


def new_imports(folder, *commands):
    """The watched modules that each command of one process imports first."""
    lines = "\n".join(json.dumps([str(word) for word in command]) for command in commands)
    done = subprocess.run(
        [sys.executable, "-c", RUN_AND_WATCH, json.dumps(WATCHED)],
        cwd=folder, env=environment(folder), input=lines, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(answers) == len(commands), done.stderr
    assert [said for code, said, _ in answers if code] == []
    return [set(new) for *_, new in answers]


VIT, CNN = (
    ("--network", *words, "--image_size", 8, "--epochs", 1, "--batch_size", 8, "--wandb", "off", "--seed", 1)
    for words in (("vit_nano_patch2_8", "--model.network.depth", 1), ("resnet10_small",))
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, colors, vit):
    """(run of a ViT, run of a CNN)."""
    folder = tmp_path_factory.mktemp("trained")
    assert [vit("train", colors, *words, "--out", folder / words[1]).code for words in (VIT, CNN)] == [0, 0]
    return [run_folder(folder / words[1]) for words in (VIT, CNN)]


# scikit-learn imports pandas where it is installed, as here
@pytest.mark.slow
def test_commands_import_what_they_compute_with(trained, colors, tmp_path):
    """The commands of one process: each may import what is named, and what those before it have imported."""
    (vit, cnn), image = trained, colors / "red" / "00.png"
    steps = [
        (("predict", vit, image), {"torch", "torchvision"}),
        (("predict", vit, image, "--gallery"), {"jinja2"}),
        (("evaluate", vit), {"matplotlib", "pandas", "scipy", "scipy.optimize", "scipy.stats", "sklearn"}),
        (("explain", vit, image, "--method", "rollout", "--output", "maps"), set()),
        (("inspect", vit, "--output", "inside"), set()),
        (("report", vit), set()),
        # Lightning imports torchmetrics, which imports transformers where it is installed; no timm, and no tracker
        (("train", colors, *VIT, "--out", "runs"), {"huggingface_hub", "lightning", "torchmetrics", "transformers"}),
        (("predict", cnn, image), {"timm"}),  # our small CNNs are timm's ResNet
    ]
    found = new_imports(tmp_path, *(command for command, _ in steps))
    assert dict(zip([command for command, _ in steps], found, strict=True)) == dict(steps)


def test_listing_and_comparing_runs_import_neither_torch_nor_figures(trained, tmp_path):
    vit, cnn = trained
    listing, comparing = new_imports(tmp_path, ("runs", vit), ("compare", vit, cnn))
    assert listing == set() and comparing == {"scipy", "scipy.optimize", "scipy.stats"}
