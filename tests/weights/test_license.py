"""The license of weights is what timm or a card states; it stays with checkpoints, and one that restricts is shown."""

import json
from dataclasses import replace

import pytest
import timm
from safetensors.torch import save_file

from tests.runs import run_folder
from vit.checkpoints.format import Description
from vit.data.pixels.preprocess import Preprocess
from vit.export.card import CardFacts, Origin, card_text
from vit.inference.devices import choose_device
from vit.inference.engine import Engine
from vit.inference.ensemble import Ensemble
from vit.inference.predictor import Predictor
from vit.models.spec import NetworkSpec, create_network
from vit.weights.formats.timm_models import timm_model
from vit.weights.hubs import UNKNOWN, license_of, license_of_card, license_text, restricts
from vit.weights.open import open_pretrained


def test_a_license_that_may_restrict_is_warned_of():
    assert license_of(timm_model("vit_small_patch16_dinov3.lvd1689m")) == "dinov3-license"
    assert "read it before you publish" in license_text("dinov3-license")
    assert license_text("apache-2.0") == "apache-2.0"
    assert license_of(None) == UNKNOWN == license_text(UNKNOWN)


def test_it_is_shown_with_weights_that_timm_knows(tmp_path):
    path = tmp_path / "vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors"
    save_file(timm.create_model("vit_tiny_patch16_224", depth=1).state_dict(), path)
    assert ("license", "apache-2.0") in open_pretrained(str(path)).facts()
    save_file(timm.create_model("vit_tiny_patch16_224", depth=1).state_dict(), tmp_path / "mine.safetensors")
    assert "license" not in dict(open_pretrained(str(tmp_path / "mine.safetensors")).facts())


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("---\nlicense: mit\n---\n# x", "mit"),
        ("---\ntags: [a]\nlicense: other\nlicense_name: dinov3-license\n---\n", "dinov3-license"),
        ("---\nlicense: other\n---\n", "other"),
        ("---\nlicense: [mit, cc-by-nc-4.0]\n---\n", "mit, cc-by-nc-4.0"),
        ("---\nlicense: unknown\n---\n", UNKNOWN),
        ("---\nlicense: {a: b}\n---\n", UNKNOWN),
        ("---\nlicense: '\x1b[31m evil'\n---\n", UNKNOWN),
        ("---\nlicense: [unclosed\n---\n", UNKNOWN),
        ("---\n- a list\n---\n", UNKNOWN),
        ("license: mit", UNKNOWN),
        ("", UNKNOWN),
    ],
)
@pytest.mark.faults("T5")
def test_the_card_of_a_folder(card, expected, tmp_path):
    (tmp_path / "README.md").write_text(card)
    assert license_of_card(tmp_path) == expected
    assert license_of_card(tmp_path / "missing") == UNKNOWN


@pytest.mark.faults("T7")
def test_licenses_that_restrict():
    assert not any(map(restricts, ("mit", "apache-2.0, mit", UNKNOWN)))
    assert all(map(restricts, ("apple-ascl", "mit, cc-by-nc-4.0", "other", "fair-noncommercial-research-license")))
    assert "excludes commercial use" in license_text("cc-by-nc-4.0")
    assert "excludes commercial use" in license_text("fair-noncommercial-research-license")
    assert "may restrict some uses" in license_text("dinov3-license")


def test_a_description_keeps_it_and_old_ones_have_none():
    described = Description(("a",), NetworkSpec("vit_nano_patch2_8", 1), Preprocess(8), license="cc-by-nc-4.0")
    plain = described.to_dict()
    assert plain["format"] == 3 and Description.from_dict(plain) == described
    del plain["license"]
    assert Description.from_dict(plain).license is None and "license" not in replace(described, license=None).to_dict()
    for wrong in (3, "", "x" * 5000):
        with pytest.raises(ValueError, match="license"):
            Description.from_dict(plain | {"license": wrong})


@pytest.fixture(scope="module")
def trained(vit, digits_run, colors, tmp_path_factory):
    """A run that started from a folder whose card restricts."""
    folder = tmp_path_factory.mktemp("license")
    (folder / "hub").mkdir()
    file = folder / "hub" / "model.safetensors"
    exported = vit("export", digits_run.path, "--format", "safetensors", "--output", file)
    assert exported.code == 0 and "license of the first weights" not in exported.out + exported.err
    (folder / "hub" / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    options = ("--epochs", 1, "--precision", "32-true", "--keep_state", "true", "--wandb", "off", "--out", folder)
    answer = vit("train", colors, "--init_from", folder / "hub", "--model.network.num_heads", 4, *options, drawn=True)
    assert answer.code == 0, answer.err
    return run_folder(folder), answer


@pytest.mark.faults("T7")
@pytest.mark.slow
def test_a_training_keeps_the_license_of_its_first_weights(vit, trained, tmp_path):
    run, answer = trained
    assert "license: cc-by-nc-4.0: its name excludes commercial use" in answer.err
    for name in ("best.ckpt", "last.ckpt"):
        assert open_pretrained(str(run / "checkpoints" / name)).license == "cc-by-nc-4.0"
    assert json.loads((run / "result.json").read_text())["license"] == "cc-by-nc-4.0"
    assert "cc-by-nc-4.0: its name excludes commercial use" in (run / "report.html").read_text()
    measured = vit("evaluate", run)
    assert "license of the first weights: cc-by-nc-4.0" in measured.out
    exported = vit("export", run, "--format", "safetensors", "--output", tmp_path / "weights.safetensors")
    assert "its name excludes commercial use" in exported.err
    assert open_pretrained(str(tmp_path / "weights.safetensors")).license == "cc-by-nc-4.0"


@pytest.mark.parametrize("license", ["mit", "mit, apache-2.0", "dinov3-license", None])
def test_a_card_states_the_license_so_that_it_is_read_back(license, tmp_path):
    spec, preprocess = NetworkSpec.named("vit_nano_patch2_8", 2, {"depth": 1}), Preprocess(8)
    description = Description(("a", "b"), spec, preprocess, license=license)
    text = card_text(CardFacts("m", description, 1, "hf", "model", Origin()))
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert license_of_card(tmp_path) == (license or UNKNOWN)


def test_an_ensemble_of_permissive_licenses_is_not_warned_of():
    def member(widths, terms):
        network = create_network("resnet10_small", 2, 16, widths=widths)
        engine = Engine(network, Preprocess(16), choose_device("cpu"), "32-true")
        return Predictor(engine, ("cat", "dog"), None, license=terms)

    terms = ("apache-2.0, mit", "mit", None)
    members = [member((4, 4, 4, width), one) for width, one in zip((4, 5, 6), terms, strict=True)]
    license_name = Ensemble(members, ["one", "two", "three"]).license
    assert license_name == license_text(license_name) == "apache-2.0, mit"
