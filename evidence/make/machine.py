"""The machine that trains and measures the rows of evidence/."""

import os
import platform
from pathlib import Path

import torch


def processor() -> str:
    """The model name of the CPU."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine() -> str:
    """What trains on this machine: its GPU, or its CPU with the number of cores."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {os.cpu_count()} cores"
