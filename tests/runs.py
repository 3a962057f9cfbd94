"""Run folders that commands make."""

from pathlib import Path


def run_folder(out: Path) -> Path:
    """The only one below a folder."""
    (config,) = out.glob("**/config.yaml")
    return config.parent
