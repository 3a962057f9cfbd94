"""How cost grows: with the number of files, with the batch, the resolution, the depth and the width; `make scaling`.

Each part is a process of its own and writes a JSON file into the folder. A part whose file exists is not measured
again, so that an interrupted call continues where it ended. At the end the figures, docs/figures/scaling.json and the
tables of docs/performance.md are written from these files.

    python benchmarks/scaling.py                        (into runs/scaling)
    python benchmarks/scaling.py --only study names --again
    python benchmarks/scaling.py --only                 (only draws and writes)
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from scaling_parts import PARTS
from table import PAGE, between
from timing import processor, versions

FIGURES = PAGE.parent / "figures"
BEGIN, END = "<!-- scaling: make scaling -->", "<!-- end of scaling -->"
PART_SECONDS = 600  # of the longest part
COMMAND = "python benchmarks/scaling.py"
CAPTIONS = {
    "scaling_predict.png": "Time and peak memory of vit predict against the number of files",
    "scaling_training.png": "Training time per image against batch size, resolution, depth and width",
}


def write(folder: Path, page: Path, figures: Path) -> None:
    """Figures, their numbers and the tables of the page, from the parts that are measured."""
    from scaling_figures import draw, table

    parts = {name: json.loads(path.read_text()) for name in PARTS if (path := folder / f"{name}.json").is_file()}
    made = draw(parts, figures)
    (figures / "scaling.json").write_text(json.dumps({"command": COMMAND, **parts}, indent=1) + "\n", encoding="utf-8")
    name_figures(made, figures / "numbers.json")
    days = sorted({found["day"] for found in parts.values()})
    machines = sorted({found["machine"] for found in parts.values()})
    head = f"`{COMMAND}`, {' and '.join(days)}, {' and '.join(machines)}." if parts else "Not measured yet."
    pictures = [line for name in made for line in (f"![{CAPTIONS[name]}](figures/{name})", "")]
    between(page, BEGIN, END, [head, "", *pictures, *table(parts)])


def name_figures(made: Sequence[str], file: Path) -> None:
    """Add the command of each figure to numbers.json, in the form of docs/make_figures.py."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    known |= {name: {"command": COMMAND, "needs": "15 minutes; scaling.json has the numbers"} for name in made}
    lines = [f" {json.dumps(name)}: {json.dumps(about, sort_keys=True)}" for name, about in sorted(known.items())]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def measure(name: str, folder: Path) -> None:
    """Measure a part in this process, into its JSON file."""
    found = PARTS[name]()
    about = {"day": date.today().isoformat(), "machine": f"{processor()}, {len(os.sched_getaffinity(0))} cores"}
    partial = folder / f".{name}.partial"
    partial.write_text(json.dumps({**about, "versions": versions(), **found}, indent=1), encoding="utf-8")
    partial.rename(folder / f"{name}.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path("runs/scaling"), help="folder of the JSON files")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="parts to measure; default: all")
    parser.add_argument("--again", action="store_true", help="measure parts again that have a file")
    parser.add_argument("--page", type=Path, default=PAGE, help="page whose tables are written")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="folder of the figures")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    if arguments.part:
        measure(arguments.part, arguments.into)
        return
    for name in PARTS if arguments.only is None else arguments.only:
        if (arguments.into / f"{name}.json").is_file() and not arguments.again:
            print(f"== {name}: measured before (--again measures it again)")
            continue
        started = time.perf_counter()
        command = [sys.executable, __file__, "--part", name, "--into", str(arguments.into)]
        try:
            code = subprocess.run(command, timeout=PART_SECONDS, check=False).returncode
            end = f"ended with {code}" if code else "measured"
        except subprocess.TimeoutExpired:
            end = f"takes more than {PART_SECONDS} s"
        print(f"== {name}: {end}, {time.perf_counter() - started:.0f} s", flush=True)
    write(arguments.into, arguments.page, arguments.figures)
    print(f"{arguments.page} has the numbers of {arguments.into}")


if __name__ == "__main__":
    main()
