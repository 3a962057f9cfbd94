"""Start and end of commands, with Python's own garbage collection and with that of `vit` (vit.memory.collect_seldom).

The sides are whole processes in turn, on a run of digits and one picture. A speed is runs per second.

    python benchmarks/garbage_collection.py
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from startup import prepare, vit, whole, write_picture
from timing import Measurement, take_turns

AS_PYTHON_DOES = (
    "import sys, vit.__main__ as program; program.collect_seldom = lambda: None; sys.exit(program.main(sys.argv[1:]))"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="turns of each side; default 5")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_picture(folder / "picture.jpg")
        run, _ = prepare(folder)
        for words in (("predict", run, "picture.jpg"), ("evaluate", run), ("models",)):
            commands = {
                "vit's": vit(*words),
                "Python's": [sys.executable, "-c", AS_PYTHON_DOES, *map(str, words)],
            }
            sides = {side: partial(whole, command, folder) for side, command in commands.items()}
            for call in sides.values():
                call()  # the files of every library are in the page cache then
            Measurement(f"vit {words[0]}", take_turns(sides, arguments.turns), unit="runs").show()


if __name__ == "__main__":
    main()
