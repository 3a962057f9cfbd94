"""Run folders of commands."""

from pathlib import Path


def run_folder(out: Path) -> Path:
    """The only run folder below a folder."""
    (config,) = out.glob("**/config.yaml")
    return config.parent
