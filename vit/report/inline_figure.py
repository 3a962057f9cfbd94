"""Figures inside a page; apart from `page.py`, because a page without figures does not need matplotlib"""

from markupsafe import Markup
from matplotlib.figure import Figure

from vit.report.page import inline
from vit.report.style import rendered


def drawn(figure: Figure) -> Markup:
    """A figure as the source of an <img>."""
    return inline(rendered(figure, "svg"), "image/svg+xml")
