"""`vit push`: one commit on a hub of this machine, loaded back bit for bit, and one line for each refusal."""

import os
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import HfApi, ModelCard, constants

from tests.commands.following import next_words
from tests.commands.model_hub import ModelHub
from vit.checkpoints.load import load

NAME = "me/digits-vit"
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with ModelHub() as one:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "ENDPOINT", one.address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", one.address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_TOKEN", "good")
        yield one


def commits(hub):
    return [line for line in hub.asked if "/commit/" in line]


@pytest.mark.faults("X18")
def test_a_pushed_model_comes_back_bit_for_bit(vit, digits_run, hub):
    answer = vit("push", digits_run.path, f"hf:{NAME}").ok(f"hf:{NAME}: 4 files", "model.safetensors")
    assert "private" in answer.err and hub.private[NAME] is True
    assert len(commits(hub)) == 1, "one commit with all files"
    assert sorted(hub.files[NAME]) == [
        ".gitattributes", "README.md", "config.json", "model.safetensors", "preprocessor_config.json"]  # fmt: skip
    card = ModelCard(hub.files[NAME]["README.md"].decode())
    assert card.data.library_name == "transformers" and card.data.eval_results[0].dataset_name == "digits"
    assert f"from_pretrained('{NAME}')" in card.text
    everything = b"".join(hub.files[NAME].values())
    assert os.fsencode(digits_run.path) not in everything and os.fsencode(Path.cwd()) not in everything
    assert answer.out.strip().splitlines()[-1] == f"Next: vit convert hf:{NAME} --output digits-vit.ckpt"
    vit("convert", f"hf:{NAME}", "--output", "again.ckpt").ok()

    (network, description), (theirs, told) = load(digits_run.best), load(Path("again.ckpt"))
    assert told.class_names == description.class_names
    weights, expected = theirs.state_dict(), network.state_dict()
    head = {name for name in expected if name.startswith("head")}
    assert head and all(torch.equal(weights[name], expected[name]) for name in expected if name not in head)
    for name in head:  # the temperature is in the last layer
        assert torch.equal(weights[name], expected[name] / torch.tensor(description.temperature))


def test_transformers_load_what_was_pushed(vit, digits_run, hub):
    assert vit("push", digits_run.path, f"hf:{NAME}").code == 0
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained(NAME).eval()
    assert AutoImageProcessor.from_pretrained(NAME).crop_size["height"] == 8
    assert len(model.config.id2label) == 10


@pytest.mark.slow
def test_a_second_push_has_nothing_to_do(vit, digits_run, hub):
    for _ in range(2):
        answer = vit("push", digits_run.path, f"hf:{NAME}", "--public").ok()
    assert "holds these files already" in answer.out and len(commits(hub)) == 1 and hub.private[NAME] is False


@pytest.mark.faults("X19")
def test_other_content_is_replaced_only_where_that_is_asked_for(vit, digits_run, hub):
    hub.files[NAME], hub.private[NAME], hub.commits[NAME] = {"notes.txt": b"mine"}, False, 3
    vit("push", digits_run.path, f"hf:{NAME}").failed(2, "exists and holds other content: notes.txt", "--replace")
    assert hub.files[NAME] == {"notes.txt": b"mine"} and not commits(hub)
    answer = vit("push", digits_run.path, f"hf:{NAME}", "--replace").ok()
    assert "visible to everyone" in answer.err and "notes.txt" not in hub.files[NAME] and len(commits(hub)) == 1


@pytest.mark.faults("X20")
@pytest.mark.parametrize(
    ("token", "target", "code", "words"),
    [
        (None, NAME, 2, ["needs a token", "hf auth login", "HF_TOKEN"]),
        ("bad", NAME, 2, ["does not take the token (401)", "hf auth login"]),
        ("good", "others/model", 2, ["may not write to others", "(403)", "another OWNER"]),
    ],
)
def test_refused_tokens(vit, digits_run, hub, monkeypatch, token, target, code, words):
    if token is None:
        monkeypatch.delenv("HF_TOKEN")
    else:
        monkeypatch.setenv("HF_TOKEN", token)
    answer = vit("push", digits_run.path, f"hf:{target}")
    assert answer.code == code and all(word in answer.err for word in words), answer.err
    assert not commits(hub) and "good" not in answer.err


@pytest.mark.faults("X21")
@pytest.mark.parametrize("place", ["commit", "whoami", "create", pytest.param("preupload", marks=pytest.mark.slow)])
def test_a_cut_connection_leaves_no_half_of_a_model(vit, digits_run, hub, place):
    hub.cuts, hub.cut_at = 50, place
    vit("push", digits_run.path, f"hf:{NAME}").failed(7, "push again")
    assert set(hub.files.get(NAME, {})) <= {".gitattributes"}
    hub.cuts = 0
    assert vit("push", digits_run.path, f"hf:{NAME}").code == 0
    assert "model.safetensors" in hub.files[NAME]


@pytest.mark.faults("X22")
def test_another_upload_meanwhile_is_not_overwritten(vit, digits_run, hub):
    def other():
        hub.files[NAME] = {"notes.txt": b"theirs"}
        hub.commits[NAME] += 1

    hub.files[NAME], hub.private[NAME], hub.commits[NAME] = {"notes.txt": b"mine"}, True, 1
    hub.changed = other
    vit("push", digits_run.path, f"hf:{NAME}", "--replace").failed(7, "changed by another upload")
    assert hub.files[NAME] == {"notes.txt": b"theirs"}


def test_a_hub_that_loses_a_file_is_noticed(vit, digits_run, hub, monkeypatch):
    lost = SimpleNamespace(mismatches=[], missing_paths=[], extra_paths=["config.json"])  # a file that is only here
    monkeypatch.setattr(HfApi, "verify_repo_checksums", lambda *_, **__: lost)
    vit("push", digits_run.path, f"hf:{NAME}").failed(7, "does not hold what was uploaded")


def test_a_dry_run_shows_files_and_asks_nobody(vit, digits_run, hub):
    answer = vit("push", digits_run.path, f"hf:{NAME}", "--dry_run", "--format", "safetensors")
    assert answer.code == 0 and "nothing was uploaded" in answer.out and "model.safetensors" in answer.out
    assert not hub.asked and os.listdir(".") == []


@pytest.mark.parametrize(
    ("format", "card"),
    [
        ("safetensors", "card.md"),
        ("hf", "digits/README.md"),
        pytest.param("onnx", "card.md", marks=pytest.mark.slow),
        pytest.param("openvino", "digits/README.md", marks=pytest.mark.slow),
    ],
)
def test_the_advice_to_read_the_card_works(vit, digits_run, format, card):
    shutil.copy(digits_run.best, "digits.ckpt")
    answer = vit("push", "digits.ckpt", f"hf:{NAME}", "--dry_run", "--format", format)
    (line,) = (line for line in answer.out.splitlines() if line.startswith("the card names"))
    words = shlex.split(line.partition("vit export ")[2])
    where = () if "--card" in words else ("--output", "digits")
    vit("export", *words, *where).ok()
    assert "10 classes" in Path(card).read_text() and Path(card).name in line


@pytest.mark.slow
def test_after_a_dry_run_the_same_is_pushed(vit, digits_run, hub):
    model = shutil.copy(digits_run.best, "my digits.ckpt")
    line = ("push", model, f"hf:{NAME}", "--format", "safetensors", "--public", "--replace")
    answer = vit(*line, "--dry_run")
    assert next_words(answer) == list(line), answer.err
    assert vit(*next_words(answer)).code == 0
    assert "model.safetensors" in hub.files[NAME] and hub.private[NAME] is False


@pytest.mark.faults("X23")
@pytest.mark.parametrize("target", ["digits", "hf:digits", "hf:../x", "hf:a/b/c", "hf:me/x.git", "timm:me/x"])
def test_targets_that_are_no_model_of_the_hub(vit, digits_run, target):
    vit("push", digits_run.path, target).failed(2, "hf:OWNER/NAME")


def test_without_a_connection_by_choice(vit, digits_run, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    vit("push", digits_run.path, f"hf:{NAME}").failed(2, "HF_HUB_OFFLINE is set")
