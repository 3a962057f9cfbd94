"""`vit models`: the catalog, and what matches a pattern."""

from itertools import takewhile

import pytest

from vit.models.catalog import CATALOG
from vit.models.spec import create_network


def names(answer):
    """The first column of the table, which ends at the first line that is none of its rows."""
    rows = takewhile(lambda line: line and not line.startswith(("...", "GFLOPs")), answer.out.splitlines()[1:])
    return [row.split()[0] for row in rows]


@pytest.mark.slow
def test_the_catalog_with_its_true_sizes(vit):
    answer = vit("models")
    assert answer.code == 0 and answer.err == ""
    assert names(answer) == list(CATALOG)
    (line,) = [line for line in answer.out.splitlines() if line.startswith("vit_nano_patch2_8 ")]
    network = create_network("vit_nano_patch2_8", 1000)
    assert f" {sum(p.numel() for p in network.parameters()):,} " in line
    assert answer.out.strip().splitlines()[-1].startswith("Next: vit train DATA --network ")


def test_a_pattern_finds_timm_s_models_too(vit):
    answer = vit("models", "resnet1[48]*", "--limit", 2)
    assert answer.code == 0 and names(answer) == ["resnet18_cifar", "resnet14t"]
    assert "more; narrow the pattern or raise --limit" in answer.out


def test_a_pattern_that_matches_nothing(vit):
    vit("models", "resnet19").failed(2, "no network matches 'resnet19'", "did you mean 'resnet1")
