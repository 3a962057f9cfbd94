"""hf:NAME on a hub of this machine: configs, revisions, caches and refusals. Each is one line with a fix."""

import time

import pytest
from huggingface_hub import constants

from tests.data.parquet.hub import CONVERTED, Hub, Repository
from tests.data.parquet.written import rows_of, write
from vit.data.core.dataset_names import check_hub_name
from vit.data.sources.sources import open_source
from vit.errors import DataError, UsageError, VitError
from vit.extras.hub import source
from vit.extras.hub.source import choose_config

NAMES = ("blue", "green", "red")


@pytest.fixture(scope="module")
def tables(tmp_path_factory, colors):
    """(train, test) as bytes of parquet files."""
    folder = tmp_path_factory.mktemp("tables")
    images, labels = rows_of(colors, NAMES)
    train = write(folder / "train.parquet", images, labels, NAMES).read_bytes()
    return train, write(folder / "test.parquet", images[::4], labels[::4], NAMES).read_bytes()


@pytest.fixture
def hub(tables):
    train, test = tables
    files = {"data/train-00000-of-00001.parquet": train, "data/test-00000-of-00001.parquet": test}
    with Hub() as one:
        card = {"configs": [
            {"config_name": "big",
             "data_files": [{"split": "train", "path": "a/*"}, {"split": "test", "path": "b/**"}]},
            {"config_name": "small", "data_files": [{"split": "train", "path": ["b/x/part.parquet"]}]},
        ]}  # fmt: skip
        one.repositories = {
            "o/plain": Repository({"main": {**files, "README.md": b"", "run_me.py": b"raise SystemExit(9)"}}),
            "o/two": Repository({"main": {f"{config}/{name[5:]}": content for config in ("one", "other")
                                          for name, content in files.items()}}),
            "o/card": Repository({"main": {"a/part.parquet": train, "b/x/part.parquet": test}}, card),
            "o/script": Repository({"main": {"script.py": b"raise SystemExit(9)", "images.zip": b""}, CONVERTED: {
                "default/train/0000.parquet": train, "default/test/0000.parquet": test}}),
            "o/partial": Repository({"main": {"images.zip": b""}, CONVERTED: {
                "default/partial-train/0000.parquet": train}}),
            "o/none": Repository({"main": {"images.zip": b""}}),
        }  # fmt: skip
        yield one


@pytest.fixture
def asked(hub, tmp_path, monkeypatch):
    """`asked("hf:o/plain", offline=True)` -> a line for each name: what it is, or why not."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))

    def ask(*names, offline=False, address=hub.address):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        return [line_of(name) for name in names]

    return ask


def line_of(name):
    try:
        source = open_source(name)
    except VitError as error:
        return f"{error.code}: {error}"
    assert all(samples.encoded(0) for samples in source.splits.values())
    counts = {split: len(samples) for split, samples in source.splits.items()}
    return f"{source.origin} {source.name} {counts} {','.join(source.class_names)} {source.notes}"


def test_files_of_branches_configs_and_cards(hub, asked):
    plain, two, big, small, script = asked(
        "hf:o/plain", "hf:o/two/other", "hf:o/card/big", "hf:o/card/small", "hf:o/script"
    )
    commits = {name: one.commit("main") for name, one in hub.repositories.items()}
    whole = "{'train': 42, 'test': 11} blue,green,red []"
    assert plain == f"hf:o/plain@{commits['o/plain']} plain {whole}"
    assert two == f"hf:o/two/other@{commits['o/two']} two {whole}"
    assert big == f"hf:o/card/big@{commits['o/card']} card {whole}"
    assert small.startswith(f"hf:o/card/small@{commits['o/card']} card {{'train': 11}}")
    assert script == f"hf:o/script@{hub.repositories['o/script'].commit(CONVERTED)} script {whole}"
    assert not any("one/" in path for path in hub.asked)  # of the other config nothing is fetched


def test_a_revision_stays_what_it_was(hub, asked, tables):
    before = hub.repositories["o/plain"]
    first = before.commit("main")
    asked("hf:o/plain")
    changed = {"data/train-00000-of-00001.parquet": tables[1]}
    hub.repositories["o/plain"] = Repository({"main": changed, "old": before.branches["main"]})
    now, old, pinned = asked("hf:o/plain", "hf:o/plain@old", f"hf:o/plain@{first}")
    assert "{'train': 11}" in now and "@" + hub.repositories["o/plain"].commit("main") in now
    assert old == pinned and f"@{first} " in old and "'train': 42" in old
    count = len(hub.asked)
    assert asked(f"hf:o/plain@{first}") == [pinned]
    assert not any("o/plain" in path for path in hub.asked[count:])  # all is cached


@pytest.mark.faults("L27")
def test_without_a_network_the_cache_serves(hub, asked):
    (online,) = asked("hf:o/plain")
    said = "the hub was not asked for news"
    (offline, missing) = asked("hf:o/plain", "hf:o/two/one", offline=True)
    assert offline.startswith(online.removesuffix("[]")) and said in offline
    assert missing.startswith("7: hf:o/two/one cannot be fetched: HF_HUB_OFFLINE is set, and the cache does not have")
    hub.status = 503
    (failing,) = asked("hf:o/plain")
    assert failing == offline
    (nowhere, gone) = asked("hf:o/plain", "hf:o/two/one", address="http://127.0.0.1:9")
    assert nowhere == offline and gone.startswith("7: hf:o/two/one cannot be fetched: ")


@pytest.mark.faults("L27")
def test_a_download_that_was_cut_is_not_a_smaller_data_set(asked, tmp_path):
    asked("hf:o/script")
    (file,) = tmp_path.glob("hf/**/test/0000.parquet")
    file.unlink()
    (line,) = asked("hf:o/script", offline=True)
    assert line.startswith("7: default/test/0000.parquet of hf:o/script@") and "HF_HUB_OFFLINE is set" in line


@pytest.mark.faults("L26")
def test_data_sets_that_the_hub_does_not_give(hub, asked):
    names = ("hf:o/gated", "hf:o/forbidden", "hf:o/missing", "hf:o/plain@nowhere", "hf:o/none", "hf:o/partial")
    gated, forbidden, missing, revision, none, partial = asked(*names)
    terms = (
        "it is gated, and the hub does not know that you accepted its terms; accept the terms on the data set's page"
    )
    assert gated.startswith(f"7: hf:o/gated cannot be fetched: {terms}") and terms in forbidden
    assert missing.startswith("7: hf:o/missing cannot be fetched: the hub has no such data set, or it is private")
    assert revision.startswith("7: hf:o/plain@nowhere cannot be fetched: the data set has no such revision")
    assert none.startswith("3: hf:o/none has no parquet files, and the hub has not converted it")
    assert partial.startswith("3: hf:o/partial") and "only the first part of train" in partial


@pytest.mark.faults("L26")
def test_a_config_that_must_be_chosen(hub, asked):
    several, unknown, of_card = asked("hf:o/two", "hf:o/two/othr", "hf:o/card")
    assert several == "2: hf:o/two has 2 configs, and none is chosen; choose one of hf:o/two/one, hf:o/two/other"
    assert unknown == "2: o/two has no config 'othr'; did you mean 'other'?"
    assert of_card.endswith("choose one of hf:o/card/big, hf:o/card/small")


@pytest.mark.parametrize(
    ("files", "said", "config", "count"),
    [
        (["data/train-0.parquet", "extra/a.parquet"], None, "default", 1),
        (["train/0.parquet", "test/0.parquet"], None, "default", 2),
        (["data/a/0.parquet", "data/b/0.parquet"], [{"config_name": "b", "data_dir": "data/b"}], "b", 1),
        (["x.parquet", "y.parquet"], [{"config_name": "m", "data_files": "*.parquet"}], "m", 2),
        (["x.parquet", "y.parquet"],
         [{"config_name": "m", "data_files": "x*"}, {"config_name": "n", "data_files": "y*", "default": True}], "n", 1),
        (["x.parquet"], [{"config_name": 3}, "odd", {"config_name": "m", "data_files": {"train": "./x.parquet"}}],
         "m", 1),
        (["x.parquet"], {"odd": 1}, "default", 1),
    ],
)  # fmt: skip
def test_configs(files, said, config, count):
    found = choose_config(check_hub_name("hf:o/n"), files, said)
    assert (found.name, len(found.files)) == (config, count)


@pytest.mark.faults("L26")
def test_a_card_that_does_not_fit_its_files():
    name = check_hub_name("hf:o/n")
    half = [{"config_name": "m", "data_files": {"train": "x*", "test": "[yz]*"}}]
    with pytest.raises(DataError, match=r"names \[yz\]\*, which fits none"):
        choose_config(name, ["x.parquet", "a.parquet"], half)
    both = [{"config_name": "m", "data_files": {"train": "*", "test": "x*"}}]
    with pytest.raises(DataError, match=r"puts x\.parquet into train and test"):
        choose_config(name, ["x.parquet", "a.parquet"], both)


def test_names():
    one = check_hub_name("hf:org/name.x/some-config@refs/convert/parquet")
    assert (one.repository, one.config, one.revision) == ("org/name.x", "some-config", CONVERTED)
    assert str(one) == "hf:org/name.x/some-config@refs/convert/parquet" and check_hub_name("hf:mnist").config is None


@pytest.mark.faults("L26")
@pytest.mark.parametrize("name", ["hf:", "hf:/x", "hf:a b", "hf:../../etc", "hf:o/n@", "hf:o/n/c@x y"])
def test_names_that_are_written_in_another_way(vit, name):
    with pytest.raises(UsageError, match="is not a data set of the Hugging Face hub"):
        check_hub_name(name)
    answer = vit("train", name, "--dry_run")
    assert answer.code == 2 and "hf:ORGANIZATION/NAME/CONFIG" in answer.err


def test_a_hostile_pattern_of_a_card_takes_no_time():
    """A regular expression of it would try all ways to divide the name, which takes hours."""
    config = {"config_name": "x", "data_files": "a*" * 12 + "b.parquet"}
    started = time.monotonic()
    assert source._of_card(["a" * 60 + ".parquet"], [config]) == []
    config["data_files"] = "**/" * 20 + "x.parquet"
    assert source._of_card(["a/" * 40 + "y.parquet"], [config]) == []
    assert time.monotonic() - started < 5
    config["data_files"] = "./a/**/train-*-of-?.parquet"
    names = ["a/train-0-of-1.parquet", "a/b/c/train-1-of-1.parquet", "b/train-0-of-1.parquet", "a/test-0-of-1.parquet"]
    assert source._of_card(names, [config])[0].files == names[1::-1]
