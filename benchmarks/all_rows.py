"""All rows of docs/performance.md, one after the other: `make bench`.

Each row writes a JSON file into the folder. A row whose file exists is not measured again, so that an interrupted call
continues where it ended. At the end the table of docs/performance.md is written from these files.

    python benchmarks/all_rows.py                              (into runs/bench)
    python benchmarks/all_rows.py --only infer_ti16 startup --again
    python benchmarks/all_rows.py --only                       (only writes the table)
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rows import ROWS, Row
from table import PAGE, write_table
from timing import RESULT_VARIABLE

HERE = Path(__file__).parent
ROW_SECONDS = 900  # of the longest row


def measure(row: Row, folder: Path) -> str:
    """Measure a row into its JSON file, and return what kept it from being measured, or ""."""
    script = HERE / row.script
    if not script.is_file():
        return f"there is no {script.name}"
    if row.needs and not os.environ.get(row.needs):
        return f"set {row.needs} to the folder of its data"
    partial, whole = folder / f".{row.name}.partial", folder / f"{row.name}.json"
    command = [sys.executable, "-W", "ignore", str(script), *row.arguments]
    try:
        done = subprocess.run(
            command, env={**os.environ, RESULT_VARIABLE: str(partial)}, timeout=ROW_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {ROW_SECONDS} s"
    if done.returncode or not partial.is_file():
        return f"{script.name} ended with {done.returncode}"
    partial.rename(whole)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path("runs/bench"), help="folder of the JSON files")
    parser.add_argument("--only", nargs="*", choices=[row.name for row in ROWS], help="rows to measure; default: all")
    parser.add_argument("--again", action="store_true", help="measure rows again that have a file")
    parser.add_argument("--page", type=Path, default=PAGE, help="page whose table is written")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    troubles = []
    for row in ROWS:
        if arguments.only is not None and row.name not in arguments.only:
            continue
        if (arguments.into / f"{row.name}.json").is_file() and not arguments.again:
            print(f"== {row.name}: measured before (--again measures it again)")
            continue
        started = time.perf_counter()
        print(f"== {row.name}: {row.title}", flush=True)
        trouble = measure(row, arguments.into)
        print(f"== {row.name}: {trouble or 'measured'}, {time.perf_counter() - started:.0f} s\n", flush=True)
        troubles += [f"{row.name}: {trouble}"] if trouble else []
    troubles += [
        f'below its goal, and without a reason in why.toml: "{key}"'
        for key in write_table(arguments.into, arguments.page)
    ]
    print(f"{arguments.page} has the table of {arguments.into}")
    for trouble in troubles:
        print(f"  {trouble}")


if __name__ == "__main__":
    main()
