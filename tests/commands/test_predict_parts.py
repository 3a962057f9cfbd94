"""`vit predict --parts` and `--merge`: each image has exactly one row, however often workers are killed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.processes import ended, finish, finish_all, linux_only, start
from tests.tables import rows
from vit.checkpoints.locking import alone
from vit.layout import PartsLayout

pytestmark = pytest.mark.usefixtures("here")
SIZE = ("--rows_per_part", 5)
IN_A_PART = """
import os, signal
from vit.inference.predictor import Predictor
predict = Predictor.predict_files
def predict_and_die(self, *arguments):
    rows = predict(self, *arguments)
    yield next(rows)
    os.kill(os.getpid(), signal.SIGKILL)
Predictor.predict_files = predict_and_die
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(23):
        Image.new("L", (8, 8), 10 * number).save(folder / f"{number:02}.png")
    (folder / "notes.txt").write_text("no image")
    return folder


@pytest.fixture
def parts(vit, digits_run, pictures, here):
    vit("predict", digits_run.path, pictures, "--parts", "parts", *SIZE).ok()
    return here / "parts"


def test_parts_have_the_rows_of_one_file(vit, digits_run, pictures, parts, here):
    assert sorted(os.listdir(parts)) == ["manifest.parquet", *(f"part-0000{number}.parquet" for number in range(5))]
    answer = vit("predict", "--merge", parts, "--output", "merged.csv")
    assert answer.code == 0 and "24 images, each with exactly one row, in 5 parts: 1 not_image, 23 ok" in answer.out
    assert vit("predict", digits_run.path, pictures, "--output", "whole.csv").code == 0
    merged, whole = rows(here / "merged.csv"), rows(here / "whole.csv")
    for one, other in zip(merged, whole, strict=True):
        assert one.keys() == other.keys()
        assert all(one[name] == other[name] for name in ("path", "status", "label", "error", "engine"))
        for name in ("probability", "probability_5", "novelty"):
            assert float(one[name] or 0) == pytest.approx(float(other[name] or 0), abs=1e-5)
    assert vit("predict", "--merge", parts, "--output", "merged.parquet").code == 0
    assert [row["path"] for row in pq.read_table("merged.parquet").to_pylist()] == [row["path"] for row in whole]


def test_the_same_command_again_computes_what_is_missing_alone(vit, digits_run, pictures, parts):
    before = {path: path.stat().st_mtime_ns for path in parts.iterdir()}
    (parts / "part-00003.parquet").unlink()
    answer = vit("predict", digits_run.path, pictures, "--parts", parts, *SIZE)
    assert answer.code == 0 and "4 of 5 parts are there (24 images in all)" in answer.err
    assert f"5 rows in {parts}" in answer.out
    after = {path: path.stat().st_mtime_ns for path in parts.iterdir()}
    assert {path.name for path in after if after[path] != before[path]} == {"part-00003.parquet"}
    vit("predict", digits_run.path, pictures, "--parts", parts, *SIZE).noted("5 of 5 parts are there")


def test_a_list_keeps_its_order_and_its_doubles_and_names_of_any_bytes(vit, digits_run, pictures, mixed, here):
    odd = [name for name in map(os.fsdecode, os.listdir(os.fsencode(mixed))) if name.endswith(".png")]
    names = [pictures / "07.png", *(mixed / name for name in odd if "\n" not in name), pictures / "07.png"]
    (here / "list.txt").write_text("".join(f"{name}\n" for name in names), errors="surrogateescape")
    assert vit("predict", digits_run.path, "list.txt", "--parts", "parts", *SIZE).code == 0
    vit("predict", "--merge", "parts", "--output", "merged.csv").ok()
    assert [row["path"] for row in rows(here / "merged.csv")] == [
        str(name).encode("utf-8", "backslashreplace").decode() for name in names
    ]


def test_merged_rows_without_a_label_have_the_exit_codes_of_other_predictions(vit, digits_run, pictures, parts, here):
    """They all ended with 0. The rows are written before."""
    assert vit("predict", "--merge", parts, "--output", "report.csv").code == 0
    answer = vit("predict", "--merge", parts, "--output", "fail.csv", "--on_bad", "fail")
    assert answer.code == 5 and "1 file without a label" in answer.err and "fail.csv" in answer.err
    assert rows(here / "fail.csv") == rows(here / "report.csv") and "Next:" not in answer.out
    (here / "notes").mkdir()
    shutil.copy(pictures / "notes.txt", here / "notes")
    assert vit("predict", digits_run.path, "notes", "--parts", "bad", *SIZE).code == 5
    answer = vit("predict", "--merge", "bad")
    assert answer.code == 5 and "1 not_image" in answer.out


@linux_only
@pytest.mark.faults("P4")
def test_a_killed_worker_leaves_no_part_and_others_take_it(vit, digits_run, pictures, tmp_path):
    command = ("predict", digits_run.path, pictures, "--parts", tmp_path / "parts", *SIZE)
    ended(tmp_path, -signal.SIGKILL, *command, script=IN_A_PART)
    files = PartsLayout(tmp_path / "parts")
    assert files.manifest_path.is_file() and not files.finished()
    workers = [start(tmp_path, *command) for _ in range(2)]
    for code, _, said in finish_all(tmp_path, workers, 300):
        assert code == 0, said
    assert vit("predict", "--merge", tmp_path / "parts").code == 0
    assert not [name for name in os.listdir(tmp_path / "parts") if name.startswith(".") or name.endswith(".lock")]


@linux_only
@pytest.mark.slow
def test_a_part_that_another_process_computes_is_waited_for_not_computed(digits_run, pictures, parts, tmp_path):
    files = PartsLayout(parts)
    last = files.part_path(4)
    last.rename(tmp_path / "kept.parquet")
    with alone(files.part_lock_path(4)):
        worker = start(tmp_path, "predict", digits_run.path, pictures, "--parts", parts, *SIZE)
        said = next(line for line in worker.stderr if "parts are there" in line)
        time.sleep(2)
        assert worker.poll() is None and not last.is_file()
        (tmp_path / "kept.parquet").rename(last)
        finish(tmp_path, worker, 300)
    assert worker.returncode == 0 and "4 of 5" in said


@pytest.mark.faults("L13")
def test_another_command_in_the_same_folder_is_refused(vit, digits_run, pictures, parts, here, tmp_path):
    before = {path: path.read_bytes() for path in parts.iterdir()}
    other = tmp_path / "other.ckpt"
    shutil.copy(digits_run.path / "checkpoints" / "last.ckpt", other)
    for model, images, options, words in (
        (digits_run.path, pictures, ("--rows_per_part", 6), "--rows_per_part: 5, and now 6"),
        (digits_run.path, pictures, (*SIZE, "--top_k", 3), "--top_k: 5, and now 3"),
        (digits_run.path, pictures / "00.png", SIZE, f"IMAGES: {pictures}, and now {pictures / '00.png'}"),
        (other, pictures, SIZE, "MODEL (by its SHA-256)"),
    ):
        vit("predict", model, images, "--parts", parts, *options).failed(2, words, "was begun with another value of")
    assert {path: path.read_bytes() for path in parts.iterdir()} == before
    (here / "mine").mkdir()
    (here / "mine" / "diary.txt").write_text("mine")
    answer = vit("predict", digits_run.path, pictures, "--parts", "mine", *SIZE)
    assert answer.code == 2 and "holds other files, such as diary.txt" in answer.err


@pytest.mark.faults("L13")
def test_relative_images_are_those_of_one_folder(vit, digits_run, pictures, here, monkeypatch):
    monkeypatch.chdir(pictures)
    assert vit("predict", digits_run.path, "00.png", "--parts", here / "parts").code == 0
    monkeypatch.chdir(pictures.parent)
    answer = vit("predict", digits_run.path, "00.png", "--parts", here / "parts")
    assert answer.code == 2 and "the folder that IMAGES are relative to" in answer.err


@pytest.mark.faults("L13")
def test_images_that_have_changed_since_are_refused(vit, digits_run, pictures, here):
    """The rows of the new image were missing, and nothing said so. Parts among the images are not images."""
    shutil.copytree(pictures, here / "photos")
    command = ("predict", digits_run.path, "photos", "--recursive", "--parts", "photos/parts", *SIZE)
    assert vit(*command).code == 0
    vit(*command).noted("5 of 5 parts are there (24 images in all)")
    assert sorted(os.listdir("photos/parts"))[0] == "manifest.parquet" and len(os.listdir("photos/parts")) == 6
    before = {path: path.read_bytes() for path in (here / "photos" / "parts").iterdir()}
    Image.new("L", (8, 8)).save("photos/zz.png")
    vit(*command).failed(2, "25 images now, 1 more than then; photos/zz.png is new", "give another folder to --parts")
    (here / "photos" / "zz.png").rename(here / "photos" / "00.png")
    assert vit(*command).code == 0  # the same names
    (here / "photos" / "00.png").unlink()
    vit(*command).failed(2, "23 images now, 1 fewer than then; image 1 was photos/00.png")
    assert {path: path.read_bytes() for path in (here / "photos" / "parts").iterdir()} == before


@pytest.mark.faults("L13")
def test_a_list_that_has_changed_since_is_refused(vit, digits_run, pictures, here):
    names = [f"{pictures / f'{number:02}.png'}\n" for number in range(3)]
    (here / "list.txt").write_text("".join(names))
    command = ("predict", digits_run.path, "list.txt", "--parts", "parts", *SIZE)
    assert vit(*command).code == 0
    (here / "list.txt").write_text("".join([names[0], names[2], names[1]]))
    vit(*command).failed(2, "3 images now, as then; image 2 was", "01.png")
    (here / "list.txt").write_text("".join(names) + "\n")
    assert vit(*command).code == 0


@linux_only
@pytest.mark.slow
def test_one_of_the_processes_that_run_at_the_same_time_compares_the_images(digits_run, pictures, parts, tmp_path):
    """Listing many millions of files takes long."""
    moved = pictures.rename(tmp_path / "away")
    try:
        with alone(PartsLayout(parts).listing_lock_path):
            worker = start(tmp_path, "predict", digits_run.path, pictures, "--parts", parts, *SIZE)
            _, said = finish(tmp_path, worker, 300)
        assert worker.returncode == 0 and "5 of 5 parts are there" in said, said
        _, said = ended(tmp_path, 3, "predict", digits_run.path, pictures, "--parts", parts, *SIZE)
        assert "there is no" in said, said
    finally:
        moved.rename(pictures)


@pytest.mark.faults("L14")
def test_what_is_not_one_row_for_each_image_is_named(vit, digits_run, pictures, parts, here):
    (parts / "part-00000.parquet").write_bytes((parts / "part-00000.parquet").read_bytes()[:900])
    shutil.copy(parts / "part-00001.parquet", parts / "part-00002.parquet")
    table = pq.read_table(parts / "part-00003.parquet")
    pq.write_table(table.replace_schema_metadata({"vit.model": "another"}), parts / "part-00003.parquet")
    shutil.copy(parts / "part-00001.parquet", parts / "part-00009.parquet")
    (parts / "part-00004.parquet").unlink()
    answer = vit("predict", "--merge", parts, "--output", "merged.csv")
    assert answer.code == 3 and not (here / "merged.csv").exists()
    for words in (
        "1 missing (part-00004.parquet)", "part-00000.parquet: ", f"row 0 is of {pictures / '05.png'}",
        "part-00003.parquet: it is of another model", "part-00009.parquet: not in the manifest",
    ):  # fmt: skip
        assert words in answer.err
    for number in (0, 2, 3, 9):
        (parts / f"part-0000{number}.parquet").unlink()
    assert vit("predict", digits_run.path, pictures, "--parts", parts, *SIZE).code == 0
    assert vit("predict", "--merge", parts).code == 0


@pytest.mark.faults("L14")
def test_a_damaged_manifest_and_a_folder_without_one_are_refused(vit, digits_run, pictures, parts, here):
    (parts / "manifest.parquet").write_text("text")
    for words in (("--merge", parts), (digits_run.path, pictures, "--parts", parts, *SIZE)):
        vit("predict", *words).failed(3, "is not a manifest of 'vit predict --parts'")
    vit("predict", "--merge", pictures).failed(3, "is not a folder of 'vit predict --parts'")


@pytest.mark.faults("L15")
def test_options_that_do_not_go_together(vit, digits_run, pictures, parts):
    for words, problem in (
        ((digits_run.path, pictures, "--parts", "new", "--output", "a.csv"), "takes no --output"),
        ((digits_run.path, pictures, "--parts", "new", "--gallery"), "no --gallery"),
        *(
            ((*words, "--merge", parts), "takes a folder of --parts alone")
            for words in ((digits_run.path,), ("--top_k", 3), ("--device", "cpu"), ("--jobs", 2))
        ),
        (("--merge", parts, "--output", "a.jsonl"), "--merge writes .parquet or .csv"),
        ((digits_run.path,), "vit predict needs IMAGES"),
        ((), "vit predict needs MODEL and IMAGES"),
    ):
        vit("predict", *words).failed(2, problem)


def test_several_processes_need_parts(vit, digits_run, pictures, here, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    answer = vit("predict", digits_run.path, pictures, "--output", "rows.csv")
    assert answer.code == 2 and "several processes of vit predict need --parts" in answer.err
    assert not (here / "rows.csv").exists()


@linux_only
@pytest.mark.slow
def test_the_processes_of_torchrun_share_the_parts(vit, digits_run, pictures, parts, here):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "vit")
    options = ("predict", digits_run.path, pictures, "--parts", "together", *SIZE)
    done = subprocess.run([*torchrun, *map(str, options)], cwd=here, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for folder in ("parts", "together"):
        assert vit("predict", "--merge", folder, "--output", f"{folder}.csv").code == 0
    assert rows(here / "together.csv") == rows(here / "parts.csv")


@linux_only
@pytest.mark.slow
@pytest.mark.faults("P4")
def test_many_images_many_workers_and_many_kills(vit, digits_run, pictures, tmp_path):
    """VIT_TEST_IMAGES images (300,000), four workers, ten SIGKILLs at random times, memory that does not grow."""
    count = int(os.environ.get("VIT_TEST_IMAGES", "300000"))
    draws = random.Random(0)
    images = tmp_path / "images"
    for start_at in range(0, count, 1000):
        folder = images / f"{start_at // 1000:04}"
        folder.mkdir(parents=True)
        for number in range(start_at, min(start_at + 1000, count)):
            os.link(pictures / f"{number % 23:02}.png", folder / f"{number:07}.png")
    files = PartsLayout(tmp_path / "parts")
    command = ("predict", digits_run.path, images, "--recursive", "--parts", files.path, "--rows_per_part", count // 40)
    options = ("--batch_size", 256)
    workers, kills, memory, began = [start(tmp_path, *command, *options) for _ in range(4)], 0, [], time.monotonic()
    while any(worker.poll() is None for worker in workers):
        time.sleep(draws.uniform(1, 4))
        running = [place for place, worker in enumerate(workers) if worker.poll() is None]
        memory += [resident(workers[place].pid) for place in running]
        has_begun = len(files.finished()) > kills  # a kill while Python starts shows nothing
        if kills < 10 and running and has_begun:
            place = draws.choice(running)
            workers[place].kill()
            workers[place].communicate()
            workers[place] = start(tmp_path, *command, *options)
            kills += 1
    seconds = time.monotonic() - began
    assert kills == 10
    assert [code for code, _, _ in finish_all(tmp_path, workers, 60)] == [0] * 4
    answer = vit("predict", "--merge", files.path, "--output", tmp_path / "all.parquet")
    assert answer.code == 0 and f"{count:,} images, each with exactly one row, in 40 parts" in answer.out
    listed = pq.read_table(tmp_path / "all.parquet", columns=["path"]).column("path").to_pylist()
    assert listed == sorted(str(path) for path in images.rglob("*.png"))
    early, late = max(memory[: len(memory) // 2]), max(memory[len(memory) // 2 :])
    assert late < 1.1 * early
    size = files.manifest_path.stat().st_size
    print(f"{count:,} images in {seconds:.0f} s, {kills} kills, manifest {size:,} bytes")
    print(f"most memory of a worker: {early:.0f} MiB in the first half, {late:.0f} MiB in the second")


def resident(pid):
    """Memory of a process in MiB."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS")), 0.0)
    except OSError:
        return 0.0
