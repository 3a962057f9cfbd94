"""Completion: scripts with all commands and options, which real shells complete with."""

import os
import re
import shutil
import subprocess

import pytest

from tests.terminal import Terminal
from vit.__main__ import COMMANDS
from vit.commands.cli.recipe_options import SHORT, shipped_configs
from vit.extras.completion.script import SHELLS, completion_script

LINES = (  # what is typed before the key TAB -> what is there then
    ("vit tra", "vit train"),
    ("vit data che", "vit data check"),
    ("vit train --netw", "vit train --network"),
    ("vit train --optim.best_me", "vit train --optim.best_metric"),
    ("vit train --network vitc_m", "vit train --network vitc_mini_patch4_28"),
    ("vit train --wandb onl", "vit train --wandb online"),
    ("vit train --config pretrain_ma", "vit train --config pretrain_mae"),
    ("vit study --config dig", "vit study --config digits"),
    ("vit predict my_ru", "vit predict my_run"),
    ("vit train cifar100 --config fine", "vit train cifar100 --config finetune"),
    ("vit train --config my_re", "vit train --config my_recipe.yaml"),
    ("vit runs --sort accu", "vit runs --sort accuracy"),
    ("vit compare run_a run_b --outp", "vit compare run_a run_b --output"),
)


@pytest.fixture(scope="module")
def scripts():
    return {shell: completion_script(shell, COMMANDS) for shell in SHELLS}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_all_commands_short_options_and_recipes(scripts, shell):
    words = set(re.findall(r"[\w./-]+", scripts[shell]))
    options = {option.removeprefix("--") if shell == "fish" else option for option in SHORT}
    recipes = {name for name in shipped_configs() if "/" not in name}
    assert words >= {*COMMANDS, *options, *recipes, "check", "pack", "index"}


@pytest.mark.parametrize("command", [("train",), ("study",), ("predict",), ("runs",), ("data", "check"), ("crossval",)])
def test_each_option_of_the_help_can_be_completed(scripts, vit, command):
    lines = [line for line in vit(*command, "--help", "all").out.splitlines() if line.startswith("  --")]
    shown = {flag.removesuffix(".KEY") for line in lines for flag in re.findall(r"--[\w.]+", line)}
    assert len(shown) >= 5
    (listed,) = re.findall(rf"_vit_{'_'.join(command)}_option_strings=\((.*)\)", scripts["bash"])
    assert shown <= set(re.findall(r"--[\w.]+", listed))


def test_the_command_line_prints_the_script(scripts, vit):
    assert vit("--print_completion", "bash").out == scripts["bash"] == vit("--print_completion=bash").out


@pytest.mark.faults("S11")
@pytest.mark.parametrize(
    ("words", "says"), [(("bsh",), "did you mean 'bash'?"), (("tcsh",), "zsh"), ((), "choose one of bash, fish, zsh")]
)
def test_an_unknown_shell_is_one_line(vit, words, says):
    answer = vit("--print_completion", *words)
    assert (answer.code, answer.out) == (2, "") and says in answer.err and answer.err.count("\n") == 1


@pytest.mark.faults("S11", simulated="the package is not found")
def test_without_shtab_the_fix_is_its_extra(vit, monkeypatch):
    monkeypatch.setattr("vit.extras.completion.script.find_spec", lambda name: None)
    vit("--print_completion", "zsh").failed(2, "completion]")


def test_names_that_a_shell_would_run_are_left_out(here, monkeypatch):
    named = {"good": here / "good.yaml", "$(touch made)": here, "`touch made`": here, "a b": here, "x;touch made": here}
    monkeypatch.setattr("vit.extras.completion.script.shipped_configs", lambda: named)
    script = completion_script("bash", COMMANDS)
    assert "touch" not in script and "good" in script
    lines = f"{script}\n_vit_config go; _vit_config touch"
    done = subprocess.run(["bash", "-c", lines], cwd=here, capture_output=True, text=True, check=False)
    assert done.stdout == "good\n" and list(here.iterdir()) == []


def completed(shell, words, script, folder, lines):
    """What is on the line of a real shell in a terminal after each text and TAB."""
    found = []
    with Terminal(
        [shell, *words], folder, {"PS1": "$ ", "ZDOTDIR": str(folder), "HOME": str(folder)}, columns=100
    ) as shown:
        shown.wait_for("$")
        if shell == "bash":
            shown.press(f"source {script}\r")
            shown.wait_for(lambda screen: screen.text.count("$") == 2)
        for typed, wanted in lines:
            shown.press(f"\x15{typed}\t")  # Ctrl-U: an empty line
            try:
                shown.wait_for(lambda screen, wanted=wanted: re.search(rf"\$ {re.escape(wanted)}/?\s*$", screen.text))
            except AssertionError:
                found.append((typed, shown.text.strip().splitlines()[-1]))
    return found


@pytest.fixture
def folder(here):
    (here / "my_run").mkdir()
    (here / "my_recipe.yaml").write_text("seed: 1\n")
    return here


def test_bash_completes(scripts, folder):
    (folder / "vit.bash").write_text(scripts["bash"])
    assert completed("bash", ("--norc", "-i"), "vit.bash", folder, LINES) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh_completes(scripts, folder):
    (folder / "functions").mkdir()
    (folder / "functions" / "_vit").write_text(scripts["zsh"])
    (folder / ".zshrc").write_text("fpath=(~/functions $fpath)\nautoload -Uz compinit; compinit -u -D\nPS1='$ '\n")
    assert completed("zsh", ("-i",), "", folder, LINES) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish_completes(scripts, folder):
    (folder / "vit.fish").write_text(scripts["fish"])
    for typed, wanted in LINES:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source vit.fish; complete -C '{typed}'"],
            cwd=folder, env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        offered = {line.split("\t")[0].rstrip("/") for line in done.stdout.splitlines()}
        assert wanted.split()[-1] in offered, typed
