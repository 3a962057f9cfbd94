"""Bursts of nearly equal images stay on one side of every cut; images that only look alike are not taken for one."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data.parquet.written import rows_of, write
from tests.data.shards.server import Server
from tests.runs import run_folder
from vit.data.checks import bursts, contents
from vit.data.checks.bursts import with_bursts
from vit.data.checks.contents import read_contents
from vit.data.core import samples as samples_room
from vit.data.core.samples import Samples, Source
from vit.data.sources.sources import open_source
from vit.data.splits.split import read_splits
from vit.extras.shards.packing import pack
from vit.training.planning.images import divided
from vit.training.recipes.image_options import DataConfig

CLASSES = ("bird", "fish", "frog")


def scene(seed: int) -> Image.Image:
    """A picture that no other resembles: colors between 8x8 random ones."""
    colors = np.random.default_rng(seed).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    return Image.fromarray(colors).resize((128, 128), Image.Resampling.BICUBIC)


def frame(picture: Image.Image, step: int, seed: int) -> bytes:
    """What a camera that moves by a pixel for each step sees of it, with noise, as JPEG."""
    seen = np.asarray(picture.crop((step, 0, step + 100, 100)), dtype=np.float64)
    noisy = seen + np.random.default_rng(seed).normal(0, 4, seen.shape)
    data = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(data, "JPEG", quality=90)
    return data.getvalue()


@pytest.fixture
def clips(drawn: Path, tmp_path: Path) -> Path:
    """Three classes, each of four clips of 3 to 9 frames, and of 12 pictures that stand alone."""
    return shutil.copytree(drawn, tmp_path / "clips")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `clips` copies for each test."""
    clips = tmp_path_factory.mktemp("drawn")
    for number, name in enumerate(CLASSES):
        folder = clips / name
        folder.mkdir(parents=True)
        for clip in range(4):
            for step in range(3 + 2 * clip):
                (folder / f"clip{clip}_{step:02d}.jpg").write_bytes(frame(scene(100 * number + clip), step, step))
        for single in range(12):
            (folder / f"one{single:02d}.jpg").write_bytes(frame(scene(100 * number + 50 + single), 0, 0))
    return clips


def clip_of(path: str) -> str:
    return path.rsplit("_", 1)[0]


def several(samples: Samples) -> list[set[str]]:
    """The paths of each group of several images."""
    of_group: dict[str, set[str]] = {}
    for path, group in zip(samples.paths, samples.groups or samples.paths, strict=True):
        of_group.setdefault(group, set()).add(path)
    return [paths for paths in of_group.values() if len(paths) > 1]


@pytest.mark.faults("D64")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_burst_is_on_one_side_of_every_cut(clips: Path, seed: int) -> None:
    found = open_source(str(clips))
    source = divided(found, DataConfig(split_seed=seed))
    note = "72 images in 12 bursts of near-duplicates are kept together; --data.bursts split undoes it"
    assert note in source.notes
    of_clip: dict[str, set[str]] = {}
    for split, samples in source.splits.items():
        for path in samples.paths:
            of_clip.setdefault(clip_of(path), set()).add(split)
        for label in range(3):
            assert abs((samples.labels == label).sum() - len(samples) / 3) <= 3
    assert all(len(splits) == 1 for splits in of_clip.values()), of_clip
    assert 8 <= len(source.splits["validation"]) <= 13 and 18 <= len(source.splits["test"]) <= 25
    apart = divided(found, DataConfig(split_seed=seed, bursts="split"))
    assert apart.splits["train"].groups is None and not any("bursts" in note for note in apart.notes)
    folds = [divided(found, DataConfig(fold=f"{number}/3", split_seed=seed)).splits["test"] for number in (1, 2, 3)]
    tested = [{clip_of(path) for path in one.paths} for one in folds]
    assert not (tested[0] & tested[1] or tested[0] & tested[2] or tested[1] & tested[2])


def test_seeds_decide_and_give_the_same_again(clips: Path) -> None:
    cuts = [divided(open_source(str(clips)), DataConfig(split_seed=seed)).splits["test"].paths for seed in (0, 0, 1)]
    assert cuts[0] == cuts[1] != cuts[2]


@pytest.mark.faults("D64")
def test_unlike_small_and_flat_images_stand_alone(draw_classes, tmp_path: Path) -> None:
    noisy = open_source(str(draw_classes(tmp_path / "noise", CLASSES, 12, side=40)))
    assert not several(with_bursts(noisy).splits["train"])
    digits = open_source("digits")
    assert with_bursts(digits).splits["train"].groups is None and with_bursts(digits).notes == digits.notes
    for number in range(20):
        gray = Image.new("RGB", (64, 64), (number, 2 * number, 40))
        gray.save(tmp_path / "noise" / "bird" / f"flat{number}.png")
    assert not several(with_bursts(open_source(str(tmp_path / "noise"))).splits["train"])
    (tmp_path / "noise" / "fish" / "again.png").write_bytes((tmp_path / "noise" / "bird" / "03.png").read_bytes())
    assert several(with_bursts(open_source(str(tmp_path / "noise"))).splits["train"]) == [
        {"bird/03.png", "fish/again.png"}
    ]


@pytest.mark.faults("D64")
def test_a_class_of_one_look_is_not_one_burst(clips: Path) -> None:
    """Bottles in one place before one background differ by less than frames of a video. No class is joined whole."""
    (clips / "bottle").mkdir()
    for number in range(30):
        (clips / "bottle" / f"{number:02d}.jpg").write_bytes(frame(scene(999), 0, number))
    source = divided(open_source(str(clips)), DataConfig())
    assert any(note.startswith("WARNING: 30 images look nearly the same") for note in source.notes)
    assert [int((samples.labels == 1).sum()) for samples in source.splits.values()] == [21, 3, 6]
    assert len(several(source.splits["train"])) + len(several(source.splits["test"])) > 5


@pytest.mark.faults("D64")
def test_given_splits_are_warned_of_and_given_groups_are_kept(clips: Path, tmp_path: Path) -> None:
    files = sorted(path.relative_to(clips).as_posix() for path in clips.glob("*/*"))
    rows = [f"{path},{path.split('/')[0]},{'test' if path.endswith('_00.jpg') else 'train'}" for path in files]
    (clips / "given.csv").write_text("\n".join(["path,label,split", *rows]))
    source = divided(open_source(str(clips / "given.csv")), DataConfig())
    assert sorted(source.splits["test"].paths) == [path for path in files if path.endswith("_00.jpg")]
    assert any("train and test share 12 groups" in note for note in source.notes)
    rows = [f"{path},{path.split('/')[0]},{number // 2}" for number, path in enumerate(files)]
    (clips / "groups.csv").write_text("\n".join(["path,label,group", *rows]))
    before = open_source(str(clips / "groups.csv"))
    assert with_bursts(before).splits["train"].groups == before.splits["train"].groups


def test_copies_inside_one_group_join_no_groups(draw_classes, tmp_path: Path) -> None:
    """Two equal files of one patient do not call for a note on patients that share images."""
    photos = draw_classes(tmp_path / "photos", CLASSES, 4)
    (photos / "bird" / "again.png").write_bytes((photos / "bird" / "00.png").read_bytes())
    files = sorted(path.relative_to(photos).as_posix() for path in photos.glob("*/*"))
    rows = [f"{path},{path.split('/')[0]},{'p' if path[:4] == 'bird' else path}" for path in files]
    (photos / "groups.csv").write_text("\n".join(["path,label,group", *rows]))
    before = open_source(str(photos / "groups.csv"))
    assert with_bursts(before).notes == before.notes
    (photos / "fish" / "again.png").write_bytes((photos / "bird" / "00.png").read_bytes())
    (photos / "groups.csv").write_text("\n".join(["path,label,group", *rows, "fish/again.png,fish,other"]))
    source = with_bursts(open_source(str(photos / "groups.csv")))
    assert source.notes[-1].startswith("groups that share 3 images with equal contents are kept together")


@pytest.mark.faults("D64", simulated="a damaged file in the cache, and a file that is written again")
@pytest.mark.slow
def test_the_second_plan_reads_no_image(clips: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("VIT_HASHES", str(tmp_path / "cache"))
    monkeypatch.setattr(bursts, "_CACHED_FROM", 1)
    searched: list[object] = []
    search = bursts._search
    monkeypatch.setattr(bursts, "_search", lambda *told: searched.append(told) or search(*told))

    def groups() -> tuple[str, ...] | None:
        bursts._found.clear()  # as in another process
        return with_bursts(open_source(str(clips))).splits["train"].groups

    first = groups()
    assert groups() == first and len(searched) == 1
    (file,) = (tmp_path / "cache").rglob("*.json")
    for damaged in (
        "{",
        "7",
        "{}",
        *(f'{{"clusters": {one}}}' for one in ("[[0, 99999]]", "[[0, 0]]", '[["a"]]', "[[]]", "7")),
    ):
        file.write_text(damaged)
        assert groups() == first
    assert len(searched) == 9
    (clips / "bird" / "clip0_01.jpg").write_bytes(frame(scene(12345), 0, 0))
    assert groups() != first


def test_one_pass_finds_bursts_and_content_hashes(clips: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("VIT_HASHES", str(tmp_path / "cache"))
    monkeypatch.setattr(contents, "_SETTLED_SECONDS", 0.0)
    read: list[Path] = []
    real = samples_room.read_bytes
    monkeypatch.setattr(samples_room, "read_bytes", lambda path: read.append(path) or real(path))
    source = open_source(str(clips))
    bursts._found.clear()
    assert several(with_bursts(source).splits["train"])
    assert len(read) == len(set(read)) == len(source.splits["train"])
    assert read_contents(source).unreadable == {"train": {}} and len(read) == len(source.splits["train"])


@pytest.fixture(
    params=[*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("shards", "table")), "far shards", "far list"]
)
def packed_clips(request, clips: Path, tmp_path: Path, monkeypatch) -> Iterator[str]:
    """DATA of the same images, which are not files of a folder."""
    monkeypatch.setenv("VIT_HASHES", str(tmp_path / "hashes"))
    monkeypatch.setenv("VIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "far" / "shards").mkdir(parents=True)
    pack(open_source(str(clips)), tmp_path / "far" / "shards", 2**20, lambda done, total: None)
    write(tmp_path / "far" / "table.parquet", *rows_of(clips, CLASSES), CLASSES)
    clips.rename(tmp_path / "far" / "clips")
    with Server(tmp_path / "far") as server:
        server.has_etags = True
        files = sorted(path.relative_to(tmp_path / "far") for path in tmp_path.glob("far/clips/*/*"))
        rows = [f"{server.address}/{file.as_posix()},{file.parent.name}" for file in files]
        (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
        yield {
            "shards": str(tmp_path / "far" / "shards"),
            "table": str(tmp_path / "far" / "table.parquet"),
            "far shards": f"{server.address}/shards",
            "far list": str(tmp_path / "list.csv"),
        }[request.param]


@pytest.mark.faults("D64")
def test_bursts_of_shards_and_tables_are_those_of_the_folder(packed_clips: str, monkeypatch) -> None:
    """With the same line, in one pass; another process searches and reads nothing, and pixels that change are seen."""
    monkeypatch.setattr(bursts, "_CACHED_FROM", 1)
    found = open_source(packed_clips)
    kind = type(found.splits["train"].reader)
    read: list[str] = []
    real = kind.read
    monkeypatch.setattr(kind, "read", lambda self, path: read.append(path) or real(self, path))
    source = divided(found, DataConfig())
    assert "72 images in 12 bursts of near-duplicates are kept together; --data.bursts split undoes it" in source.notes
    parts = [set(samples.groups or ()) for samples in source.splits.values()]
    assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2]) and sum(map(len, parts)) == 48
    bursts._found.clear()
    again = divided(open_source(packed_clips), DataConfig())
    assert [one.paths for one in again.splits.values()] == [one.paths for one in source.splits.values()]
    assert read_contents(open_source(packed_clips)).unreadable == {"train": {}}
    assert sorted(read) == sorted(found.splits["train"].paths)  # each once


@pytest.mark.faults("D64")
def test_a_table_that_is_written_again_is_searched_again(clips: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("VIT_HASHES", str(tmp_path / "hashes"))
    monkeypatch.setattr(bursts, "_CACHED_FROM", 1)
    images, labels = rows_of(clips, CLASSES)
    table = write(tmp_path / "table.parquet", images, labels, CLASSES)
    assert len(several(with_bursts(open_source(str(table))).splits["train"])) == 12
    for number, image in enumerate(images):
        image["bytes"] = frame(scene(500 + number), 0, 0)
    write(table, images, labels, CLASSES)
    assert not several(with_bursts(open_source(str(table))).splits["train"])


@pytest.mark.faults("D64")
def test_a_training_counts_bursts_as_groups(vit, clips: Path, tmp_path: Path) -> None:
    options = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--epochs", 1)
    answer = vit("train", clips, *options, "--init", "random", "--out", tmp_path)
    assert answer.code == 0 and "72 images in 12 bursts" in answer.err + answer.out
    run = run_folder(tmp_path)
    assert "bursts: together" in (run / "config.yaml").read_text()
    tested = read_splits(run / "splits.csv")["test"]
    groups = len({row.group for row in tested})
    assert groups < len(tested) and f"{len(tested)} images of {groups} groups" in answer.err + answer.out


def test_images_in_memory_are_compared() -> None:
    pictures = [np.array(scene(seed).resize((32, 32))) for seed in range(20)]
    pictures.append(pictures[3] // 2 + 60)  # with less contrast
    samples = Samples([f"{place:02d}" for place in range(21)], np.arange(21) % 3, arrays=pictures)
    found = with_bursts(Source("memory", CLASSES, {"train": samples}))
    assert several(found.splits["train"]) == [{"03", "20"}]
