"""Run folders of commands."""

from pathlib import Path

from tests.conftest import ask


def run_folder(out: Path) -> Path:
    """The only run folder below a folder."""
    (config,) = out.glob("**/config.yaml")
    return config.parent


def trained(out: Path, *words: object) -> Path:
    """The run folder of `vit train WORDS --out OUT`, which must succeed."""
    ask("train", *words, "--out", out).ok()
    return run_folder(out)
