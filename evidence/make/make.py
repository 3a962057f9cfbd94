"""Trains a row of evidence/ again or further, keeps its finished cells, and writes the pages: `make results ROW=NAME`.

    python evidence/make/make.py                      (only writes the pages and their figures, from what is kept)
    python evidence/make/make.py digits_demo          (trains the cells that are missing, then measures, then writes)
    python evidence/make/make.py digits_demo --again  (trains every cell of the row again)

A cell with a kept result is not trained again. Interrupt this command at any time, and start it again. While cells
train, finished ones are noted with their machine. Where the weights of unmeasured cells are not on this machine, these
cells train again. Cells run one at a time, with one thread for each free core: see --jobs.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from definitions import EVIDENCE, MADE, ROOT, Row, read_evidence
from kept import MACHINES, compact, expected_cells
from machine import machine
from pages import write_pages

from vit.atomic_files import write_json
from vit.study.findings import ListedCell
from vit.study.folder import StudyDirectory
from vit.weights.open import weights_hash

HERE = Path(__file__).parent
POLL = 20.0  # seconds


def keep(row: Row) -> bool:
    """Note the machine of newly finished cells, and make their results small. Returns whether there are any."""
    path = row.folder / MACHINES
    known: dict[str, list[str]] = read_json(path)
    noted = {cell for cells in known.values() for cell in cells}
    files = row.folder.glob("cells/*/*/*/result.json")
    found = sorted(file.parent.relative_to(row.folder).as_posix() for file in files)
    new = [cell for cell in found if cell not in noted]
    for cell in new:
        known.setdefault(trained_by(row.folder / cell / "result.json"), []).append(cell)
    if new:
        write_json(path, known)
    for cell in new:
        compact(row.folder / cell / "result.json")
    return bool(new)


def trained_by(result: Path) -> str:
    """The machine that trained a cell: the GPU that its result names, which may be elsewhere, or this machine."""
    device = str(read_json(result)["device"])
    return machine() if device.startswith("cpu") else device


def warn_of_other_weights(row: Row) -> None:
    """Say which weights to start from are not those of the kept cells, which another machine may have made."""
    if (row.folder / "study.json").is_file():
        known = StudyDirectory(row.folder).read()[0].get("weights", {})
        assert isinstance(known, dict)
        made = {name: found for name, found in known.items() if Path(name).is_relative_to(MADE)}  # not the teachers
        other = [name for name, found in made.items() if weights_hash(str(ROOT / name)) != found]
        if other:
            print(f"{len(other)} of {len(made)} weights differ from those of the kept cells, which train again")


def is_trained(row: Row) -> bool:
    """Whether every cell of the row's command has a result for the images that were used before."""
    if not (row.folder / "study.json").is_file():
        return False
    return all((row.folder / cell / "result.json").is_file() for cell in expected_cells(row))


def train(row: Row, jobs: int) -> None:
    """Run the study of a row, and keep its cells as they come."""
    if is_trained(row):
        print(f"{row.name}: every run is kept (--again trains them again)")
        return
    words = ["study", "--config", row.config, "--out", str(EVIDENCE)]
    words += ["--yes", "true", "--name", row.name, "--jobs", str(jobs), "--wandb", "off"]
    if row.needs:
        if not os.environ.get(row.needs):
            raise SystemExit(f"set {row.needs} to the folder of the images of {row.name}")
        root = os.environ[row.needs]
        words = [words[0], root, *words[1:]] if row.folders else [*words, "--data.root", root]
    if row.makes:
        script, *arguments = shlex.split(row.makes)
        folder = ROOT / MADE / row.name
        subprocess.run([sys.executable, str(HERE / script), *arguments, str(folder)], check=True)  # noqa: S603
        words.insert(1, str(folder))
    if row.starts:
        script, *arguments = shlex.split(row.starts)
        folder = MADE / row.name
        subprocess.run([sys.executable, str(HERE / script), *arguments, str(folder)], check=True, cwd=ROOT)  # noqa: S603
        warn_of_other_weights(row)
    if row.teachers:
        forget_teachers(row)
        if not has_teachers(row):
            # `vit study` refuses to leave out finished cells of study.json. The next command lists them all again.
            (row.folder / "study.json").unlink(missing_ok=True)
            run_study(row, [*words, "--networks", row.teachers])
    run_study(row, words)


def run_study(row: Row, words: Sequence[str]) -> None:
    """Run `vit` with words that train cells of a row, and keep the cells as they come."""
    print(f"$ vit {shlex.join(words)}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", "vit", *words], cwd=ROOT)  # noqa: S603
    try:
        while True:
            try:
                code = process.wait(POLL)
                break
            except subprocess.TimeoutExpired:
                if keep(row):
                    write_pages()  # so that a commit at any time has pages of what it keeps
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        keep(row)
    if code not in (0, 5):  # 5: some cells failed, which the pages say
        raise SystemExit(f"vit study ended with {code}")


def without_weights(row: Row) -> list[ListedCell]:
    """The finished cells of a row whose weights are not here."""
    if not (row.folder / "study.json").is_file():
        return []
    study = StudyDirectory(row.folder)
    runs = [(cell, study.run(cell)) for cell in study.read()[1]]
    return [cell for cell, run in runs if run.result_path.is_file() and not run.best_path.is_file()]


def forget_unmeasured(row: Row) -> None:
    """Remove results of cells that were never measured and whose weights are not here, so that they train again."""
    for cell in without_weights(row):
        if not is_measured(row, cell):
            forget(row, cell, "not measured")


def forget_teachers(row: Row) -> None:
    """Remove results of teachers whose weights are not here, so that they train again."""
    for cell in without_weights(row):
        if cell.series == row.teachers:
            forget(row, cell, "teaches cells that are missing")


def has_teachers(row: Row) -> bool:
    """Whether every teacher of a row has a result."""
    if not (row.folder / "study.json").is_file():
        return False
    study = StudyDirectory(row.folder)
    teachers = [cell for cell in study.read()[1] if cell.series == row.teachers]
    return bool(teachers) and all(study.run(cell).result_path.is_file() for cell in teachers)


def forget(row: Row, cell: ListedCell, why: str) -> None:
    """Remove the result of a cell, and the note of the machine that trained it."""
    print(f"{cell.folder}: {why}, and its weights are not here; it trains again")
    StudyDirectory(row.folder).run(cell).result_path.unlink()
    path = row.folder / MACHINES
    known: dict[str, list[str]] = read_json(path)
    left = {machine: [one for one in cells if one != cell.folder] for machine, cells in known.items()}
    write_json(path, {machine: cells for machine, cells in left.items() if cells})


def is_measured(row: Row, cell: ListedCell) -> bool:
    """Whether all that a row measures with the weights of a cell is kept."""
    scripts = {words.split()[0] for words in row.measures}
    measured = row.folder / "measured"
    largest = max(one.num_images for one in StudyDirectory(row.folder).read()[1])
    if "reach.py" in scripts and cell.folder not in read_json(measured / "reach_cells.json"):
        return False
    if cell.num_images < largest:
        return True
    for script, file in (("conditions.py", "conditions.json"), ("texture_shape.py", "conflicts.json")):
        conditions = read_json(measured / file).get("correct", {}).values()
        if script in scripts and not any(str(cell.seed) in found.get(cell.series, {}) for found in conditions):
            return False
    return True


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file, or {} without the file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def measure(row: Row) -> None:
    """Run the scripts that measure the networks of a row."""
    for words in row.measures:
        script, *arguments = shlex.split(words)
        named = [*arguments, row.name] if script == "texture_shape.py" else [row.name, *arguments]
        command = [str(HERE / script), *named]
        if row.needs and script in ("conditions.py", "reach.py"):
            command += ["--root", os.environ[row.needs]]
        print(f"$ python {shlex.join(command)}", flush=True)
        subprocess.run([sys.executable, *command], check=True, cwd=ROOT)  # noqa: S603


def main() -> None:
    """Train rows, if any are given, and write the pages."""
    rows = read_evidence().rows
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[[], *rows], help="rows to train; default: only the pages")
    parser.add_argument("--again", action="store_true", help="train finished cells again, too")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    arguments = parser.parse_args()
    for name in arguments.rows:
        row = rows[name]
        if arguments.again and row.folder.is_dir():
            shutil.rmtree(row.folder)
        if row.study:
            forget_unmeasured(row)
            train(row, arguments.jobs)
        measure(row)
    for row in rows.values():
        if row.study and row.folder.is_dir():
            keep(row)
    for path in write_pages():
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
