"""`vit study DATA`: networks x numbers of images x seeds, and what they say together."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from jsonargparse import ActionConfigFile
from jsonargparse.typing import OpenUnitInterval

from vit.commands.arguments import Parser, find_config, parse, shipped_configs
from vit.commands.recipe_options import SHORT, make_parser, to_recipe
from vit.commands.study_report import report_findings
from vit.console import ProgressReport, Reporter, duration, percent
from vit.errors import StoppedError, UsageError
from vit.training.recipe import Recipe

_REPEATED = ("vary", "tune", "set")
_FILE = "configs/studies/digits.yaml"


def study(arguments: Sequence[str]) -> int:
    """Run the cells that are not done yet, then write the report."""
    given = _parse(arguments)

    from vit.study.folder import StudyDirectory
    from vit.study.grid import make_cells, shard
    from vit.study.runner import machine
    from vit.training.plan import make_plan

    reporter = Reporter()
    series = _series(given)
    first = next(iter(next(iter(series.values())).values()))
    plan = make_plan(first)
    _check_source(plan)
    budget, sizes, seeds = _grid(given, len(plan.source.splits["train"]))
    fingerprints = {split: samples.fingerprint() for split, samples in plan.source.splits.items()}
    cells = make_cells(series, sizes, seeds, budget, fingerprints)
    for name in series:  # a value that cannot be is refused now, not in every cell
        for cell in [
            cell for cell in cells if cell.series == name and (cell.images, cell.seed) == (sizes[0], seeds[0])
        ]:
            make_plan(cell.recipe)
    folder = StudyDirectory(Path(given.out).expanduser() / (given.name or _name(given, plan.source.name)))
    place = machine(given.jobs)
    mine = shard(cells, *_shard(given.shard))
    protocol = _protocol(given, plan, budget, sizes, seeds, series, fingerprints, place)
    _show(reporter, protocol, mine, place, folder.path)
    if given.dry_run:
        _estimate(reporter, mine, place)
        reporter.next_command(f"vit study {shlex.join(token for token in arguments if token != '--dry_run')}")
        return 0
    folder.describe(cells, protocol)
    failed = _run(reporter, folder, mine, place)
    report_findings(reporter, folder.path, None if given.target is None else float(given.target))
    return 5 if failed else 0


def _parse(arguments: Sequence[str]) -> Any:
    parser = Parser(
        "study",
        "Train every network on growing parts of DATA's training images, with several seeds, and report who is better "
        "where, with intervals. Run the same command again to go on with a study that was ended.",
        "vit study photos/ --networks vit_tiny_cifar,resnet18_cifar --sizes 100,300,1000,all --seeds 5 "
        "--budget steps:2000",
    )
    parser.add_argument("--config", action=ActionConfigFile, help=f"a study's YAML file, such as {_FILE}")
    parser.add_argument(
        "source", metavar="DATA", type=str | None, nargs="?", default=None, help="as for vit train; null: the recipe's"
    )
    listed = list[str | int] | dict[str, str] | str | int
    parser.add_argument(
        "--networks",
        type=listed,
        default="auto",
        help="names from 'vit models', or recipes; the first is the reference",
    )
    parser.add_argument("--sizes", type=listed, default="10%,30%,100%", help="training images: counts, percent, all")
    parser.add_argument("--seeds", type=listed, default=3, help="how many, or a list of them")
    parser.add_argument("--budget", type=str, default="steps:2000", help="steps:N, epochs:E, or both for the longer")
    parser.add_argument("--data", type=dict[str, Any], default={}, help="--data.root and the like, as for vit train")
    parser.add_argument("--vary", type=dict[str, Any], default={}, help="OPTION=A,B,...: compare values; repeatable")
    parser.add_argument(
        "--tune",
        type=dict[str, Any] | str,
        default={},
        help="OPTION=A,B,... (repeatable), or a YAML file of such: chosen on validation images with the first seed, "
        "for every network and size; x0.3 means 0.3 times the recipe's value",
    )
    parser.add_argument("--set", type=dict[str, Any], default={}, help="OPTION=VALUE for all cells; repeatable")
    parser.add_argument("--jobs", type=int | None, default=None, help="cells at a time; null: one a GPU, or a CPU core")
    parser.add_argument("--shard", type=str, default="1/1", help="I/N: the I-th of N parts, for as many machines")
    parser.add_argument("--dry_run", action="store_true", help="show cells and estimated time, and train nothing")
    parser.add_argument(
        "--target", type=OpenUnitInterval | None, default=None, help="accuracy: how many images would reach it?"
    )
    parser.add_argument("--out", type=str, default="studies", help="folder that study folders are made in")
    parser.add_argument("--name", type=str | None, default=None, help="the study's folder; null: the data's name")
    parser.add_argument(
        "--wandb",
        type=Literal["auto", "online", "offline", "off"],
        default="auto",
        help="a run per cell, all in one group; auto: online where you are logged in, else off",
    )
    return parse(parser, [*_find_configs(_gather(arguments))])


def _gather(arguments: Sequence[str]) -> list[str]:
    """Put repeated options (--vary A=1,2 --vary B=3) together, as one mapping each."""
    rest: list[str] = []
    found: dict[str, dict[str, Any]] = {name: {} for name in _REPEATED}
    tokens = iter(arguments)
    for token in tokens:
        name, equals, value = token.removeprefix("--").partition("=")
        if not token.startswith("--") or name not in _REPEATED:
            rest.append(token)
            continue
        text = value if equals else next(tokens, "")
        option, equals, values = text.partition("=")
        if not equals and name == "tune" and Path(text).expanduser().is_file():
            rest.append(f"--tune={text}")
        elif not equals or not values:
            raise UsageError(f"--{name} {text}", f"give --{name} OPTION=VALUE{',VALUE' * (name != 'set')}")
        else:
            dotted = SHORT.get(f"--{option}", f"--{option}").removeprefix("--")
            found[name][dotted] = values if name == "set" else values.split(",")
    return [*rest, *(f"--{name}={yaml.safe_dump(values, width=10**6)}" for name, values in found.items() if values)]


def _find_configs(tokens: Sequence[str]) -> list[str]:
    """The same with --config as a path; a shipped study is found by its name."""
    result: list[str] = []
    rest = iter(tokens)
    for token in rest:
        name, equals, value = token.partition("=")
        if name == "--config":
            value = value if equals else next(rest, "")
            value = f"studies/{value}" if f"studies/{value}" in shipped_configs() else value
            result.insert(0, f"--config={find_config(value)}")
        else:
            result.append(token)
    return result


def _words(value: Any) -> list[str]:
    """A list from the command line (commas) or from YAML."""
    if isinstance(value, list):
        return [str(item) for item in value]
    return [part.strip() for part in str(value).split(",") if part.strip()]


def _series(given: Any) -> dict[str, dict[str, Recipe]]:
    from vit.study.spec import make_series

    parser = make_parser()

    def read(options: Sequence[str]) -> Recipe:
        return to_recipe(parser, parse(parser, options))

    networks = {}
    named = given.networks if isinstance(given.networks, dict) else {word: word for word in _words(given.networks)}
    for label, word in named.items():
        is_recipe = word in shipped_configs() or Path(word).expanduser().suffix in (".yaml", ".yml")
        networks[str(label)] = [f"--config={find_config(word)}"] if is_recipe else [f"--model.network.name={word}"]
    if not networks:
        raise UsageError("--networks is empty", "give at least one; 'vit models' lists them")
    data = {f"data.{key}": value for key, value in given.data.items()}
    if given.source is not None:
        data["data.source"] = given.source
    mode = given.wandb
    if mode == "auto":
        from vit.training.tracking import logged_in

        mode = "online" if logged_in() else "off"
    shared = {**data, **given.set, "wandb": mode}
    tune = given.tune
    if isinstance(tune, str):
        tune = yaml.safe_load(Path(tune).expanduser().read_text(encoding="utf-8"))
    vary, tune = ({key: _words(values) for key, values in grid.items()} for grid in (given.vary, tune or {}))
    series = make_series(networks, shared, vary, tune, read)
    sources = {recipe.data.source for choices in series.values() for recipe in choices.values()}
    if len(sources) > 1:
        raise UsageError(f"the recipes name different data: {', '.join(sorted(sources))}", "give DATA")
    return series


def _check_source(plan: Any) -> None:
    if "test" not in plan.source.splits:
        raise UsageError("a study needs test images", "give --data.test a share above 0")


def _grid(given: Any, pool: int) -> tuple[Any, list[int], list[int]]:
    from vit.study.grid import Budget, parse_sizes

    seeds = _words(given.seeds)
    if not all(seed.isdigit() for seed in seeds) or not seeds or seeds == ["0"]:
        raise UsageError(f"--seeds {given.seeds}", "give how many (5), or a list of them (0,1,2)")
    several = isinstance(given.seeds, list) or len(seeds) > 1
    numbers = sorted({int(seed) for seed in seeds}) if several else list(range(int(seeds[0])))
    return Budget.parse(given.budget), parse_sizes(_words(given.sizes), pool), numbers


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard {text}", "give I/N with I from 1 to N, such as 2/8")
    return int(found[1]), int(found[2])


def _name(given: Any, data: str) -> str:
    from vit.training.run import slug

    return Path(str(given.config[-1])).stem if given.config and given.source is None else slug(data)


def _protocol(
    given: Any,
    plan: Any,
    budget: Any,
    sizes: Sequence[int],
    seeds: Sequence[int],
    series: dict[str, dict[str, Recipe]],
    fingerprints: dict[str, str],
    place: Any,
) -> dict[str, Any]:
    tuned = len(next(iter(series.values())))
    choices = {name: list(found) for name, found in series.items()}
    return {
        "data": plan.source.name,
        "classes": len(plan.source.classes),
        "images": {split: len(samples) for split, samples in plan.source.splits.items()},
        "fingerprints": fingerprints,
        "sizes": list(sizes),
        "seeds": list(seeds),
        "budget": str(budget),
        "budget_words": budget.words(),
        "tuning": f"chosen among {tuned} settings at every size, on validation images, with seed {seeds[0]}; then fixed"
        if tuned > 1
        else "fixed recipe",
        **({"settings": choices} if tuned > 1 else {}),
        "subsets": "class-balanced, each inside the next larger, drawn once per seed and shared by all networks",
        "series": list(series),
        "jobs": f"{place.jobs} at a time, {place.threads} threads each" + f", {place.gpus} GPUs" * bool(place.gpus),
    }


def _show(reporter: Reporter, protocol: dict[str, Any], cells: Sequence[Any], place: Any, folder: Path) -> None:
    images = ", ".join(f"{count:,} {split}" for split, count in protocol["images"].items())
    reporter.line(f"Study of {protocol['data']}")
    reporter.facts(
        [
            ("data", f"{images}; {protocol['classes']} classes"),
            ("compare", "; ".join(protocol["series"])),
            ("sizes", ", ".join(f"{size:,}" for size in protocol["sizes"])),
            ("seeds", ", ".join(map(str, protocol["seeds"]))),
            ("budget", protocol["budget_words"]),
            ("tuning", protocol["tuning"]),
            ("cells", f"{len(cells):,}, {protocol['jobs']}"),
            ("folder", str(folder)),
        ]
    )


def _run(reporter: Reporter, folder: Any, cells: Sequence[Any], place: Any) -> int:
    """Run cells, those first that tuning chooses by; returns how many failed."""
    from vit.study.folder import tuned
    from vit.study.runner import run_cells

    watcher = _Watcher(reporter, folder.path, cells)
    group = folder.path.name
    try:
        if any(cell.choice for cell in cells):
            first = {cell.group: cell.seed for cell in reversed(cells)}
            run_cells(folder.path, [c for c in cells if c.seed == first[c.group]], place, group, watcher.told)
            keyed = [(cell.group, cell.seed, cell.choice, cell.folder.as_posix()) for cell in cells]
            choices = tuned(folder, keyed)
            cells = [cell for cell in cells if choices.get(cell.group) == cell.choice]
            watcher.expect(cells)
        run_cells(folder.path, cells, place, group, watcher.told)
    except KeyboardInterrupt as error:
        raise StoppedError(130, "interrupted", "to go on, give the same command again") from error
    finally:
        watcher.close()
    return watcher.failed


class _Watcher:
    """Tells what became of the cells."""

    def __init__(self, reporter: Reporter, study: Path, cells: Sequence[Any]) -> None:
        self.reporter, self.study = reporter, study
        self.progress = ProgressReport(reporter, "cell")
        self.running = self.done = self.failed = 0
        self.expect(cells)

    def expect(self, cells: Sequence[Any]) -> None:
        """So many are left."""
        from vit.study.folder import result_of

        left = sum(result_of(self.study / cell.folder) is None for cell in cells)
        self.total = self.done + self.failed + left
        if left < len(cells) and not self.done:
            self.reporter.notice(f"{len(cells) - left:,} of {len(cells):,} cells were done before")

    def told(self, cell: Any, what: str) -> None:
        """A cell started, or ended."""
        from vit.study.folder import failure_file, result_of

        if what == "started":
            self.running += 1
        else:
            self.running -= 1
            run = self.study / cell.folder
            if what == "done":
                self.done += 1
                result = result_of(run) or {}
                accuracy = percent(result["metrics"]["acc1"]["value"])
                words = f"{accuracy} test accuracy, {duration(result['seconds'])}"
            else:
                self.failed += 1
                words = f"FAILED: {failure_file(run).read_text(encoding='utf-8').strip()} (see {run / 'log.txt'})"
            self.reporter.notice(f"{self.done + self.failed}/{self.total}  {cell.words()}: {words}")
        self.progress.update(self.done + self.failed, self.total, f"{self.running} running, {self.failed} failed")

    def close(self) -> None:
        """Take the bar away."""
        self.progress.close()


def _estimate(reporter: Reporter, cells: Sequence[Any], place: Any) -> None:
    """Time a step of every network, and show what the cells would take."""
    from vit.study.runner import time_network
    from vit.training.plan import make_plan

    largest = {cell.series: cell for cell in sorted(cells, key=lambda cell: int(cell.images))}
    timed = {name: time_network(cell.recipe, place) for name, cell in largest.items()}
    rows, seconds = [], 0.0
    for series, images in dict.fromkeys(cell.group for cell in cells):
        same = [cell for cell in cells if cell.group == (series, images)]
        plan = make_plan(same[0].recipe)
        step, image = timed[series]
        each = plan.batch_size / make_plan(largest[series].recipe).batch_size
        scored = plan.rounds * len(plan.source.splits["validation"]) + len(plan.source.splits["test"])
        took = plan.total_steps * step * each + scored * image
        seconds += took * len(same)
        rows.append((series, f"{images:,}", len(same), f"{plan.total_steps:,}", plan.batch_size, duration(took)))
    reporter.table(("series", "images", "cells", "steps", "batch", "time each"), rows)
    total = duration(seconds / place.jobs)
    reporter.line(
        f"\n{len(cells):,} cells, about {total} with {place.jobs} at a time on {os.cpu_count()} cores; "
        "a step of each network was timed, reading images and saving are not in it"
    )
