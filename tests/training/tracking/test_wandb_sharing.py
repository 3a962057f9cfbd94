"""What a training on image files hands to Weights & Biases is what SECURITY.md says, and nothing else."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.wandb_files import elsewhere, history, kept, logs, plain, records  # noqa: F401  elsewhere is a fixture

SECURITY = (Path(__file__).parents[3] / "SECURITY.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| (.+?) \| (.+?) \| (always|`--tracker_\w+ true`) \|$", SECURITY, re.MULTILINE)
OPTIONS = ("--tracker_media", "--tracker_model")
BOOKKEEPING = {"header", "request", "exit", "final", "footer"}  # records that hold no data
CLASSES = ("healthy", "ill")


def promised(asked):
    """The names in SECURITY.md of what goes to W&B with these options."""
    rows = [places for _, places, when in TABLE if when == "always" or when.strip("`").removesuffix(" true") in asked]
    return {name for places in rows for name in re.findall(r"`([^`]+)`", places)}


@pytest.fixture(scope="module")
def trained(vit, draw_classes, tmp_path_factory):
    """`trained(*options)` -> (run folder, what was printed) of a training on files with unique names."""
    data = draw_classes(tmp_path_factory.mktemp("home") / "clinic", CLASSES, 16)
    for number, file in enumerate(sorted(data.rglob("*.png"))):
        file.rename(file.with_name(f"patient-{number}.png"))

    @cache
    def train(*options):
        out = tmp_path_factory.mktemp("out")  # one training for each choice of options
        short = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--image_size", 8, "--epochs", 1)
        answer = vit(
            "train", data, *short, "--wandb", "offline", "--out", out, "--data.num_workers", 0, *options, drawn=True
        ).ok()
        (run,) = out.glob("*/*/*")
        return run, answer.out

    return train


def handed_over(run):
    """Names of all media, tables and artifacts, as W&B shows them; and every byte that is uploaded."""
    (log,) = logs(run)
    names = {
        re.sub(r"/(_type|path)$", "", key) for row in history(run) for key in row if key.endswith(("/_type", "/path"))
    }
    artifacts = kept(run, "artifact")
    names |= {artifact.type for artifact in artifacts if artifact.type != "run_table"}
    files = [log, *(file for file in (log.parent / "files").rglob("*") if file.is_file())]
    uploaded = {entry.local_path for artifact in artifacts for entry in artifact.manifest.contents}
    return names, b"".join(Path(file).read_bytes() for file in [*files, *uploaded])


@pytest.mark.faults("W10")
@pytest.mark.parametrize("asked", [(), OPTIONS[:1], OPTIONS[1:]], ids=["default", "media", "model"])
def test_a_run_hands_over_what_the_document_says(trained, asked):
    run, said = trained(*(token for option in asked for token in (option, "true")))
    names, everything = handed_over(run)
    assert names == promised(asked)
    media = "--tracker_media" in asked
    assert (b"patient-" in everything) == media
    (line,) = [line for line in said.splitlines() if line.startswith("  W&B")]
    goes, _, stays = line.partition("; not ")
    assert "offline (as asked)" in goes
    assert {option for option in OPTIONS if option in goes} == set(asked)
    assert {option for option in OPTIONS if option in stays} == set(OPTIONS) - set(asked)


def test_no_record_is_of_another_kind(trained):
    run, _ = trained()
    (log,) = logs(run)
    kinds = {record.WhichOneof("record_type") for record in records(log)}
    assert kinds - BOOKKEEPING - {"stats"} == {"run", "telemetry", "config", "history", "summary", "artifact", "files"}
    (session,) = kept(run, "run")
    assert (session.host, session.git.remote_url, session.sweep_id) == ("", "", "")
    data = plain(session.config.update)["data"]
    assert data["source"] == ".../clinic"  # a folder of the home folder names a person
