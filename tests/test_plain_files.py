"""Files of a run folder or a recipe from anywhere: neither memory nor time without end, and one line for each."""

import os
import shutil
from pathlib import Path

import pytest

from vit.errors import CheckpointError, DataError
from vit.plain_files import DamagedFileError, parse_yaml, read_json, read_text
from vit.weights.file import read_config

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 11)
)
HOSTILE = {
    "aliases": BOMB,
    "itself": "a: &a [*a]",
    "depth": "[" * 1_000,  # from 1,024 on PyYAML takes eight times as long, whatever the depth
    "digits": f"seed: {'9' * 100_000}",
    "tag": "model: !!python/object/apply:os.system ['touch ran']",
}


def test_plain_yaml_is_read():
    assert parse_yaml("a: &a {b: 1e-3}\nc: [*a, *a]\n") == {"a": {"b": "1e-3"}, "c": [{"b": "1e-3"}] * 2}
    assert parse_yaml("") is None
    assert parse_yaml("{yes: 1, 010: yes, <<: {null: 2}}") == {"yes": 1, "010": True, "null": 2}


@pytest.mark.faults("C20")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused(vit, digits_run, here, name):
    with pytest.raises(DamagedFileError):
        parse_yaml(HOSTILE[name])
    for content in (HOSTILE[name].encode(), b"\x89PNG"):
        Path("recipe.yaml").write_bytes(content)
        answer = vit("train", "digits", "--config", "recipe.yaml")
        assert answer.code == 2 and answer.err.count("vit: error") == answer.err.count("recipe.yaml") == 1, answer.err
    run = Path(shutil.copytree(digits_run.path, "run"))
    (run / "config.yaml").write_text(HOSTILE[name])
    for command in ("report", "evaluate"):
        answer = vit(command, run)
        assert answer.code == 3 and "internal error" not in answer.err, answer.err
    assert not Path("ran").exists()


@pytest.mark.faults("C20")
def test_a_result_of_any_depth_is_refused(vit, digits_run, here):
    run = Path(shutil.copytree(digits_run.path, "run"))
    (run / "result.json").write_text("[" * 300_000)
    for command in ("report", "evaluate"):
        assert vit(command, run).code == 3
    with pytest.raises(DataError, match="is not JSON"):
        read_json(run / "result.json")


@pytest.mark.parametrize("content", [b"\xff{}", b"9" * 5_000, b"["])
def test_every_json_that_cannot_be_read_is_named(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"config\.json is not JSON: "):
        read_json(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json is not JSON: "):
        read_config(tmp_path / "config.json")


@pytest.mark.faults("C20")
@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero")
@pytest.mark.parametrize("name", ["classes.json", "metrics.csv", "splits.csv"])
def test_a_link_to_a_device_is_not_read(vit, digits_run, here, name):
    run = Path(shutil.copytree(digits_run.path, "run"))
    (run / name).unlink()
    (run / name).symlink_to("/dev/zero")
    vit("report", run).failed(3, f"{name} is not a regular file")
    with pytest.raises(DamagedFileError, match="is not a regular file"):
        read_text(run / name)


@pytest.mark.faults("C20")
def test_an_evaluation_follows_no_link_out_of_the_run(vit, digits_run, here):
    run = Path(shutil.copytree(digits_run.path, "run"))
    Path("other").mkdir()
    shutil.rmtree(run / "evaluations", ignore_errors=True)
    (run / "evaluations").symlink_to("../other")
    vit("evaluate", run).failed(2, "evaluations is a link to another folder")
    assert not os.listdir("other")
