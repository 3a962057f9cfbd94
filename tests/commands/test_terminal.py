"""On a terminal of 80 columns, progress is drawn and nothing is wider than a line; in a log, lines stay plain."""

import json
import re
import subprocess
import sys

import pytest

from tests.processes import ROOT
from tests.terminal import Terminal

COLOR = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)[;\d]*m")
ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
TIME_LEFT = re.compile(r"([\d,]+)/120 recent loss (\d\.\d{3}), [\d,]+ images/s +(\d+) s left")
STEPS = """
import time
from vit.commands.training.train_progress import TrainProgress
from vit.console import Reporter
now = [0.0]
time.monotonic = lambda: now[0]
progress = TrainProgress(Reporter(), "epoch", 1_000, "balanced_acc")
for step in range(1, 121):
    now[0] = step / 2
    progress.step(step, 120, 3 - step / 60, 12_345.6)
    if step % 40 == 0:
        progress.progress._bar is None or progress.progress._bar.refresh()
        row = {"epoch": step // 40 - 1, "seconds": 36_000.0, "train/images_per_second": 12_345.6}
        progress.row({**row, "train/loss": 1.5, "val/loss": 1.25, "val/acc1": 0.5, "val/balanced_acc": 0.4375}, step)
progress.close()
"""
WORDS = """
from vit.console import Reporter
reporter = Reporter()
reporter.line("Training " + "a network on images " * 7)
reporter.facts([("note", "few words " * 12), ("empty", ""), ("accuracy", "x" * 59 + " 61.56 %")])
reporter.facts([("report  ", "folder/" * 9 + "page.html")])
reporter.table(("run", "accuracy"), [("folder/" * 12, "61.56 % (56.43 to 66.44)")])
reporter.line("\\n  " + "indented words " * 8)
reporter.line("\\u732b" * 30 + " " + "\\u732b" * 30)
run = "'runs/my photos/vit_tiny_patch16_224/20260101-120000'"
reporter.next_command(f"vit predict {run} FOLDER_OF_IMAGES --gallery --top_k 3")
"""


def ran(script, here, **variables):
    """A terminal after a script has run in it."""
    with Terminal([sys.executable, "-c", script], here, {"PYTHONPATH": str(ROOT), **variables}) as shown:
        assert shown.finish() == 0, shown.text
    return shown


def in_a_log(script, here):
    """The lines of a script without a terminal."""
    line, variables = [sys.executable, "-c", script], {"PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(line, cwd=here, env=variables, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr
    return done.stdout.splitlines() + done.stderr.splitlines()


def test_a_live_line_and_a_table_that_grows(here):
    shown = ran(STEPS, here)
    assert shown.too_long == 0
    assert shown.text.rstrip().splitlines() == [
        "    epoch  train loss  val loss   val acc  balanced_acc  images/s         time",
        *(f"   {n}/1000       1.500     1.250   50.00 %       43.75 %    12,346  10 h 00 min" for n in (1, 2, 3)),
    ]
    frames = TIME_LEFT.findall(ESCAPE.sub("", shown.received.decode()))
    steps, losses, left = zip(*((int(step), float(loss), int(seconds)) for step, loss, seconds in frames), strict=True)
    assert {40, 80, 120} <= set(steps)
    assert all(loss == pytest.approx(3 - step / 60, abs=6e-4) for step, loss in zip(steps, losses, strict=True))
    assert all(seconds == pytest.approx((120 - step) / 2, abs=1) for step, seconds in zip(steps, left, strict=True))


def test_no_color_is_respected(here):
    assert COLOR.search(ran(STEPS, here).received)
    shown = ran(STEPS, here, NO_COLOR="1")
    assert not COLOR.search(shown.received) and "120/120" in shown.received.decode()


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": "unknown"}])
def test_a_terminal_without_a_cursor_gets_lines(here, variables):
    lines = ran(STEPS, here, **variables).text.strip().splitlines()
    assert "epoch 1/1000  train loss 1.500  val loss 1.250  val acc 50.00 %  balanced_acc" in lines
    assert any(line.startswith("step 60/120  recent loss 2.000") for line in lines)


def test_a_log_has_the_same_as_lines(here):
    values = "train loss 1.500  val loss 1.250  val acc 50.00 %  balanced_acc 43.75 %"
    assert in_a_log(STEPS, here) == [
        "step 30/120  recent loss 2.500, 12,346 images/s  45 s left",
        f"epoch 1/1000  {values}",
        "step 60/120  recent loss 2.000, 12,346 images/s  30 s left",
        f"epoch 2/1000  {values}",
        "step 90/120  recent loss 1.500, 12,346 images/s  15 s left",
        "step 120/120  recent loss 1.000, 12,346 images/s  0 s left",
        f"epoch 3/1000  {values}",
    ]


def test_long_lines_break_between_words(here):
    shown = ran(WORDS, here)
    assert shown.too_long == 0
    assert (
        shown.text.rstrip().splitlines()
        == [
            "Training a network on images a network on images a network on images a network",
            "on images a network on images a network on images a network on images",
            "  note      few words few words few words few words few words few words few",
            "            words few words few words few words few words few words",
            "  empty",
            f"  accuracy  {'x' * 59} 61.56 %",
            "  report",
            f"    {'folder/' * 9}page.html",  # a path stays whole
            f"run{' ' * 69}accuracy",
            f"{('folder/' * 8)[:54]}  61.56 % (56.43 to 66.44)",
            f"{('folder/' * 12)[54:]}",
            "",
            "  indented words indented words indented words indented words indented words",
            "  indented words indented words indented words",
            "\u732b" * 30,  # each is two columns wide
            "\u732b" * 30,
            "",
            "Next: vit predict 'runs/my photos/vit_tiny_patch16_224/20260101-120000' \\",
            "    FOLDER_OF_IMAGES --gallery --top_k 3",
        ]
    )


def test_paths_of_runs_stay_whole(digits_run, here):
    """A path of usual length can be copied from `vit runs`: columns that it holds make room for it."""
    path = here / "runs" / "photos" / "vit_tiny_patch16_224" / "20260101-120000"
    path.mkdir(parents=True)
    for name in ("config.yaml", "splits.csv"):
        (path / name).touch()
    result = json.loads((digits_run.path / "result.json").read_text())
    result["metrics"] = {"acc1": {"value": 0.725, "low": 0.5717, "high": 0.8389}}
    (path / "result.json").write_text(json.dumps(result))
    script = "import sys; from vit.__main__ import main; sys.argv[1:] = ['runs']; sys.exit(main())"
    shown, name = ran(script, here), str(path.relative_to(here))
    assert shown.too_long == 0
    assert [line.split("  ") for line in shown.text.splitlines()[:2]] == [
        [*[""] * 8, "accuracy", "run"], ["72.50 % (57.17 to 83.89)", name]
    ]  # fmt: skip
    line = in_a_log(script, here)[1]
    assert line.startswith("2026-01-01 12:00  ") and line.endswith(name)


def test_a_log_has_whole_lines(here):
    lines = in_a_log(WORDS, here)
    assert len(lines) == 12 and lines[1] == f"  note      {'few words ' * 12}" and lines[-1].endswith("--top_k 3")


@pytest.mark.slow
def test_a_training_in_a_terminal(here):
    options = ("--network", "vit_nano_patch2_8", "--model.network.depth", "1", "--epochs", "12", "--wandb", "off")
    variables = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    with Terminal([sys.executable, "-m", "vit", "train", "digits", *options], here, variables) as shown:
        assert shown.finish() == 0, shown.text
    text = shown.text
    assert shown.too_long == 0 and not COLOR.search(shown.received)
    assert text.count("train loss") == 1 and len(re.findall(r"^ *\d+/12( +\d+\.\d{3}){2} +[\d.]+ %", text, re.M)) == 12
    left = [int(seconds) for seconds in re.findall(rb"loss \d\.\d{3}, [\d,]+ images/s (\d+) s left", shown.received)]
    assert len(left) > 5 and left[-1] < left[0] and left[-1] <= 1
