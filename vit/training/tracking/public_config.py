"""Options as a tracker may show them: without secrets, and without folders that name people"""

import re
from collections.abc import Mapping
from pathlib import Path

_SECRET = re.compile("key|token|passw|secret|credential", re.IGNORECASE)
_HARMLESS = (bool, int, float, type(None))


def public(value: object) -> object:
    """The value without texts under names of secrets. Of an absolute path, whose folders name people, the last part."""
    if isinstance(value, Mapping):
        hidden = {key for key, item in value.items() if _SECRET.search(str(key)) and not isinstance(item, _HARMLESS)}
        return {str(key): "(not uploaded)" if key in hidden else public(item) for key, item in value.items()}
    if isinstance(value, str) and (Path(value).is_absolute() or value.startswith("~")):
        return f".../{Path(value).name}"
    return [public(item) for item in value] if isinstance(value, list | tuple) else value


def flat(config: Mapping[str, object]) -> dict[str, object]:
    """The public options by their dotted names: {"optim.lr": 0.001}. Empty sections have no names."""
    found: dict[str, object] = {}

    def walk(value: object, name: str) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                walk(item, f"{name}.{key}" if name else str(key))
        else:
            found[name] = value

    walk(public(config), "")
    return found
