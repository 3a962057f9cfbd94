"""Faults of what comes in: data, images, command line, reports and exports."""

from tests.faults.rows import Fault

SECTIONS: dict[str, tuple[Fault, ...]] = {}
