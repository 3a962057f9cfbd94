"""`vit study DATA` without networks: a ViT and a CNN, for photographs from published weights where available."""

import json
import sys

import pytest
import timm
import torch
import yaml
from safetensors.torch import save_file

from tests.commands.weights_hub import WeightsHub
from tests.forked import run
from tests.processes import environment
from vit.commands.cli.recipe_options import listed_images
from vit.commands.studies.study_options import read_words
from vit.commands.studies.study_series import PUBLISHED_CNN, SECOND_PAIR, networks_for, series_of, sizes_for
from vit.commands.training.train_options import PUBLISHED
from vit.console import Reporter
from vit.errors import UsageError
from vit.study.folder import StudyDirectory
from vit.study.grid import parse_sizes

VIT, CNN = PUBLISHED.removeprefix("timm:"), PUBLISHED_CNN.removeprefix("timm:")
PLAN = """
import sys
from vit.commands.studies.study_options import read_words
from vit.commands.studies.study_estimate import show_study
from vit.commands.studies.study_plan import make_study_plan
from vit.console import Reporter
reporter = Reporter()
plan = make_study_plan(read_words(sys.argv[2:]), reporter)
show_study(reporter, plan)
"""  # as --dry_run, without the seconds in which it times a step of each network
BEGIN = f"{PLAN}plan.folder.describe(plan.cells, plan.protocol)"  # a study that is killed in its first cell
QUICK = ("--set", "model.preprocess.image_size=32", "--set", "augment.name=none", "--set", "trainer.precision=32-true")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files with the shapes of the published weights."""
    folder = tmp_path_factory.mktemp("hub")
    torch.manual_seed(7)
    for name in (VIT, CNN):
        save_file(timm.create_model(name.partition(".")[0]).state_dict(), folder / f"{name}.safetensors")
    return {name: folder / f"{name}.safetensors" for name in (VIT, CNN)}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory, draw_classes):
    return draw_classes(tmp_path_factory.mktemp("data") / "photos", ("blue", "red"), 40, side=80)


@pytest.fixture
def study(tmp_path, photographs):
    """`study(words, HF_ENDPOINT=...)` is the finished process of `vit study`."""

    def start(*words, code=0, program=None, **variables):
        kept = {key: value for key, value in environment(tmp_path).items() if not key.startswith("HF_")}
        kept |= {"HF_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path), **variables}
        begin = ["-c", program] if program else ["-m", "vit"]
        line = [sys.executable, *begin, "study", str(photographs), *words, "--wandb", "off"]
        done = run(line, cwd=tmp_path, env=kept, timeout=400)
        assert done.returncode == code, done.stderr
        return done

    return start


def facts(done, name):
    lines = [line for line in done.stdout.splitlines() if line.startswith(f"  {name} ")]
    return [line.removeprefix(f"  {name} ").strip() for line in lines]


def fact(done, name):
    (found,) = facts(done, name)
    return found


def description(folder):
    """What study.json says of the study, with its cells."""
    return json.loads((folder / "studies" / "photos" / "study.json").read_text())


@pytest.mark.faults("R16")
@pytest.mark.slow
def test_photographs_start_from_the_published_weights_of_both(study, files, tmp_path):
    with WeightsHub(files) as hub:
        done = study(*QUICK, program=BEGIN, HF_ENDPOINT=hub.address)
    assert fact(done, "compare") == "vit_tiny_patch16_224; tf_efficientnet_lite0"
    starts = [f"vit_tiny_patch16_224: {PUBLISHED}", f"tf_efficientnet_lite0: {PUBLISHED_CNN}"]
    assert facts(done, "start") == starts
    assert fact(done, "why").startswith(f"{PUBLISHED} and {PUBLISHED_CNN}; --networks vit_tiny_patch16_224,tf_")
    assert "tf_efficientnet_lite0: the answer is about these networks" in facts(done, "note")[-1]
    assert "at 58 images, growing with images^" in fact(done, "budget")
    assert fact(done, "sizes") == "20, 29, 41, 58"
    written = description(tmp_path)
    assert set(written["protocol"]["weights"]) == {PUBLISHED, PUBLISHED_CNN}
    done = study(*QUICK, program=BEGIN, HF_HUB_OFFLINE="1")  # both are in the cache
    assert facts(done, "start") == starts and description(tmp_path) == written
    for file in (tmp_path / "cache").rglob("model.safetensors"):
        file.unlink()
    done = study(*QUICK, HF_HUB_OFFLINE="1", code=2)
    assert f"published weights, with which this study began, are not available: {PUBLISHED}: " in done.stderr


@pytest.mark.slow
def test_photographs_are_learned_from_the_published_weights_of_both(study, files, tmp_path):
    cells = ("--sizes", "all", "--seeds", "1", "--budget", "steps:1", "--jobs", "1")
    with WeightsHub(files) as hub:
        study(*QUICK, *cells, HF_ENDPOINT=hub.address)
    runs = [file.parent for file in (tmp_path / "studies").rglob("result.json")]
    results = [json.loads((run / "result.json").read_text()) for run in runs]
    starts = {yaml.safe_load((run / "config.yaml").read_text())["model"]["init_from"] for run in runs}
    assert {result["network"]["name"] for result in results} == {"vit_tiny_patch16_224", "tf_efficientnet_lite0"}
    assert starts == {PUBLISHED, PUBLISHED_CNN}
    done = study(*QUICK, *cells, HF_HUB_OFFLINE="1")
    assert "2 of 2 cells were done before" in done.stdout + done.stderr


@pytest.mark.slow
def test_values_are_compared_where_vit_train_would_start(study, files, tmp_path):
    with WeightsHub(files) as hub:
        done = study(*QUICK, "--vary", "optim.lr=0.0001,0.001", program=BEGIN, HF_ENDPOINT=hub.address)
    assert fact(done, "compare") == "lr=0.0001; lr=0.001"
    assert list(description(tmp_path)["protocol"]["weights"]) == [PUBLISHED]
    assert fact(done, "why") == f"{PUBLISHED}; --networks vit_tiny_patch16_224 starts from random weights"


@pytest.mark.parametrize("there", [(), (VIT,)])
@pytest.mark.faults("R16")
def test_without_both_weights_nothing_starts(study, files, tmp_path, there):
    """A day of trainings from random weights was planned, which answer another question."""
    with WeightsHub({name: files[name] for name in there}) as hub:
        done = study(code=2, HF_ENDPOINT=hub.address)
    missing = PUBLISHED_CNN if there else PUBLISHED
    assert f"published weights are not available: {missing}: 127.0.0.1: " in done.stderr
    assert all(way in done.stderr for way in ("--init_from FILE", "HF_HOME", "--init random"))
    assert not (tmp_path / "studies").exists()


@pytest.mark.slow
def test_on_demand_small_networks_of_one_size_start_from_random_weights(study, tmp_path):
    done = study("--init", "random", program=BEGIN, HF_HUB_OFFLINE="1")
    assert fact(done, "compare") == "vit_mini_patch4_28; resnet10_small"
    assert facts(done, "start") == ["vit_mini_patch4_28: random weights", "resnet10_small: random weights"]
    assert not [note for note in facts(done, "note") if "times the" in note]  # they are matched
    with open(tmp_path / "studies" / "photos" / "study.json") as file:
        assert set(json.load(file)["protocol"]["start"].values()) == {"random weights"}


@pytest.mark.slow
def test_files_are_the_start_in_any_order(study, files):
    """`vit study` had no option for weights in files."""
    given = []
    for name in (CNN, VIT):
        plain = files[name].with_name(f"{name.partition('.')[0]}.safetensors")  # the file's name tells the network
        plain.write_bytes(files[name].read_bytes())
        given += ["--init_from", str(plain)]
    done = study(*QUICK, *given, program=PLAN, HF_HUB_OFFLINE="1")
    assert fact(done, "compare") == "vit_tiny_patch16_224; tf_efficientnet_lite0"
    assert facts(done, "start")[0].startswith("vit_tiny_patch16_224: /") and len(facts(done, "start")) == 2
    named = study(*QUICK, "--networks", "tf_efficientnet_lite0,auto", *given, program=PLAN, HF_HUB_OFFLINE="1")
    assert fact(named, "compare") == "tf_efficientnet_lite0; vit_tiny_patch16_224"
    refused = study("--networks", "resnet18", *given, code=2)
    assert "2 files of --init_from for 1 networks" in refused.stderr


@pytest.mark.slow
def test_a_pretrained_network_against_a_random_one_is_a_warning(study, files):
    """A reader took the start of one network for its quality."""
    words = f"vit_tiny_patch16_224 --init_from={files[VIT]},resnet18"
    done = study(*QUICK, "--networks", words, "--sizes", "all", "--seeds", "1", program=PLAN, HF_HUB_OFFLINE="1")
    assert facts(done, "start")[1] == "resnet18: random weights"
    said = done.stdout + done.stderr
    assert "WARNING: vit_tiny_patch16_224" in said and "pretrained weights and resnet18 with random ones" in said


def test_small_images_have_small_networks(vit, tmp_path, draw_classes):
    data = draw_classes(tmp_path / "small", ("blue", "red"), 40, side=24)
    answer = vit("study", data, "--dry_run", "--wandb", "off").ok("compare  vit_mini_patch4_28; resnet10_small")
    assert "start    vit_mini_patch4_28: random weights" in answer.out and "\n  why " not in answer.out


@pytest.mark.parametrize(
    ("pool", "classes", "expected"),
    [
        (1259, 10, [120, 270, 580, "all"]),
        (140, 10, [20, 38, 73, "all"]),
        (60_000, 10, [6000, 13_000, 28_000, "all"]),
        (1000, 200, [400, 540, 740, "all"]),
        (3900, 1500, [3000, "all"]),
        (3150, 1500, ["all"]),  # 3,000 and 3,100 took most of the time, and showed nothing
        (997, 498, ["all"]),
        (12, 2, ["all"]),
    ],
)
def test_sizes_grow_in_equal_ratios(pool, classes, expected):
    assert parse_sizes(sizes_for(pool, classes), pool) == [*expected[:-1], pool]


@pytest.mark.slow
def test_named_data_have_their_recipes(vit):
    vit("study", "digits", "--dry_run", "--wandb", "off").ok("compare  digits; digits_cnn")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "both"),
        (("--seeds", "5", "--set", "optim.lr=0.001", "--tune", "optim.lr=x1,x3"), "both"),
        (("--set", "model.preprocess.image_size=64"), "both"),
        (("--vary", "optim.lr=0.1,0.2"), "the ViT"),
        (("--set", "model.freeze=backbone"), "the ViT"),
        (("--set", "teacher=RUN"), "the ViT"),
        (("--networks", "digits"), "its own"),
        (("--networks", "digits", "--vary", "optim.lr=0.1,0.2"), "its own"),
        (("--tune", "model.network.drop_path_rate=0,0.1"), "its own"),
        (("--vary", "model.network.pool=cls,mean"), "its own"),
        (("--set", "init_from=none"), "its own"),
    ],
)
def test_a_choice_about_networks_is_kept(words, expected):
    options = read_words(["photos", *words])
    found = "its own" if not options.is_open else "both" if options.compares_both else "the ViT"
    assert found == expected


def test_two_pairs_are_two_vits_and_two_cnns_from_published_weights(photographs, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("vit.weights.hubs.fetch", lambda model, notice: asked.append(model) or "")
    words = [str(photographs), "--pairs", "2", "--wandb", "off", "--out", str(tmp_path)]
    options = read_words(words)
    recipe = next(iter(next(iter(series_of(options).values())).values()))
    found = networks_for(options, recipe, listed_images(recipe), StudyDirectory(tmp_path / "photos"), Reporter())
    networks, _ = found
    assert list(networks) == ["vit_tiny_patch16_224", "tf_efficientnet_lite0", *SECOND_PAIR]
    assert [text.partition("--model.init_from=")[2] for text in networks.values()] == [
        PUBLISHED, PUBLISHED_CNN, *SECOND_PAIR.values()
    ]  # fmt: skip
    assert asked == [name.removeprefix("timm:") for name in (PUBLISHED, PUBLISHED_CNN, *SECOND_PAIR.values())]
    with pytest.raises(UsageError, match="--pairs 2 without published weights"):
        networks_for(read_words([*words, "--init", "random"]), recipe, listed_images(recipe), None, Reporter())
