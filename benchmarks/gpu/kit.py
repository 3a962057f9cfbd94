"""The GPU kit: what only a GPU can show, in nine minutes. `make gpu`, or on two cores `make gpu DEVICE=cpu`.

Three parts, each a process of its own, in this order:

- correct: `pytest -m gpu`, every path that CPUs never take.
- fast: images/s of training and prediction beside timm and torchvision, whose sides take turns.
- where: a profile of 20 steps: how busy the GPU is, launches a step, host time by function.

Each row is a JSON file in the folder. A row whose file exists is not measured again, so that a call that was cut off
continues. At the end the table is printed, and written into docs/performance.md unless the device is a CPU.

A machine without network: `make gpu_wheels` on another one brings what is missing into the folder .wheels/, which goes
along with the repository.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from table import between  # noqa: E402
from timing import RESULT_VARIABLE, Measurement  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- gpu: make gpu -->", "<!-- end of gpu -->"
PEERS = ("--peers", "timm", "torchvision")
BUDGET = 540  # seconds, of which a row takes what is left at most
NEEDED = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "yaml", "sklearn",
          "scipy", "rich", "matplotlib", "safetensors", "pyarrow", "fsspec", "jinja2", "PIL", "pytest", "hypothesis",
          "httpx")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row of the kit.

    Attributes:
        name: name of its JSON file.
        title: what it measures.
        words: script of benchmarks/ and its arguments on a GPU.
        tiny: arguments on a CPU.
        goal: side and ratio to reach.
        environment: variables of its process.
    """

    name: str
    title: str
    words: tuple[str, ...]
    tiny: tuple[str, ...]
    goal: tuple[str, float] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def _step(
    name: str, title: str, size: str, batch: int, goal: tuple[str, float] | None = None, more: tuple[str, ...] = ()
) -> Row:  # fmt: skip
    words = ("training_step.py", "--size", size, "--batch", str(batch), "--turns", "3", "--seconds", "1", *PEERS, *more)
    tiny = ("--size", "nano", "--turns", "1", "--seconds", ".01", "--no_compile", *PEERS)
    return Row(name, title, words, tiny, goal)


EAGER = ("--no_compile", "--ours", "trainer.compile=false")
AGAIN = ("--no_compile", "--ours", "trainer.grad_checkpointing=true")
GRAPHS = {"TORCHINDUCTOR_CUDAGRAPHS": "1"}  # torch.compile's mode reduce-overhead, for both sides


TINY_PHOTOS = ("--images", "3", "--pairs", "1", "--workers", "0")
ROWS = (
    _step("train_s16", "training ViT-S/16, 224 px, batch 256", "s16", 256, ("timm", 3.0)),
    _step("train_s16_eager", "the same, ours not compiled", "s16", 256, more=EAGER),
    _step("train_cifar", "training CIFAR-10's ViT, 32 px, batch 1,024", "32px", 1024),
    _step("train_cifar_eager", "the same, ours not compiled", "32px", 1024, more=EAGER),
    replace(_step("train_cifar_graphs", "the same, both in CUDA graphs", "32px", 1024), environment=GRAPHS),
    Row("predict", "`vit predict` of 5,000 JPEG files, ViT-Ti/16", ("predict_folder.py", "--images", "5000", "--pairs",
        "3", "--workers", "16", "--compiled"), TINY_PHOTOS, ("timm bfloat16 compiled", 1.5)),
    Row("train_jpegs", "training ViT-S/16 from JPEG files, batch 256", ("train_photos.py", "--network",
        "vit_small_patch16_224", "--batch", "256", "--images", "12000", "--pairs", "3", "--workers", "16"),
        ("--images", "60", "--pairs", "1", "--workers", "1", "--batch", "2", "--steps", "2", "--image_size", "32",
         "--network", "vit_tiny_patch16_224")),
    _step("train_b16", "training ViT-B/16, 224 px, batch 256", "b16", 256),
    _step("train_b16_again", "the same, ours with blocks computed again", "b16", 256, more=AGAIN),
    _step("train_r50", "training ResNet-50, 224 px, batch 256", "resnet50", 256),
    _step("train_ti16", "training ViT-Ti/16, 224 px, batch 256", "ti16", 256),
    Row("infer_b16", "passes of ViT-B/16, 224 px, batch 256", ("inference.py", "--size", "b16", "--batch", "256",
        "--turns", "3", *PEERS), ("--size", "nano", "--turns", "1", "--seconds", ".01", "--no_compile", *PEERS),
        ("timm compiled", 1.0)),
)  # fmt: skip
PROFILE = "where"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: all of it with tiny sizes")
    parser.add_argument("--into", type=Path, default=ROOT / "runs" / "gpu", help="folder of the JSON files")
    parser.add_argument("--only", nargs="*", help="correct, where, or names of rows; default: all")
    parser.add_argument("--page", type=Path, default=PAGE, help="page whose table is written after a run on a GPU")
    arguments = parser.parse_args()
    folder: Path = arguments.into if arguments.device == "cuda" else arguments.into.with_name("gpu_on_cpu")
    folder.mkdir(parents=True, exist_ok=True)
    environment = _environment(folder, arguments.device)
    started = time.monotonic()
    failed = False
    for name, words in _commands(folder, arguments.device):
        if arguments.only and name not in arguments.only:
            continue
        left = BUDGET - (time.monotonic() - started)
        if left < 10:
            print(f"== {name}: no time is left; the same command continues here", flush=True)
            continue
        print(f"== {name}, {BUDGET - left:.0f} s", flush=True)
        own = next((row.environment for row in ROWS if row.name == name), {})
        failed |= not _ran(name, words, folder, {**environment, **own}, left)
    lines = list(table(folder))
    print("\n".join(lines))
    if arguments.device == "cuda":
        between(arguments.page, BEGIN, END, lines)
        print(f"{arguments.page} has this table")
    sys.exit(failed)


def _commands(folder: Path, device: str) -> Iterator[tuple[str, list[str]]]:
    """The parts that are not measured yet, each with its command."""
    tests = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider", str(ROOT / "tests" / "gpu")]
    yield "correct", tests
    if not (folder / f"{PROFILE}.json").is_file():
        yield PROFILE, [sys.executable, str(HERE / "profile_steps.py"), *(["--tiny"] if device == "cpu" else [])]
    seen = set()
    for row in ROWS:
        script, *words = row.words
        own = row.tiny if device == "cpu" else words
        is_repeated = device == "cpu" and script in seen  # tiny rows of one script are equal
        if not (folder / f"{row.name}.json").is_file() and not is_repeated:
            yield row.name, [sys.executable, "-W", "ignore", str(HERE.parent / script), *own]
        seen.add(script)


def _ran(name: str, words: list[str], folder: Path, environment: dict[str, str], seconds: float) -> bool:
    """Whether a part ended well. Its JSON file then exists."""
    partial = folder / f".{name}.partial"
    try:
        done = subprocess.run(
            words, env={**environment, RESULT_VARIABLE: str(partial)}, cwd=ROOT, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"== {name}: cut off after {seconds:.0f} s; the same command continues here", flush=True)
        return False
    if partial.is_file() and not done.returncode:
        partial.rename(folder / f"{name}.json")
    return done.returncode in (0, 5)  # pytest's 5: all tests have passed before


def _environment(folder: Path, device: str) -> dict[str, str]:
    """The environment of all parts, with packages that this machine lacks from .wheels/."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VIT_GPU_RECORD": str(folder), "HF_HUB_OFFLINE": "1"}
    if device == "cpu":
        environment |= {"VIT_GPU_TEST": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    missing = [name for name in NEEDED if find_spec(name) is None]
    wheels = sorted(map(str, (ROOT / ".wheels").glob("*.whl")))
    if missing and not wheels:
        sys.exit(
            f"{sys.executable} lacks {', '.join(missing)}: install vit's extra dev, or bring .wheels/ (make gpu_wheels)"
        )
    if wheels and missing:
        target = Path(tempfile.gettempdir(), "vit_gpu_wheels")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--upgrade", "--target"]
        subprocess.run([*pip, str(target), *wheels], check=True)
        environment["PYTHONPATH"] += os.pathsep + str(target)
    return environment


def table(folder: Path) -> Iterator[str]:
    """The kit's table: tests, speeds, and where the time goes."""
    tests = {path.stem[8:]: json.loads(path.read_text()) for path in sorted(folder.glob("correct_*.json"))}
    measured = {row.name: Measurement.read(path) for row in ROWS if (path := folder / f"{row.name}.json").is_file()}
    for found in list(measured.values())[:1]:
        yield f"{found.day}, {found.machine}. Versions: {', '.join(f'{k} {v}' for k, v in found.versions.items())}."
        yield ""
    yield "| path | outcome | difference | seconds |"
    yield "|---|---|---|---|"
    for name, row in tests.items():
        outcome = row["outcome"] if row["outcome"] == "passed" else f"{row['outcome']}: {row['why']}"
        yield f"| {name.replace('_', ' ')} | {outcome.replace('|', '/')} | {row['measured']} | {row['seconds']:.1f} |"
    if not tests:
        yield "| `pytest -m gpu` | not measured | | |"
    yield ""
    yield "| row | against | ratio: median (min to max) | n | goal | ours, images/s | MFU |"
    yield "|---|---|---|---|---|---|---|"
    for row in ROWS:
        yield from _speeds(row, measured.get(row.name))
    yield ""
    profile = folder / f"{PROFILE}.json"
    if profile.is_file():
        yield from json.loads(profile.read_text())["lines"]
    else:
        yield "Where the time of a step goes: not measured."


def _speeds(row: Row, found: Measurement | None) -> Iterator[str]:
    if found is None:
        yield f"| {row.title} | not measured | | | | | |"
        return
    ours, *theirs = found.speeds
    mfu = "" if found.mfu is None else f"{100 * found.mfu:.1f} %"
    title, speed = row.title, f"{median(found.speeds[ours]):,.0f}"
    for side in theirs:
        ratios = found.ratios(ours, side)
        goal = f">= {row.goal[1]:g}" if row.goal and row.goal[0] == side else ""
        ratio = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        yield f"| {title} | {side} | {ratio} | {len(ratios)} | {goal} | {speed} | {mfu} |"
        title = speed = mfu = ""


if __name__ == "__main__":
    main()
