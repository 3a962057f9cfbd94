"""Scripts of pages: our own files, and the hash that allows them and nothing else"""

import base64
import hashlib
from importlib.resources import files

from markupsafe import Markup


def scripts(*names: str) -> dict[str, object]:
    """What a template needs for its scripts: their text, and its hash for the policy of the page.

    Args:
        names: names of files in `templates/`: "table.js" sorts and filters tables, "copy.js" copies a text.
    """
    folder = files("vit.report") / "templates"
    text = "".join((folder / name).read_text(encoding="utf-8") for name in names)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return {"script": Markup(text), "script_hash": f"sha256-{digest}"}  # noqa: S704  our own files
