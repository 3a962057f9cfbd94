"""Faults of what goes on: checkpoints, kills, processes, tracking, disks, numbers."""

from tests.faults.rows import Fault

SECTIONS: dict[str, tuple[Fault, ...]] = {}
