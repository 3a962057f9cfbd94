"""Groups: no split divides one, and whatever makes that impossible is refused with its reason."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedGroupKFold

from vit.data.checks.bursts import with_bursts
from vit.data.checks.check import _group_findings
from vit.data.core.groups import leaks, with_groups
from vit.data.core.image_bytes import content_hash
from vit.data.core.samples import Samples, Source
from vit.data.sources.sources import open_source
from vit.data.splits.split import fold_numbers, read_splits, with_all_splits, with_fold, write_splits
from vit.data.splits.stratified import group_folds, stratified
from vit.errors import DataError
from vit.training.planning.images import chosen_part, divided
from vit.training.recipes.image_options import DataConfig


def digests(samples):
    return [content_hash(samples.file(place).read_bytes()) for place in range(len(samples))]


def source_of(labels, groups=None, names=None):
    """A source of made-up images, without pixels."""
    paths = names or [f"{index:04d}.png" for index in range(len(labels))]
    samples = Samples(paths, np.asarray(labels, dtype=np.int64), Path("photos"), groups=groups and tuple(groups))
    return Source("photos", tuple(f"class{number}" for number in range(max(labels) + 1)), {"train": samples})


def patients(num_groups, seed, num_classes=3):
    """Labels and groups of patients, each with up to seven images of one or two classes."""
    generator, labels, groups = np.random.default_rng(seed), [], []
    for group in range(num_groups):
        count, own = generator.integers(1, 8), generator.choice(num_classes, 2)
        labels += generator.choice(own, count).tolist()
        groups += [f"p{group}"] * count
    return labels, groups


@pytest.fixture
def photos(tmp_path, draw_classes):
    """A folder of three classes with 12 images each."""
    return draw_classes(tmp_path / "photos", ("blue", "green", "red"), 12)


def test_folds_without_copies_are_those_of_the_images_alone(photos):
    source = open_source(str(photos))
    whole = source.splits["train"]
    wanted = fold_numbers(whole, source.class_names, 3, 5)
    for number in range(3):
        found = with_fold(source, f"{number + 1}/3", 5)
        assert found.splits["test"].paths == [whole.paths[place] for place in np.flatnonzero(wanted == number)]
        assert "contents" not in found.notes[-1]


@pytest.mark.faults("D34")
@pytest.mark.parametrize("pattern", [None, r"(\d\d)"])
def test_a_fold_never_tests_a_copy_of_a_training_image(photos, pattern):
    """Also where copies have another class, or are of another group: the groups are then kept together, too."""
    for index, label in ((0, "blue"), (3, "blue"), (7, "green")):
        (photos / label / f"copy{90 + index}.png").write_bytes((photos / "blue" / f"{index:02d}.png").read_bytes())
    source, sizes = with_bursts(with_groups(open_source(str(photos)), pattern)), []
    for number in (1, 2, 3):
        found = with_fold(source, f"{number}/3", 0)
        train, test = (found.splits[split] for split in ("train", "test"))
        assert not set(digests(train)) & set(digests(test))
        assert not set(train.groups) & set(test.groups)
        sizes.append(len(test))
    assert sum(sizes) == 39 and max(sizes) - min(sizes) <= (1 if pattern is None else 4)


def test_copies_in_memory_are_together():
    generator = np.random.default_rng(0)
    arrays = generator.integers(0, 256, (30, 4, 4), dtype=np.uint8)
    arrays[20] = arrays[1]
    samples = Samples([f"{place:02d}" for place in range(30)], np.arange(30) % 3, arrays=arrays)
    source = with_bursts(Source("pixels", ("a", "b", "c"), {"train": samples}))
    assert all(
        len({"01", "20"} & set(with_fold(source, f"{number}/5", 0).splits["test"].paths)) != 1 for number in range(1, 6)
    )


@settings(max_examples=6)
@given(st.integers(2, 6), st.integers(0, 50), st.booleans())
def test_every_image_is_in_one_test_fold_and_no_group_is_divided(folds, seed, has_groups):
    labels, groups = patients(40, seed)
    source = source_of(labels, groups if has_groups else None)
    tested, sizes = [], []
    for number in range(1, folds + 1):
        splits = with_fold(source, f"{number}/{folds}", seed).splits
        tested += splits["test"].paths
        sizes.append(len(splits["test"]))
        assert sorted([*splits["train"].paths, *splits["test"].paths]) == source.splits["train"].paths
        assert set(splits["train"].labels) == set(labels)
        if has_groups:
            assert not set(splits["train"].groups) & set(splits["test"].groups)
        else:
            counts = np.bincount(splits["test"].labels, minlength=3)
            assert (abs(counts - np.bincount(labels) / folds) < 1).all()
    assert sorted(tested) == source.splits["train"].paths
    assert has_groups or max(sizes) - min(sizes) <= 1


def test_folds_depend_on_names_and_seed_and_not_on_the_order_of_files():
    labels, groups = patients(40, 0)
    source = source_of(labels, groups)
    mixed = source.splits["train"].select(np.random.default_rng(1).permutation(len(labels)))
    one = dict(
        zip(source.splits["train"].paths, fold_numbers(source.splits["train"], source.class_names, 5, 0), strict=True)
    )
    assert one == dict(zip(mixed.paths, fold_numbers(mixed, source.class_names, 5, 0), strict=True))
    assert one != dict(zip(mixed.paths, fold_numbers(mixed, source.class_names, 5, 1), strict=True))


def test_folds_of_groups_are_as_even_as_those_of_scikit_learn():
    def unevenness(labels, numbers):
        counts = np.array([np.bincount(labels[numbers == fold], minlength=3) for fold in range(5)])
        return (counts / np.bincount(labels)).std(axis=0).mean()

    ours, theirs = [], []
    for seed in range(5):
        labels, groups = patients(60, seed)
        labels, numbers = np.array(labels), np.empty(len(labels), dtype=int)
        for fold, (_, test) in enumerate(StratifiedGroupKFold(5).split(labels, labels, groups)):
            numbers[test] = fold
        ours.append(unevenness(labels, group_folds(labels, groups, 5, seed)))
        theirs.append(unevenness(labels, numbers))
    assert np.mean(ours) <= 1.1 * np.mean(theirs)


@pytest.mark.faults("D28", "D30")
def test_splits_keep_groups_whole_and_every_class_in_train(tmp_path):
    labels, groups = patients(40, 3)
    labels, groups = [*labels, 3, 3, 3], [*groups, "only", "only", "only"]  # class 3 has one group
    cut = with_all_splits(source_of(labels, groups), 0.2, 0.2, 0, calibration=0.1)
    of_split = {split: set(samples.groups) for split, samples in cut.splits.items()}
    assert sum(map(len, of_split.values())) == 41
    assert set().union(*of_split.values()) == set(groups)
    assert "only" in of_split["train"]
    assert abs(len(cut.splits["test"]) / len(labels) - 0.2) < 0.03
    write_splits(cut, tmp_path / "splits.csv", {split: [""] * len(samples) for split, samples in cut.splits.items()})
    rows = read_splits(tmp_path / "splits.csv")
    assert {split: {row.group for row in own} for split, own in rows.items()} == of_split
    with pytest.raises(DataError, match="'class3' are in one group"):
        with_fold(source_of(labels, groups), "1/5", 0)


@pytest.mark.faults("D28")
def test_a_group_in_two_given_splits_is_a_warning_of_the_plan_and_an_error_of_the_check():
    train = source_of([0, 1, 0, 1], ["a", "b", "c", "d"]).splits["train"]
    test = replace(train.select([0, 1]), paths=["x.png", "y.png"], groups=("d", "e"))
    source = Source("photos", ("class0", "class1"), {"train": train, "validation": train.select([2, 3]), "test": test})
    notes = " ".join(divided(source, DataConfig()).notes)
    assert "WARNING: train and test share 1 group (d)" in notes
    found = {(one.split, one.other_split): one for one in _group_findings(source)}
    assert found["train", "test"].severity == "error"
    assert found["validation", "test"].severity == "warning"
    assert "'d'" in found["train", "test"].detail
    assert not leaks(divided(source, DataConfig(fold="1/2")))


@pytest.mark.faults("D29")
def test_images_without_a_useful_group_are_refused():
    source = source_of([0, 1] * 6, names=[f"p{index // 4}_{index}.png" for index in range(11)] + ["other.png"])
    with pytest.raises(DataError, match=r"no group in 1 of 12 paths, such as other\.png"):
        with_groups(source, "(p[0-9]+)_")
    assert set(with_groups(source, "(p[0-9]+|other)").splits["train"].groups) == {"p0", "p1", "p2", "other"}
    one = source_of([0, 1] * 6, ["same"] * 12)
    with pytest.raises(DataError, match="too few to cut a validation split of whole groups: they are 1 group;"):
        with_all_splits(one, 0.2, 0.2, 0)
    with pytest.raises(DataError, match="too few groups for 5 folds: 1"):
        with_fold(one, "1/5", 0)


@pytest.mark.faults("D30")
def test_a_class_with_one_image_cannot_be_in_folds():
    with pytest.raises(DataError, match="there is only one image of 'class2': their"):
        with_fold(source_of([0, 1] * 6 + [2]), "1/3", 0)


@pytest.mark.faults("K17")
@pytest.mark.parametrize(("option", "value"), [
    ("fold", "0/5"), ("fold", "6/5"), ("fold", "1/1"), ("fold", "five"), ("fold", "2/5/1"),
    ("groups", "(p["), ("groups", "p[0-9]"),
])  # fmt: skip
def test_a_wrong_fold_or_pattern_is_refused_with_an_example(vit, here, option, value):
    answer = vit("train", "food101", f"--data.{option}={value}")  # whose files are not here: code 3 if they were read
    assert answer.code == 2
    assert f"data.{option}" in answer.err


@pytest.mark.faults("D29")
@pytest.mark.parametrize("name", ["group", "Patient ID", "subject"])
def test_a_csv_names_groups_in_all_rows_or_in_none(draw_classes, tmp_path, name):
    draw_classes(tmp_path, ("a", "b"), 3)
    rows = [f"{label}/0{index}.png,{label},p{index}" for label in "ab" for index in range(3)]
    (tmp_path / "all.csv").write_text("\n".join([f"path,label,{name}", *rows]))
    assert open_source(str(tmp_path / "all.csv")).splits["train"].groups == ("p0", "p1", "p2") * 2
    (tmp_path / "some.csv").write_text("\n".join([f"path,label,{name}", *rows, "a/00.png,a,"][:-1]).replace(",p2", ","))
    with pytest.raises(DataError, match=r"line 4: an empty group"):
        open_source(str(tmp_path / "some.csv"))


@pytest.mark.parametrize("unlabeled", [0, 5])
def test_groups_of_images_with_several_labels_are_cut(unlabeled):
    """Also where each image has a label: the images without one are a class of their own, here of none."""
    labels = (np.random.default_rng(0).random((60, 3)) < 0.5).astype(np.int8)
    labels[labels.sum(axis=1) == 0, 0] = 1
    labels[:unlabeled] = 0
    groups = [f"g{place // 2}" for place in range(60)]
    parts = stratified(labels, [0.1, 0.2], 0, groups)
    assert [len(part) > 0 for part in parts] == [True] * 3 and sum(map(len, parts)) == 60
    assert not {groups[row] for row in parts[0]} & {groups[row] for row in parts[2]}


@pytest.mark.faults("D63")
@pytest.mark.parametrize("num_groups", [8, 30, pytest.param(200, marks=pytest.mark.slow)])
def test_another_seed_cuts_groups_of_unequal_size_in_another_way(num_groups):
    """The largest groups are not always in training, and each cut is about as even as the best."""
    sizes = np.random.default_rng(1).integers(1, 60, num_groups)
    labels = np.random.default_rng(2).integers(0, 4, sizes.sum())
    groups = [f"p{number:03d}" for number in np.repeat(np.arange(num_groups), sizes)]
    cuts = [stratified(labels, [0.1, 0.2], seed, groups) for seed in range(6)]
    folds = [group_folds(labels, groups, 4, seed) for seed in range(6)]
    assert len({tuple(cut[1]) for cut in cuts}) >= (3 if num_groups == 8 else 6)
    assert len({tuple(fold) for fold in folds}) >= (3 if num_groups == 8 else 6)
    again = stratified(labels, [0.1, 0.2], 0, groups)
    assert all((one == other).all() for one, other in zip(cuts[0], again, strict=True))
    for validation, test, train in cuts:
        own = [{groups[row] for row in part} for part in (validation, test, train)]
        assert not (own[0] & own[1] or own[0] & own[2] or own[1] & own[2])
        if num_groups > 8:
            assert abs(len(test) / len(labels) - 0.2) < 0.03 and abs(len(validation) / len(labels) - 0.1) < 0.03
        assert (2 * np.bincount(labels[train]) >= np.bincount(labels)).all()
    if num_groups == 30:
        largest = groups.index(f"p{int(np.argsort(sizes)[-3]):03d}")
        placed = {next(number for number, part in enumerate(cut) if largest in part) for cut in cuts}
        assert len(placed) > 1


@pytest.mark.faults("D62")
def test_classes_that_the_cut_leaves_untested_are_named():
    labels = [0] * 30 + [1] * 30 + [2] * 2 + [3] * 6
    alone = divided(source_of(labels), DataConfig(bursts="split"))
    tested = len(set(alone.splits["test"].labels.tolist()))
    assert tested == 4 or any(f"({tested} of 4 classes have test images)" in note for note in alone.notes)
    groups = [f"p{row // 3}" for row in range(62)] + ["one"] * 6
    source = divided(source_of(labels, groups), DataConfig())
    assert any("class3" in note and "classes have test images)" in note for note in source.notes)
    with pytest.raises(DataError, match="'class3' are in one group") as caught:
        with_fold(source_of(labels, groups), "1/3", 0)
    assert "split_seed" not in str(caught.value.fix)
    few = divided(source_of([*range(20)] * 4), DataConfig(bursts="split", train_images=10))
    chosen = chosen_part(few, DataConfig(train_images=10), 0)
    assert any("train has no image of 10 classes" in note for note in chosen.notes)
