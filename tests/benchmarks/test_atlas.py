"""docs/atlas.md: sets are laid out from clones, means are those of R's metafor, and the page is that of its rows."""

import itertools
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from tests.processes import ROOT

# dat.bcg of R's metafor: log risk ratios of 13 studies and their variances (Colditz et al. 1994)
BCG = (
    -0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209, 0.0120, -0.4694, -1.3713, -0.3394, 0.4459, -0.0173,
)  # fmt: skip
BCG_VARIANCES = (
    0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230, 0.0040, 0.0564, 0.0730, 0.0124, 0.5325, 0.0714,
)  # fmt: skip


def git(clone, *words):
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *own, *words], cwd=clone, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def layout():
    import atlas_sets

    return atlas_sets


@pytest.fixture
def clone(tmp_path):
    """A clone with two classes in two parts, a copy, and a picture that lies in both classes."""
    found = tmp_path / "clones" / "pets"
    files = {
        "train/cat/a.jpg": b"1", "train/dog/a.jpg": b"2", "test/cat/a.jpg": b"3", "test/cat/b.jpg": b"1",
        "test/dog/both.jpg": b"4", "test/cat/both.jpg": b"4", "README.md": b"5",
    }  # fmt: skip
    for name, content in files.items():
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_bytes(content)
    git(found, "init", "--quiet")
    git(found, "add", ".")
    git(found, "commit", "--quiet", "--message", "pets")
    return found


@pytest.fixture
def pets(layout, clone):
    commit = git(clone, "rev-parse", "HEAD")
    files = r"(train|test)/(?P<label>[^/]+)/[^/]+\.jpg"
    return layout.PhotoSet("pets", "animals", "CC0", "somebody/pets", commit, files, sha256="")


def test_a_set_is_laid_out_without_copies_and_without_files_of_two_classes(layout, clone, pets, tmp_path):
    (clone / "train" / "cat" / "a.jpg").write_bytes(b"changed")  # the commit counts, not the files beside it
    whole = layout.laid_out(pets, clone, tmp_path / "out")
    found = {path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in tmp_path.glob("out/*/*/*")}
    assert found == {
        "pets/cat/test__cat__a.jpg": b"3",
        "pets/cat/test__cat__b.jpg": b"1",  # the first of two equal files, by their paths
        "pets/dog/train__dog__a.jpg": b"2",
    }
    assert layout.laid_out(replace(pets, sha256=whole), clone, tmp_path / "again") == whole
    with pytest.raises(SystemExit, match="exists; remove it"):
        layout.laid_out(pets, clone, tmp_path / "out")
    assert not list(tmp_path.glob("*/*.partial"))


def test_a_large_set_is_cut_in_one_way(layout, clone, pets, monkeypatch):
    all_files = layout.chosen_files(pets, clone)
    monkeypatch.setattr(layout, "MOST", 2)
    cut = layout.chosen_files(pets, clone)
    assert len(all_files) == 3
    assert sorted(cut.values()) == sorted(all_files.values())[:2]


def test_files_that_are_not_those_of_the_set_are_refused(layout, clone, pets, tmp_path):
    with pytest.raises(SystemExit, match=r"have hash .*, not 00; clone it again"):
        layout.laid_out(replace(pets, sha256="00"), clone, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    with pytest.raises(SystemExit, match="fetch origin COMMIT"):
        layout.laid_out(replace(pets, commit="0" * 40), clone, tmp_path / "out")
    with pytest.raises(SystemExit, match=r"no file of .* matches"):
        layout.laid_out(replace(pets, files=r"(?P<label>x)"), clone, tmp_path / "out")


def test_missing_clones_are_named_with_the_lines_that_bring_them(layout, tmp_path, capsys):
    (tmp_path / "clothing").mkdir()
    with pytest.raises(SystemExit, match="1 clones are missing"):
        layout.main([str(tmp_path), str(tmp_path / "out"), "signs"])
    assert capsys.readouterr().out == (
        f"git clone https://github.com/ardamavi/Sign-Language-Digits-Dataset {tmp_path / 'signs'}\n"
    )


def test_every_set_has_a_license_a_commit_and_a_hash(layout):
    sets = layout.read_sets().values()
    assert len(sets) >= 8
    assert len({one.repository for one in sets}) == len(sets)
    assert len({one.kind for one in sets}) == len(sets)
    for one in sets:
        assert one.license, one.name
        assert re.fullmatch("[0-9a-f]{40}", one.commit), one.name
        assert re.fullmatch("[0-9a-f]{64}", one.sha256), one.name
        assert "label" in re.compile(one.files).groupindex, one.name


def test_random_effects_are_those_of_metafor():
    """`rma(yi, vi, data=dat, test="knha")` of R's metafor: restricted maximum likelihood, Hartung and Knapp."""
    from random_effects import random_effects

    found = random_effects(BCG, np.sqrt(BCG_VARIANCES))
    assert found.count == 13
    assert found.mean == pytest.approx(-0.7145, abs=2e-4)
    assert found.deviation**2 == pytest.approx(0.3132, abs=2e-4)
    assert (found.low, found.high) == pytest.approx((-1.1084, -0.3206), abs=5e-4)
    assert found.p == pytest.approx(0.0019, abs=1e-4)
    error = (found.high - found.mean) / 2.1788  # of Student's t with 12 degrees of freedom
    assert error == pytest.approx(0.1807, abs=2e-4)
    reach = 2.2010 * (0.3132 + 0.1807**2) ** 0.5  # with 11, if tau were known (Higgins et al. 2009)
    assert 1 < (found.mean - found.next_low) / reach < 1.1 and 1 < (found.next_high - found.mean) / reach < 1.1


def test_equal_studies_have_no_scatter_and_an_interval():
    """Without the least factor of 1 the interval of Hartung and Knapp would have no width here."""
    from random_effects import random_effects

    found = random_effects([0.1, 0.1, 0.1], [0.02, 0.02, 0.02])
    assert found.deviation == 0
    assert found.high - 0.1 == pytest.approx(4.3027 * 0.02 / 3**0.5, rel=1e-3) and found.next_high >= found.high
    assert random_effects([0.1, 0.3], [0.02, 0.02]).next_low is None
    with pytest.raises(ValueError, match="two studies or more"):
        random_effects([0.1], [0.02])


def test_rows_of_one_set_take_the_place_of_its_older_ones_alone(tmp_path):
    from atlas_rows import ErrorRow, Key, SetRow, keep, read_rows

    for name, error in (("a", 0.5), ("b", 0.25), ("a", 1 / 3)):
        facts = SetRow(
            name, "frozen", 96, classes=2, images=100, train=70, validation=10, test=20, folds=0, seconds=1, machine="x"
        )
        keep(Key(name, "frozen", 96), [ErrorRow(name, "frozen", 96, "ViT", 50, 0, error), facts], tmp_path)
    assert [(row.set, row.error) for row in read_rows(ErrorRow, tmp_path)] == [("a", 0.333333), ("b", 0.25)]
    assert [row.set for row in read_rows(SetRow, tmp_path)] == ["a", "b"]


def test_standard_errors_cover_seeds_and_images():
    from atlas import standard_error

    from vit.study.statistics.paired import Pair

    draws = np.random.default_rng(0)
    first = draws.random((10, 400)) < 0.3
    assert standard_error(Pair(50, list(range(10)), first, first)) == 1 / 400  # they agree: one image's worth
    other = draws.random((10, 400)) < 0.2
    own = standard_error(Pair(50, list(range(10)), first, other))
    assert own == pytest.approx(((0.3 * 0.7 + 0.2 * 0.8) / 4000) ** 0.5, rel=0.5)
    hard = np.broadcast_to(first[0], first.shape)  # images alone decide, and all seeds share them
    alike = np.broadcast_to(other[0], first.shape)
    assert standard_error(Pair(50, list(range(10)), hard, alike)) == pytest.approx((0.37 / 400) ** 0.5, rel=0.2)


def test_the_page_is_that_of_the_rows():
    from atlas_figure import FIGURE, FROZEN, PAGE, shown
    from atlas_page import BLOCKS, Atlas, agreement_text, page, with_agreement
    from figures import stated

    from vit.study.frozen.frozen import AGREEMENT

    text, atlas = PAGE.read_text(encoding="utf-8"), Atlas.read()
    again = 'run "make results"'
    assert text == page(text, atlas), again
    assert agreement_text(atlas) == AGREEMENT, again
    code = FROZEN.read_text(encoding="utf-8")
    assert with_agreement(code.replace(AGREEMENT, "another"), atlas) == code
    assert stated(FIGURE) == shown(atlas), again
    assert all(f"written by `make results`: {name} -->" in text for name in BLOCKS)


def test_no_row_names_a_place_of_a_machine():
    for path in (ROOT / "evidence" / "atlas").iterdir():
        assert not re.search(r"(^|[\s,\"'])/\w", path.read_text(encoding="utf-8")), path


def test_large_splits_are_cut_to_the_class_fractions_of_all():
    import atlas

    from vit.data.core.samples import Samples, Source

    def samples(count):
        return Samples([f"{place:04}.jpg" for place in range(count)], np.arange(count) % 4 // 3)

    source = Source("made", ("a", "b"), {"train": samples(1000), "validation": samples(80), "test": samples(900)})
    found = atlas.at_most(source).splits
    assert {split: len(one) for split, one in found.items()} == {"train": 480, "validation": 80, "test": 300}
    assert found["train"].labels.mean() == pytest.approx(0.25, abs=0.01)
    assert found["validation"] is source.splits["validation"]


def test_each_stage_of_trainings_holds_the_one_before():
    """`vit study` refuses to leave out finished cells."""
    from atlas import jobs
    from atlas_rows import CHOSEN, SIDE, SMALL_SIDE, WHOLE, Key

    for wanted in (Key(name, "tuned", side) for name in CHOSEN for side in (SMALL_SIDE, SIDE)):
        stages = [(sizes, seeds) for key, sizes, seeds in jobs() if key == wanted]
        for (sizes, seeds), (more_sizes, more_seeds) in itertools.pairwise(stages):
            assert set(sizes) <= set(more_sizes) and seeds <= more_seeds
        assert 2 * len(stages[-1][0]) * stages[-1][1] == WHOLE
