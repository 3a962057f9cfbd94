"""A linear probe: the backbone stays, the head is the best one that validation finds, and the run is like any other."""

import itertools
import json
import re

import numpy as np
import pytest
import torch

from tests.runs import run_folder
from tests.tables import rows
from vit.checkpoints.load import load
from vit.tasks.losses import TrainingLoss
from vit.training.network.features import minimize
from vit.training.recipes.recipe import ModelConfig, OptimConfig
from vit.training.recipes.values import is_unused


@pytest.fixture(scope="module")
def probed(vit, digits_run, tmp_path_factory):
    """A probe of digits on the features of a ViT trained on digits."""
    out = tmp_path_factory.mktemp("probe")
    answer = vit(
        "train", "digits", "--init_from", digits_run.path, "--network", "vit_nano_patch2_8", "--freeze", "backbone",
        "--wandb", "off", "--out", out, drawn=True,
    ).ok()  # fmt: skip
    return run_folder(out), answer


def test_the_backbone_stays_and_the_head_is_another(probed, digits_run):
    run, _ = probed
    before, _ = load(digits_run.best)
    after, description = load(run / "checkpoints" / "best.ckpt")
    old, new = before.state_dict(), after.state_dict()
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    assert changed == {"head.weight", "head.bias"}
    assert description.class_names == tuple("0123456789")


def test_the_kept_penalty_has_the_smallest_validation_loss(probed):
    run, _ = probed
    fits = rows(run / "metrics.csv")
    losses = [float(row["val/loss"]) for row in fits]
    assert len(fits) == 10 and len(set(losses)) > 3
    result = json.loads((run / "result.json").read_text())
    assert result["best_epoch"] == int(np.argmin(losses))
    assert result["validation"]["val/loss"] == pytest.approx(min(losses))
    training = [float(row["train/loss"]) for row in fits]
    assert all(later <= sooner + 1e-4 for sooner, later in itertools.pairwise(training))


def test_the_checkpoint_is_as_good_as_the_fit_said(probed, vit, mixed, tmp_path):
    """Folding the standardization into the weights loses nothing: the saved network is scored again for result.json."""
    run, answer = probed
    result = json.loads((run / "result.json").read_text())
    right = [row["label"] == row["predicted"] for row in rows(run / "predictions" / "validation.csv")]
    assert np.mean(right) == pytest.approx(result["validation"]["val/acc1"], abs=1.5 / len(right))
    assert np.mean(right) > 0.9
    assert "penalty 1/10 " in answer.err and "Best penalty " in answer.out and "epoch" not in answer.err
    assert "the last layer alone" in answer.out and re.search(r"augment +none", answer.out)
    for words in (["predict", run, mixed / "a b.png", "--output", tmp_path / "r.csv"], ["evaluate", run]):
        assert vit(*words).code == 0


def test_validation_images_without_labels_choose_no_weights(vit, labels_csv, digits_run, tmp_path):
    """Without average precision the first epoch or penalty stayed the best."""
    names = sorted(path.name for path in labels_csv.parent.glob("*.png"))[:24]
    cells = ["top,train", "left,train", "top,test", ",validation"]
    rows = [f"{labels_csv.parent / name},{cells[place % 4]}" for place, name in enumerate(names)]
    (tmp_path / "none.csv").write_text("\n".join(["path,labels,split", *rows]))
    probe = ("--init_from", digits_run.best, "--freeze", "backbone", "--optim.best_metric", "map")
    answer = vit("train", tmp_path / "none.csv", *probe, "--wandb", "off", "--out", tmp_path / "out")
    answer.failed(3, "no validation image of none has a label, and --optim.best_metric map needs one")


def test_one_training_image_is_sufficient(vit, colors, digits_run, tmp_path):
    vit(
        "train", colors, "--data.train_images", 1, "--init_from", digits_run.best, "--freeze", "backbone",
        "--wandb", "off", "--out", tmp_path,
    ).ok()  # fmt: skip
    weights = load(run_folder(tmp_path) / "checkpoints" / "best.ckpt")[0].state_dict()
    assert weights["head.weight"].isfinite().all() and weights["head.bias"].isfinite().all()


def test_the_result_and_the_page_count_penalties_and_full_passes(probed):
    """Epochs were the number of penalties, and steps of L-BFGS on all images were said to be of a batch."""
    run, _ = probed
    result, page = json.loads((run / "result.json").read_text()), (run / "report.html").read_text()
    assert (result["rounds"], result["validation_name"]) == (10, "penalty")
    assert result["epochs"] == result["steps"] > 10 and result["batch_size"] == result["images"]["train"]
    assert f"the best checkpoint, of penalty {result['best_epoch'] + 1}," in page
    assert f"Trained on {result['batch_size']:,} images by a linear probe of the last layer, seed 0;" in page
    assert f"a linear probe: {result['steps']:,} steps of L-BFGS on all images, over 10 penalties" in page
    assert not re.search(r"\bepochs?\b", re.sub(r"<pre>.*?</pre>|base64,[^\"]*", "", page, flags=re.DOTALL))


def test_a_probe_s_config_says_what_was_done(probed):
    import yaml

    run, _ = probed
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["freeze"] == "backbone" and config["augment"]["name"] == "none"


@pytest.mark.parametrize("weighted", [False, True])
def test_the_head_is_scikit_learn_s(weighted):
    """The same problem given to the library that everybody knows."""
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 5)).astype(np.float32)
    labels = (features @ generator.normal(size=(5, 3)) + generator.normal(size=(200, 3))).argmax(axis=1)
    penalty = 0.01
    theirs = LogisticRegression(
        C=1 / (penalty * len(labels)), class_weight="balanced" if weighted else None, max_iter=1000, tol=1e-8
    ).fit(features, labels)
    ours = torch.nn.Linear(5, 3)
    torch.nn.init.zeros_(ours.weight)
    torch.nn.init.zeros_(ours.bias)
    weights = len(labels) / (3 * np.bincount(labels)) if weighted else None
    loss = TrainingLoss(0.0, weights)
    _, steps = minimize(ours, torch.from_numpy(features), torch.from_numpy(labels), penalty, loss)
    found = ours(torch.from_numpy(features)).softmax(dim=1).detach().numpy()
    np.testing.assert_allclose(found, theirs.predict_proba(features), atol=1e-3)
    assert 1 < steps < 100


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            (), "--freeze backbone without weights to start from; give --init_from", marks=pytest.mark.faults("K24")
        ),
        pytest.param(
            ("--init_from", "RUN", "--data.sampling", "balanced"),
            "--data.sampling balanced with --freeze backbone, which reads each image once",
            marks=pytest.mark.faults("K14"),
        ),
        (
            ("--init_from", "RUN", "--optim.best_metric", "last"),
            "--optim.best_metric last with --freeze backbone, which tries penalties and has no last weights",
        ),
        (("--init_from", "RUN", "--devices", "2"), "--freeze backbone on 2 processes"),
    ],
)
def test_what_a_probe_cannot_do(vit, digits_run, tmp_path, words, said):
    words = [digits_run.path if word == "RUN" else word for word in words]
    answer = vit("train", "digits", "--freeze", "backbone", "--out", tmp_path, *words)
    assert answer.code == 2 and said in answer.err and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "flag"),
    [
        (("--epochs", 30), "--epochs"), (("--lr", 0.1), "--lr"), (("--augment", "strong"), "--augment"),
        (("--augment.flip", 0), "--augment.flip"), (("--optim.weight_decay", 0.3), "--optim.weight_decay"),
        (("--optim.ema_decay", 0.9), "--optim.ema_decay"), (("--model.init_head", "probe"), "--model.init_head"),
        (("--batch_size", 32), "--batch_size"),
    ],
)  # fmt: skip
def test_an_option_that_a_probe_does_not_use_is_refused(vit, digits_run, here, option, flag):
    frozen = ("train", "digits", "--init_from", digits_run.path, "--freeze", "backbone", "--dry_run")
    vit(*frozen, *option).failed(2, f"{flag} with --freeze backbone")


def test_the_help_names_what_a_probe_uses():
    named = re.search(r"optim, it uses (.*?) alone", str(ModelConfig.__doc__), re.DOTALL)[1]
    used = {name for name in vars(OptimConfig()) if not is_unused(f"optim.{name}")}
    assert set(re.findall(r"\w+", named)) - {"and"} == used - {"time"}  # which has a refusal of its own


def test_options_that_a_probe_uses_change_its_plan(vit, digits_run, here):
    frozen = ("train", "digits", "--init_from", digits_run.path, "--freeze", "backbone", "--dry_run")
    few = ("--config", digits_run.path / "config.yaml", "--data.train_images", 20)
    for option in (("--optim.class_weights", "auto", "--optim.best_metric", "acc1"), few):
        assert "  batch " not in vit(*frozen, *option).ok("fitted to all images at once").out


def test_a_study_does_not_compare_a_probe_with_itself(vit, digits_run, here):
    frozen = ("--set", f"model.init_from={digits_run.path}", "--set", "model.freeze=backbone", "--sizes", "all")
    for words in (("--vary", "optim.lr=0.001,0.1"), ("--vary", "augment.name=none,strong")):
        answer = vit("study", "digits", *frozen, *words, "--budget", "recipe", "--networks", "digits", "--dry_run")
        assert answer.code == 2 and "are the same training" in answer.err, answer.err
