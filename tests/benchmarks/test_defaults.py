"""`vit train` beside other tools: equal images, answers read from each tool's table, the page from the rows."""

import sys

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def trial(tmp_path):
    from defaults_sides import Trial

    for part in ("images/train/hat", "images/train/shoe", "out"):
        (tmp_path / part).mkdir(parents=True)
    weights = tmp_path / "deit_tiny_patch16_224.safetensors"
    return Trial(tmp_path / "images", weights, 96, 1, 30, tmp_path / "out", sys.executable, tmp_path)


def draw(folder, names, count):
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            shade = np.full((40, 60, 3), (names.index(name), number, 0), dtype=np.uint8)
            Image.fromarray(shade).save(folder / name / f"{number // 2}.{'png' if number % 2 else 'jpg'}")


def files(images, part):
    return sorted(path.relative_to(images / part).as_posix() for path in (images / part).rglob("*.jpg"))


@pytest.mark.parametrize("has_test", [False, True])
def test_seeds_draw_from_the_pool_and_share_the_test_images(tmp_path, has_test):
    from defaults import lay_out

    draw(tmp_path / "set" / "pool" if has_test else tmp_path / "set", ["hat", "shoe"], 12)
    if has_test:
        draw(tmp_path / "set" / "test", ["hat", "shoe"], 4)
    laid = [tmp_path / str(seed) for seed in (0, 1)]
    for seed, images in enumerate(laid):
        lay_out(tmp_path / "set", images, 6, seed, 20)
    assert files(laid[0], "test") == files(laid[1], "test") and len(files(laid[0], "test")) == 8
    assert files(laid[0], "train") != files(laid[1], "train")
    for images in laid:
        assert [sum(name in file for file in files(images, "train")) for name in ("hat", "shoe")] == [3, 3]
        assert len(files(images, "val")) == 1
        drawn = [*files(images, "train"), *files(images, "val"), *([] if has_test else files(images, "test"))]
        assert len(set(drawn)) == len(drawn)
    with Image.open(laid[0] / "test" / files(laid[0], "test")[0]) as image:
        assert image.size == (30, 20)


OURS = "path,label,predicted,probability,loss,uncalibrated\ntest/hat/a.jpg,hat,shoe,0.9,0.1,0.8\n"
THEIRS = "path,predicted\nhat/a.jpg,shoe\n"


@pytest.mark.parametrize(
    ("place", "text"), [("runs/images/vit/1/predictions/test.csv", OURS), ("answers.csv", THEIRS)], ids=["vit", "peer"]
)
def test_answers_of_each_table(tmp_path, place, text):
    from defaults_sides import read_answers

    with pytest.raises(SystemExit, match="0 tables"):
        read_answers(tmp_path)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(text)
    assert read_answers(tmp_path) == {"hat/a.jpg": "shoe"}


def test_every_test_image_needs_an_answer():
    from defaults import check_answers

    truth = {"hat/b.jpg": "hat", "hat/a.jpg": "hat"}
    assert check_answers(truth, {"hat/a.jpg": "shoe", "hat/b.jpg": "hat"}).tolist() == [False, True]
    with pytest.raises(SystemExit, match="1 of 2 test images"):
        check_answers(truth, {"hat/a.jpg": "hat"})


def test_cpu_time_has_that_of_children_and_a_failure_its_last_line(trial):
    from defaults import run

    busy = "import time\nwhile time.process_time() < 0.2: pass"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', {busy!r}])"
    parent += "\nprint('one', flush=True)\nsys.exit('two')"
    status, seconds, last = run([sys.executable, "-S", "-c", parent], trial)
    assert (status, last) == (1, "two") and 0.2 < seconds < 2


def test_each_tool_trains_on_the_same_folders_and_for_its_passes(trial):
    from defaults_sides import ALTERNATIVES, SIDES

    for side in (*SIDES, *ALTERNATIVES):
        words = " ".join(word for command in side.commands(trial) for word in command)
        assert str(trial.images) in words and str(trial.weights) in words
        passes = {"first example": 0, "same epochs": 30, "same seconds": side.epochs}[side.length]
        length = {
            "vit": f"--optim.epochs {passes}",
            "fastai": f"--epochs {passes - 1 if passes else 1}",
            "timm": f"--epochs {passes}",
            "transformers": f"--num_train_epochs {passes}",
            "lightly-train": f"--epochs {passes}",
            "autogluon": f"optim.max_epochs={passes}",
        }[side.tool]
        assert (length in words) == (passes > 0 or side.tool == "fastai")


def test_a_tool_has_an_interpreter_of_its_own(tmp_path, monkeypatch):
    import defaults

    draw(tmp_path / "set", ["hat", "shoe"], 12)
    used, rows = [], tmp_path / "rows.jsonl"
    monkeypatch.setattr(defaults, "measure", lambda side, trial: used.append((side.tool, trial.python)) or {"cpu": 1.0})
    words = [rows, tmp_path / "set", "--weights", tmp_path / "net.safetensors", "--python", "all", "autogluon=own"]
    words += ["--scripts", tmp_path, "--seeds", 1, "--images", 6, "--tools", "fastai", "autogluon"]
    monkeypatch.setattr(sys, "argv", ["defaults.py", *map(str, words)])
    defaults.main()
    assert sorted(set(used)) == [("autogluon", "own"), ("fastai", "all")]


def test_the_page_is_that_of_the_kept_rows():
    from defaults import read_rows
    from defaults_page import BEGIN, PAGE, ROWS, page

    assert BEGIN in PAGE.read_text(encoding="utf-8")
    assert "\n".join(page(read_rows(ROWS))) in PAGE.read_text(encoding="utf-8")


def test_a_positive_difference_is_in_favor_of_vit():
    from defaults_page import LONG, PEERS, VIT, compare, page, section

    from vit.checkpoints.result import pack

    def row(data, side, right):
        correct = np.arange(100) < right
        given = {"data": data, "weights": "deit_tiny_patch16_224", "tool": side.tool, "length": side.length}
        return given | {
            "options": " ".join(side.options),
            "seed": 0,
            "cpu": 9.0,
            "tested": 100,
            "correct": pack(correct),
        }

    rows = [row(data, side, right) for data in "abc" for side, right in ((VIT, 90), (PEERS[0], 80))]
    rows[-1]["correct"] = pack(np.arange(100) < 79)
    found = compare(rows, PEERS[0])
    assert found.num_trainings == 3 and found.gaps["a"].value == pytest.approx(0.1)
    assert found.overall.value == pytest.approx(31 / 300) and found.overall.low > 0 and found.p < 0.01
    assert "no tool on any set" in "\n".join(section(rows))
    worse = [row("d", VIT, 60), row("d", PEERS[0], 95)]
    assert "fastai (first example) on d." in "\n".join(section([*rows, *worse]))
    larger = [{**one, "image_size": 224, "correct": pack(np.arange(100) < 50)} for one in rows]
    small, large = "\n".join(page([*larger, *({**one, "image_size": 96} for one in rows)])).split("### 224 pixels")
    assert "### 96 pixels" in small and "|+10.3 (" in small and "|+0.0" in large
    long = [row("a", LONG, 70), row("a", PEERS[-1], 75), row("b", LONG, 70), row("b", PEERS[-1], 77)]
    assert compare([*rows, *long], PEERS[-1]).overall.value == pytest.approx(-0.06)
    failed = {**rows[1], "failed": "out of memory"}
    del failed["correct"]
    assert compare([rows[0], failed], PEERS[0]) is None
