"""Blocks of code in README and guides run on small images, and shown outputs are what the program prints.

`<!-- not run: REASON -->` above a block says why it does not run. A block of `text` below a block that runs, or below
`<!-- prints: COMMAND -->`, is an output. Each of its lines is printed, but for numbers, names and paths, which only a
kept study has to have, too. `...` stands for lines that are left out.
"""

import contextlib
import fnmatch
import io
import re
import shlex
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import ask
from tests.processes import ROOT
from vit.commands.cli.command_line import command_parser
from vit.commands.studies import study_options
from vit.registry import command_module

PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
QUICK = {"predict", "unsure"}  # pages whose blocks run in seconds; the others are slow
ELSEWHERE = {"change_it": "tests/training/test_own_code.py"}
DATA = {"text", "csv", "yaml", "dockerfile"}
BLOCK = re.compile(r"(?:^<!-- (not run|prints): ([^\n]+) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLASSES = ("dress", "hat", "longsleeve", "outwear", "pants", "shirt", "shoes", "shorts", "skirt", "t-shirt")
RUN = "runs/photos/vit_tiny_patch16_224/20261125-171154"
STAND_INS = {  # patterns of words, and what is small enough
    "RUN": RUN,
    "A,B,...": "random:vit_nano_patch2_8",
    "timm:deit_tiny_patch16_224.fb_in1k,*": "random:vit_nano_patch2_8,random:resnet10_small",
    "vit_tiny_patch16_224,resnet18": "vit_nano_patch2_8,resnet10_small",
    "vit_tiny_cifar,resnet18_cifar": "vit_nano_patch2_8,resnet10_small",
    "vit_tiny_patch16_224": "vit_nano_patch2_8",
    "vit_tiny_cifar": "vit_nano_patch2_8",
    "timm:*": "test_vit.safetensors",
    "hf:*": "test_vit.safetensors",
    "deit_tiny_*.safetensors": "test_vit.safetensors",
    "tf_efficientnet_lite0.safetensors": "test_resnet.safetensors",
    "resnet50d": "test_resnet",
    "runs/birds/*": RUN,
    "runs/photos/*-diet": "runs/photos/*/*-diet",
    "runs/field_images/*": "runs/field_images/*/*",
}
VALUES = {
    "--budget": "steps:2",
    "--epochs": "2",
    "--patience": "1",
    "--folds": "2",
    "--seeds": "2",
    "--sizes": "20,all",
}
VALUES["--target_accuracy"] = "0.3"  # 20 validation images cannot promise more
SHORT = {"--epochs": "1", "--wandb": "off", "--data.num_workers": "0"}  # added where a command says nothing of them
ADDED = {"train": SHORT, "pretrain": SHORT, "crossval": {**SHORT, "--jobs": "1"}, "probe": {"--seeds": "2"}}
ADDED["study"] = {"--sizes": "20,all", "--seeds": "2", "--budget": "steps:2", "--yes": "true"}
FROM_WEIGHTS = {**SHORT, "--init_from": "test_vit.safetensors", "--optim.steps": "10"}  # as photographs start
del FROM_WEIGHTS["--epochs"]
LENGTHS = {"--epochs", "--freeze", "--time", "--optim.steps"}  # with one of them a command has no epochs


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        page: path of the page.
        line: its line on the page.
        language: word behind the first fence.
        text: its lines.
        reason: why it does not run; empty: it runs.
        is_output: whether it shows what the block above it prints.
        command: the command that prints it, where this is not the block above.
    """

    page: Path
    line: int
    language: str
    text: str
    reason: str = ""
    is_output: bool = False
    command: str = ""

    @property
    def runs(self) -> bool:
        return self.language in ("bash", "python") and not self.reason

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command line."""
        return [words for line in self.text.splitlines() if (words := shlex.split(line, comments=True))]

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def blocks(page: Path) -> list[Block]:
    text, found, end = page.read_text(encoding="utf-8"), [], 0
    for match in BLOCK.finditer(text):
        kind, said, language, code = match.groups()
        follows = bool(found) and found[-1].runs and language == "text" and not text[end : match.start()].strip()
        found.append(
            Block(
                page,
                text[: match.start()].count("\n") + 1,
                language,
                code,
                said if kind == "not run" else "",
                (follows and kind != "not run") or kind == "prints",
                said if kind == "prints" else "",
            )
        )
        end = match.end()
    return found


ALL = [block for page in PAGES for block in blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs_or_says_why_not(page):
    assert page.read_text(encoding="utf-8").count("\n```") == 2 * len(blocks(page)), "a fence is left over"
    for block in blocks(page):
        assert block.runs or block.reason or block.language in DATA, f"{block.place}: name a language, or a reason"
        if block.runs and block.language == "bash":
            assert all(words[0] == "vit" for words in block.commands), f"{block.place}: say why it is not run"


@pytest.mark.parametrize("block", [b for b in ALL if b.language == "bash"], ids=lambda block: block.place)
def test_command_lines_can_be_read(block):
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if "vit" in words[:2] and words[1:] != ["--help"]:
            read(*words[words.index("vit") + 1 :])


def test_the_readme_shows_the_end_of_the_first_hour():
    (shown,) = [block for block in blocks(ROOT / "README.md") if block.language == "text"]
    page = (ROOT / "docs" / "guides" / "first_hour.md").read_text(encoding="utf-8")
    assert shown.text.strip() and all(f"\n{line}\n" in page for line in shown.text.splitlines() if line)


def read(name, *words):
    """Read the options of a command line, and do nothing; the files that they name need not be here."""
    module = command_module(name)
    if name == "train":
        module.read_words(words)
    elif name == "study":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(study_options, "_options", lambda *_: None)
            study_options.read_words(words)
    elif name == "pretrain":
        module.read_words(words, module.PretrainRecipe)
    elif name == "crossval":
        module.crossval_parser().read_words(words)
    else:
        command = getattr(module, name)
        if isinstance(command, dict):
            command, words = command[words[0]], words[1:]
        parser = command_parser(command, name)
        parser.with_defaults(parser.read_words(words))


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory, draw_classes):
    """A working folder with what the pages name: photographs, new ones, weights, and a run."""
    import timm
    import torch
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("blocks")
    draw_classes(folder / "photos", CLASSES, 20)
    shutil.copytree(folder / "photos", folder / "labeled_photos")
    (folder / "holiday").mkdir()
    for name in CLASSES:
        for number in (0, 1):
            Image.open(folder / "photos" / name / f"0{number}.png").save(folder / "holiday" / f"{name}{number}.jpg")
    Image.effect_noise((64, 64), 50).save(folder / "new.jpg")
    (folder / "holiday" / "cut.jpg").write_bytes((folder / "new.jpg").read_bytes()[:1500])
    (folder / "holiday" / "notes.txt").write_text("no image")
    shutil.copy(folder / "holiday" / "hat0.jpg", folder / "photo.jpg")
    for name in ("test_vit", "test_resnet"):
        save_file(timm.create_model(name).state_dict(), folder / f"{name}.safetensors")
    state = timm.create_model("test_resnet").state_dict()
    torch.save({"arch": "test_resnet", "state_dict": state}, folder / "model_best.pth.tar")
    torch.save({"state_dict": state}, folder / "last.ckpt")
    with contextlib.chdir(folder):
        ask("train", "photos/", "--epochs", 16, "--lr", 0.01, "--wandb", "off", "--data.num_workers", 0).ok()
    (result,) = folder.glob("runs/**/result.json")
    (folder / RUN).parent.mkdir(parents=True)
    shutil.move(result.parent, folder / RUN)
    return folder


def several_labels(folder, labels_csv, labels_run):
    shutil.copytree(labels_csv.parent, folder, dirs_exist_ok=True)
    (folder / "tints.csv").rename(folder / "photos.csv")
    shutil.copy(folder / "photos.csv", folder / "more_photos.csv")
    shutil.rmtree(folder / RUN)
    shutil.copytree(labels_run.path, folder / RUN)


def imbalance(folder):
    rows = [f"photos/{name}/{i:02}.png,{name},{'test' if i > 15 else 'train'}" for name in CLASSES for i in range(20)]
    (folder / "photos.csv").write_text("\n".join(["path,label,split", *rows, ""]))


def distill(folder):
    (folder / "photos_cnn.yaml").write_text("model: {network: {name: resnet10_small}}\noptim: {epochs: 1}\n")
    teacher = "--distill.teacher=studies/taught/cells/digits_cnn/{images:07d}/seed{seed}-*"
    networks = f"networks: {{digits_cnn: digits_cnn, taught: 'digits {teacher}'}}"
    (folder / "distill.yaml").write_text(f"data: {{source: digits}}\n{networks}\n")
    shutil.copytree(folder / RUN, folder / "runs" / "photos" / "RUN")


def export(folder):
    assert ask("export", RUN, "--format", "openvino", "--output", "vit_tiny_patch16_224").code == 0


def far_images(folder):
    assert ask("data", "pack", "photos/", "imagenet_shards/").code == 0
    (folder / "imagenet_shards" / "index.parquet").unlink()


def science_images(folder):
    import numpy as np

    from tests.science_files import tiff

    generator = np.random.default_rng(0)
    for place in ("field_images/wheat", "field_images/maize", "new_images"):
        (folder / place).mkdir(parents=True)
        for number in range(12):
            values = generator.integers(900, 1400, (4, 16, 16), dtype=np.uint16)
            image = tiff(values, photometric="minisblack", planarconfig="separate")
            (folder / place / f"{number}.tif").write_bytes(image)


PREPARE = {
    prepare.__name__: prepare for prepare in (several_labels, imbalance, distill, export, far_images, science_images)
}


def small(words, added):
    """The command with small networks, few steps, and weights that are here; and with options that it does not say."""
    name, options = words[0], list(words[1:])
    for place, word in enumerate(options):
        before = options[place - 1] if place else ""
        pattern = next((one for one in STAND_INS if fnmatch.fnmatchcase(word, one)), "")
        options[place] = VALUES.get(before, STAND_INS.get(pattern, word))
    given = {word for word in options if word.startswith("--")}
    given |= LENGTHS if given & LENGTHS else set()
    given |= {"--wandb"} if "--tracker" in given else set()
    return [name, *options, *(part for pair in added.items() if pair[0] not in given for part in pair)]


def shape(line):
    """A line without what differs between two runs: numbers, names of classes and networks, and paths."""
    line = re.sub(r"^Training \S+", "Training NAME", line)
    line = re.sub(r"\b(32-true|bf16-mixed)\b", "PRECISION", line)
    line = re.sub(r"\S*/\S*|\b[\w-]+\.(csv|html|onnx|ckpt|json|safetensors|parquet)\b", "PATH", line)
    line = re.sub(rf"\b({'|'.join(CLASSES)})\b(?![/.])", "CLASS", line)
    line = re.sub(r"\b[a-z]+\d*(_[a-z0-9]+)+\b", "NAME", line)
    line = re.sub(r"[-+]?\d[\d,.]*(e-\d+)?", "#", line)
    return " ".join(line.split())


def run(block):
    """Run the commands or the Python of a block; what it prints."""
    if block.language == "python":
        with contextlib.redirect_stdout(io.StringIO()) as out:
            run_python(block)
        return out.getvalue()
    printed = ""
    for words in block.commands:
        has_weights = words[1] == "train" and block.page.stem in ("first_hour", "few_images")
        added = FROM_WEIGHTS if has_weights else ADDED.get(words[1], {})
        command = [part for word in small(words[1:], added) for part in expanded(word)]
        answer = ask(*command)
        assert answer.code == 0, f"{block.place}: vit {' '.join(command)}\n{answer.err}"
        printed += answer.out + answer.err
    return printed


def expanded(word):
    """The paths that a shell makes of a word."""
    return sorted(map(str, Path().glob(word))) if "/*" in word else [word]


def run_python(block):
    import vit

    train = vit.train

    def briefly(data, **options):
        options |= {"epochs": 1, "wandb": "off", "data.num_workers": 0}
        options |= {"network": "resnet10_small"} if "network" in options else {}
        return train(data, **options)

    with pytest.MonkeyPatch.context() as patch, Image.open("photo.jpg") as picture:
        patch.setattr(vit, "train", briefly)
        text = block.text.replace("target_accuracy=0.99", "target_accuracy=0.3")
        exec(compile(text, block.place, "exec"), {"picture": picture})


def report(command):
    """What a command prints of copies of kept studies."""
    words = shlex.split(command)[1:]
    for word in words:
        if word.startswith("evidence/"):
            shutil.copytree(ROOT / word, word)
    return ask(*words).out


def runs_of(pages):
    """A parameter for each page; the pages that take long are slow."""
    for page in pages:
        if page.stem not in ELSEWHERE and any(block.runs for block in blocks(page)):
            yield pytest.param(page, id=page.stem, marks=[] if page.stem in QUICK else pytest.mark.slow)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", list(runs_of(PAGES)))
def test_blocks_run_and_print_what_is_shown(page, sandbox, tmp_path, monkeypatch, request):
    folder = tmp_path / "work"
    shutil.copytree(sandbox, folder)
    monkeypatch.chdir(folder)
    if page.stem in PREPARE:
        prepare = PREPARE[page.stem]
        names = prepare.__code__.co_varnames[1 : prepare.__code__.co_argcount]
        prepare(folder, *map(request.getfixturevalue, names))
    out = ""
    for block in blocks(page):
        if block.runs:
            out = run(block)
        elif block.is_output:
            out = report(block.command) if block.command else out
            alike = str.strip if block.command else shape
            printed = {alike(line) for line in out.splitlines()}
            missing = [line for line in block.text.splitlines() if line.strip(" .") and alike(line) not in printed]
            assert not missing, f"{block.place} shows what is not printed: {missing}\n{out}"
