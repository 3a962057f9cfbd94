"""`vit env`: versions, device, cores and extras, for the report of a fault; no path and no file of the user"""

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

from vit.console import Reporter
from vit.version import __version__

_LIBRARIES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "wandb", "numpy", "pillow")


def env() -> None:
    """Print versions, device, cores and installed extras. The output names no path and no file of yours.

    Example:
        vit env
    """
    import torch

    from vit.data.loading.threads import available_cores
    from vit.inference.devices import choose_device, choose_precision

    device = choose_device()
    name = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else ""
    Reporter().facts(
        [
            ("vit", __version__),
            ("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"),
            ("device", f"{device.type}{name}, precision {choose_precision('auto', device)}"),
            ("cores", str(available_cores())),
            ("libraries", ", ".join(f"{library} {_version(library)}" for library in _LIBRARIES)),
            ("extras", ", ".join(_extras()) or "none"),
        ]
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _extras() -> list[str]:
    """The extras all of whose packages are installed. A copy that pip has not installed has none."""
    packages: dict[str, list[str]] = {}
    try:
        lines = requires("vit-lightning") or []
    except PackageNotFoundError:
        return []
    for line in lines:
        wanted = re.match(r"([\w-]+).*extra == ['\"]([\w-]+)['\"]", line)
        if wanted and wanted[1] != "vit-lightning":
            packages.setdefault(wanted[2], []).append(wanted[1])
    return [extra for extra, names in packages.items() if all(_version(name) != "not installed" for name in names)]
