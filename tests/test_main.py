"""`vit`: its help, its errors as one line and a code, and who imports whom."""

import gc
import os
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest
import torch

import vit.__main__ as program
from vit.errors import ResourceError
from vit.training.recipes.recipe import Recipe

COMMANDS = sorted(program.COMMANDS)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(program.__file__).parents[1])}
ENVIRONMENT.pop("PYTHONUNBUFFERED", None)  # what a pipe refuses may show at exit alone


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )


def refused(answer, code: int, *words: str) -> None:
    """The answer is one line on standard error with the code, and says all the words."""
    assert answer.failed(code, *words).err.count("\n") == 1


HELP_OF_ALL = """
import sys
from vit.__main__ import main
for words in sys.argv[1:]:
    assert main([*words.split(), "--help"]) == 0
    slow = {"torch", "lightning", "timm", "numpy"} & sys.modules.keys()
    assert not slow, (words, slow)
"""


def test_help_answers_without_torch(tmp_path):
    """Of all commands in one process: none may import what computes."""
    lines = [sys.executable, "-c", HELP_OF_ALL, "", *COMMANDS]
    done = subprocess.run(lines, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f"usage: vit {command}" in done.stdout for command in COMMANDS)


def test_help_lists_the_commands(vit):
    for argument in ("--help", "-h", "help"):
        assert all(f"\n  {name} " in vit(argument).out for name in COMMANDS)
    assert vit().out == vit("--help").out


def test_every_command_collects_seldom(vit):
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], 10)
    try:
        assert vit("--version").code == 0
        assert gc.get_threshold()[2] > 100
    finally:
        gc.set_threshold(*before)


def test_version_is_the_package_s(vit):
    from importlib.metadata import version

    assert vit("--version").out.strip() == version("vit-lightning")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_one_screen_with_an_example(vit, command):
    answer = vit(command, "--help")
    assert answer.code == 0 and answer.err == ""
    lines = answer.out.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) < 80, "one screen"
    assert f"example: vit {command}" in answer.out
    whole = vit(command, "--help", "all")
    assert whole.code == 0 and len(whole.out) >= len(answer.out) - 200


def test_env_names_versions_device_and_extras_and_no_path(vit, here):
    answer = vit("env")
    assert answer.code == 0 and answer.err == ""
    for word in (
        "vit        0.1.0",
        "Python",
        "device     cpu",
        "cores",
        f"torch {torch.__version__.partition('+')[0]}",
        "explain",
    ):
        assert word in answer.out
    assert "/" not in answer.out and "not installed" not in answer.out


def test_short_help_flag(vit):
    assert vit("train", "-h").out == vit("train", "--help").out


def test_train_help_shows_the_usual_options_with_their_defaults(vit):
    helped = vit("train", "--help").out
    assert helped.startswith("usage: vit train [DATA] [options]\n")
    for line in ("  --epochs N .*\\[50\\]", "  --lr X .*\\[0.001\\]", "  --network NAME .*\\[auto\\]", "length:"):
        assert re.search(f"^{line}$", helped, re.MULTILINE), line


def test_help_of_a_section_names_every_key_of_it(vit):
    sections = {name: kind for name, kind in get_type_hints(Recipe).items() if is_dataclass(kind)}
    whole = vit("train", "--help", "all").out
    for section, kind in sections.items():
        helped = vit("train", "--help", section).out
        for item in fields(kind):
            keys = (
                [f"{item.name}.{part.name}" for part in fields(item.type)] if is_dataclass(item.type) else [item.name]
            )
            assert all(f"--{section}.{key}" in helped and f"--{section}.{key}" in whole for key in keys)
        assert not any(f"--{other}." in helped for other in sections.keys() - {section})
    refused(vit("train", "--help", "optm"), 2, "no such section", "did you mean 'optim'?")


def test_train_help_names_what_decides_the_test_images(vit):
    told = " ".join(vit("train", "--help", "data").out.split()).partition("--data.split_seed ")[2]
    assert "`split_seed`, `validation`, `test`, `groups` and `bursts`" in told.partition("--data.groups")[0]


@pytest.mark.faults("K1", "K2", "K7")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["trian"], ["'trian'", "did you mean 'train'?"]),
        (["train", "--epocs", "3"], ["--epocs", "'--epochs'"]),
        (["train", "--optim.epocs", "3"], ["--optim.epocs", "'--optim.epochs'"]),
        (["train", "--optim.epocs=3"], ["--optim.epocs", "'--optim.epochs'"]),
        (["predict", "run", "images", "--precison", "auto"], ["--precison", "'--precision'"]),
        (["train", "--epochs", "0"], ["optim.epochs", "0"]),
        (["train", "--lr", "-1"], ["optim.lr", "-1", ">0"]),
        (["train", "--epochs", "many"], ["optim.epochs", "many"]),
        (["train", "--data.validation", "1"], ["data.validation", "<1"]),
        (["train", "--augment.magnitude", "31"], ["augment.magnitude", "<=30"]),
        (["train", "--augment", "lihgt"], ["augment.name", "lihgt", "'light'"]),
        (["train", "--optim.optimizer", "adam"], ["optim.optimizer", "'adamw'"]),
        (["train", "digits", "--network", "vit_nano_patch2_9"], ["vit_nano_patch2_9", "'vit_nano_patch2_8'"]),
        (["train", "digits", "--model.network.depht", "3"], ["model.network.depht", "'depth'"]),
        (["train", "dgits"], ["'dgits'", "'digits'"]),
        (["train", "--config", "fashion_mnits"], ["fashion_mnits", "'fashion_mnist'"]),
        (["train", "--seed"], ["--seed needs a value"]),
        (["train", "photos", "more"], ["'photos'", "'more'"]),
        (["train", "digits", "--precision", "16-mixed"], ["16-mixed", "GPU"]),
        (["train", "digits", "--image_size", "9", "--network", "vit_nano_patch2_8"], ["image_size 9", "patch_size 2"]),
        (["train", "digits", "--batch_size", "10", "--optim.accumulate", "3"], ["10", "multiple of 3"]),
        (["train", "digits", "--data.validation", "0"], ["data.validation is 0"]),
        (["train", "digits", "--data.validation", "0.5", "--data.test", "0.6"], ["0.5", "0.6", "no training images"]),
        (["train", "digits", "--trainer.accelerator", "cpuu"], ["'cpuu'", "'cpu'"]),
        (["predict", "run"], ["IMAGES"]),
        (["evaluate"], ["model"]),
        (["evaluate", "run", "--split", "tset"], ["split", "tset", "'test'"]),
        (["predict", "run", "images", "--top_k", "0"], ["top_k"]),
        (["predict", "run", "images", "--output", "rows.xlsx"], ["rows.xlsx", ".csv"]),
        (["models", "--limit", "0"], ["limit"]),
        (["models", "--limit", "9" * 5000], ["limit"]),
        (["train", "digits", "--time", "9" * 20 + "h"], ["--time", "90s"]),
        (["runs", "a" * 300], ["File name too long" if sys.version_info < (3, 14) else "there is no folder"]),
        (["runs", "~no.such.user/runs"], ["~", "whole path"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage(vit, line, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(vit(*line), 2, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("K1", "K5")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("optim: {epochz: 3}", ["optim.epochz", "'optim.epochs'"]),
        ("optm: {epochs: 3}", ["optm.epochs", "'optim.epochs'"]),
        ("optim: {epochs: 0}", ["optim.epochs"]),
        ("augment: {name: lihgt}", ["augment.name", "'light'"]),
        ("optim: [1", ["parsing"]),
        ("data: !!python/object/apply:os.system ['touch marker']", ["python/object"]),
        ("model: {preprocess: {image_sise: 8}}", ["image_sise"]),
    ],
)
def test_wrong_recipe(vit, text, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(text)
    refused(vit("train", "--config", "recipe.yaml"), 2, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


@pytest.mark.faults("H3")
def test_error_text_cannot_move_the_cursor(vit):
    refused(vit("predict", "no\n\x1b[31mrun", "images"), 4, r"no\n\x1b[31mrun")


@pytest.mark.parametrize(
    ("failure", "code", "words"),
    [
        (RuntimeError("first line\nsecond"), 1, ["internal error: RuntimeError: first line;", "--debug"]),
        (KeyboardInterrupt(), 130, ["interrupted"]),
        (KeyboardInterrupt("of a library"), 130, ["interrupted"]),
        (MemoryError(), 7, ["memory", "--batch_size"]),
        (ResourceError("no room", "make room"), 7, ["no room; make room"]),
        (OSError(28, "No space left on device", "rows.csv"), 7, ["No space left on device: rows.csv"]),
        (OSError(95, "Operation not supported"), 1, ["internal error: OSError"]),
        (
            type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory"),
            7,
            ["CUDA out of memory", "--batch_size"],
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_failures_become_codes(vit, monkeypatch, failure, code, words):
    def fail(_):
        raise failure

    monkeypatch.setattr(program, "_dispatch", fail)
    refused(vit("train"), code, *words)


@pytest.mark.parametrize(("before", "code", "said"), [
    ("default_int_handler", -2, "vit: error[130]: interrupted\n"),
    ("SIG_IGN", 0, ""),  # as of a program in the background of a shell
])  # fmt: skip
def test_a_second_ctrl_c_at_the_end_shows_no_traceback(tmp_path, before, code, said):
    script = f"import atexit, signal; import vit.__main__ as program; signal.signal(2, signal.{before})\n"
    script += "end = lambda *_: signal.raise_signal(2)\n"
    script += "atexit.register(end); program._dispatch = end; raise SystemExit(program.main())"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, said)


def test_sigterm_ends_a_command_as_ctrl_c_does(tmp_path):
    """What the command began is removed, and a line says how it ended."""
    script = "import signal, tempfile; import vit.__main__ as program\n"
    script += "def export(_):\n with tempfile.TemporaryDirectory(dir='.'): signal.raise_signal(15)\n"
    script += "program._dispatch = export; raise SystemExit(program.main())"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (143, "vit: error[143]: terminated\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_debug_shows_the_traceback(vit, monkeypatch, how):
    if how == "variable":
        monkeypatch.setenv("VIT_DEBUG", "1")
    with pytest.raises(Exception, match="no command 'trian'"):
        vit("trian", *(["--debug"] if how == "flag" else []))


@pytest.mark.faults("K10")
@pytest.mark.parametrize(
    "command", ["--help", "train --help", "train --print_config", pytest.param("models", marks=pytest.mark.slow)]
)
def test_a_reader_that_goes_away_is_no_error(tmp_path, command):
    script = f"(sleep 0.1; exec {sys.executable} -m vit {command}; ) | true; echo ${{PIPESTATUS[0]}}"
    done = shell(script, tmp_path)
    assert done.stdout.strip() in {"0", "141"}  # argparse keeps quiet about it, and ends with 0
    assert done.stderr == ""


def test_a_log_on_a_full_disk_does_not_change_the_code(tmp_path):
    assert shell(f"{sys.executable} -m vit trian 2> /dev/full", tmp_path).returncode == 2


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_outputs_go_nowhere(tmp_path, closed):
    """As some daemons start programs: the next file would get the number of standard output."""
    done = shell(f"{sys.executable} -m vit data check nowhere {closed}", tmp_path)
    assert done.returncode in (2, 3) and "internal error" not in done.stderr


def test_a_locale_need_not_know_the_letters_of_a_name(tmp_path):
    """The command had done its work, and ended with an internal error at the first such letter."""
    (tmp_path / "日本" / "run").mkdir(parents=True)
    for name in ("config.yaml", "splits.csv"):
        (tmp_path / "日本" / "run" / name).touch()
    done = shell(f"PYTHONIOENCODING=latin-1 {sys.executable} -m vit runs 日本", tmp_path)
    assert done.returncode == 0 and "\\u65e5\\u672c/run" in done.stdout
