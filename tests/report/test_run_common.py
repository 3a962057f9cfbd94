"""Parts that all pages of a run have."""

import pytest
import yaml

from vit.console import percent
from vit.report.page.page import templates
from vit.report.run.run_common import first_weights


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "random weights"),
        ("/home/a/deit_tiny.safetensors", "weights of deit_tiny.safetensors"),
        ("/home/a/runs/20260101-photos/", "weights of 20260101-photos"),
        ("/home/a/runs/20260101-photos/best.ckpt", "weights of 20260101-photos/best.ckpt"),
        ("best.ckpt", "weights of best.ckpt"),
        ("timm:deit_tiny_patch16_224", "weights of timm:deit_tiny_patch16_224"),
        ("hf:facebook/deit-tiny-patch16-224", "weights of hf:facebook/deit-tiny-patch16-224"),
    ],
)
def test_the_first_weights_are_named_without_folders_of_the_machine(source, words):
    assert first_weights(yaml.safe_dump({"model": {"init_from": source}})) == words


def test_a_column_is_sorted_by_the_number_of_its_cells():
    """The sign of a fraction that would be rounded to 100 % is not part of the number."""
    macro = '{% from "macros.html" import number %}{{ number(pair) }}'
    shown = templates.from_string(macro).render(pair=(percent(0.99999, sign=""), "99.98 to 100.00"))
    assert shown == '<td data-value="99.99">&gt; 99.99<small>99.98 to 100.00</small></td>'
