"""Model cards: what the hub reads, what people read, and what is never in them."""

from dataclasses import replace

import pytest
import yaml
from huggingface_hub import ModelCard

from tests.export.conftest import make_multilabel
from vit.checkpoints.label_rules import LabelRules
from vit.export.card import CardFacts, Int8Cost, MeasuredImages, Origin, card_text
from vit.inference.scores.intervals import Metric

OWN = MeasuredImages("validation images of the run", "photos", None, "validation")
METRICS = {"acc1": {"value": 0.9, "low": 0.85, "high": 0.94}, "ece": {"value": 0.01, "chance": 0.02}}
ORIGIN = Origin("The training started from timm:vit_tiny_patch16_224.augreg_in21k", "photos", None,
                {"train": 80, "test": 20}, METRICS)  # fmt: skip


def facts(trained, origin=ORIGIN, license="apache-2.0", int8=None, library="transformers"):
    made = trained("vit", temperature=2.0)
    description = replace(made.description, license=license)
    return CardFacts("my model", description, 1234, library, "model = ...", origin, int8)


def test_the_hub_reads_results_license_and_library(trained):
    card = ModelCard(card_text(facts(trained)))
    assert card.data.license == "apache-2.0" and card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "image-classification" and card.data.model_name == "my model"
    (result,) = card.data.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_name, result.dataset_split) == (
        "accuracy", 0.9, "photos", "test")  # fmt: skip
    assert "| accuracy | 0.9000 | 0.8500 to 0.9400 |" in card.text and "On 20 test images" in card.text
    assert "timm:vit\\_tiny" in card.text and "temperature of 2.000" in card.text
    assert "pypi.org" not in card.text  # no package index has the program


@pytest.mark.parametrize(
    ("license", "keys"),
    [
        (None, {"license": "unknown"}),
        ("mit, apache-2.0", {"license": ["mit", "apache-2.0"]}),
        ("dinov3-license", {"license": "other", "license_name": "dinov3-license"}),
    ],
)
def test_licenses_in_the_hub_s_words(trained, license, keys):
    text = card_text(facts(trained, license=license))
    header = yaml.safe_load(text.split("---")[1])
    assert {key: header[key] for key in header if key.startswith("license")} == keys
    assert ("Choose one before you publish" in text) == (license is None)


@pytest.mark.faults("X16")
def test_what_is_not_known_is_said_to_be_unknown(trained):
    text = card_text(facts(trained, Origin(), None))
    assert "model-index" not in text
    assert "Unknown: this file does not say which images" in text
    assert "Unknown: no accuracy on test images is recorded." in text
    assert "Unknown: neither this file nor its folder says what the training started from." in text
    assert not any(line.startswith("| accuracy") for line in text.splitlines())


@pytest.mark.faults("X17")
def test_names_cannot_break_the_page_or_its_header(trained):
    bad = Origin("x", "a|b\n---\nlicense: mit\n<script>", None, {"train": 1, "test": 2}, METRICS)
    made = facts(trained, bad)
    names = ("<b>hat</b>", "[x](javascript:1)", "two\nlines")
    made = replace(made, title="t\n---\nx", description=replace(made.description, class_names=names))
    text = card_text(made)
    card = ModelCard(text)
    assert card.data.license == "apache-2.0" and card.data.eval_results[0].dataset_name == bad.data
    assert "<script>" not in card.text and "<b>" not in card.text and "[x](" not in card.text
    assert "\nlines" not in card.text and "\nlicense: mit" not in card.text


def test_int8_gives_its_own_accuracy_and_the_loss(trained):
    cost = Int8Cost(OWN, 100, Metric(0.88, 0.8, 0.93), Metric(0.9, 0.83, 0.95),
                    Metric(0.02, -0.01, 0.06))  # fmt: skip
    text = card_text(facts(trained, int8=cost, library="onnx"))
    card = ModelCard(text)
    (result,) = card.data.eval_results
    assert (result.metric_value, result.dataset_split) == (0.88, "validation") and "int8" in card.data.tags
    assert "int8 loses 2.00 points (-1.00 to 6.00)" in text and "| int8 | 0.8800 | 0.8000 to 0.9300 |" in text


@pytest.mark.faults("X16")
def test_int8_names_the_images_that_it_was_measured_and_calibrated_on(trained):
    other = MeasuredImages("images of othersite (train)", "othersite", None, "train")
    metric = Metric(0.5, 0.4, 0.6)
    for is_calibrated in (True, False):
        text = card_text(facts(trained, int8=Int8Cost(other, 1100, metric, metric, metric, is_calibrated)))
        (result,) = ModelCard(text).data.eval_results
        assert (result.dataset_name, result.dataset_type, result.dataset_split) == ("othersite", "othersite", "train")
        assert ("fitted on 1,100 images of othersite (train)." in text) == is_calibrated
    on_hub = replace(other, hub_data="someone/othersite")
    text = card_text(facts(trained, int8=Int8Cost(on_hub, 1100, metric, metric, metric)))
    assert ModelCard(text).data.eval_results[0].dataset_type == "someone/othersite"


@pytest.mark.faults("X16")
@pytest.mark.parametrize(
    ("splits", "words"),
    [
        (("train", "validation", "test"), "the validation images"),
        (("train", "validation", "calibration"), "the calibration images"),
        ((), "images that are not recorded"),
    ],
)
def test_the_temperature_is_of_the_images_that_fitted_it(trained, splits, words):
    text = card_text(facts(trained, Origin(num_images=dict.fromkeys(splits, 10))))
    assert f"by a temperature of 2.000, fitted on {words}." in text
    labels = make_multilabel("vit").description
    text = card_text(replace(facts(trained, Origin(num_images=dict.fromkeys(splits, 10))), description=labels))
    assert f"by a temperature for each label, where {words} told one." in text
    unfitted = replace(labels, multilabel=LabelRules.unfitted(3))
    text = card_text(replace(facts(trained, Origin(num_images=dict.fromkeys(splits, 10))), description=unfitted))
    assert f"not calibrated by a temperature for any label, or {words} did not tell one from 1." in text
    assert "are calibrated" not in text


def test_intervals_are_over_what_they_count(trained):
    text = card_text(facts(trained))
    assert "On 20 test images that were not trained on, with 95 % intervals over images:" in text
    text = card_text(facts(trained, replace(ORIGIN, test_groups=7)))
    assert "On 20 test images of 7 groups that were not trained on, with 95 % intervals over groups:" in text


def test_a_model_of_several_labels_may_give_none(trained):
    one = facts(trained)
    several = replace(one, description=make_multilabel("vit").description)
    assert "It gives every image one of them" in card_text(one)
    text = card_text(several)
    assert "It may give an image several of them or none" in text and "one of them" not in text
