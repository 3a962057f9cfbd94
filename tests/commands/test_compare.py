"""`vit compare`: runs side by side on the images they share, and what cannot be compared."""

import csv
import json
import os

import pytest

from tests.report.pages import Page
from vit.checkpoints.result import RunResult
from vit.commands.cli.command_line import run_command
from vit.commands.comparing.compare import compare
from vit.errors import DataError, ResourceError, UsageError
from vit.models.spec import NetworkSpec

HEADER = ("path", "label", "predicted", "probability", "loss", "uncalibrated")


pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def run(here):
    """`run(folder, guesses)`: a finished run of images i.png whose label is "cat"; a guess is a label."""

    def make(name, guesses, network="vit", print_of_test="abc", paths=None, labels=None):
        folder = here / name
        (folder / "predictions").mkdir(parents=True)
        (folder / "config.yaml").write_text("")
        (folder / "splits.csv").write_text("path,label,split,content,name\n")
        result = RunResult(
            spec=NetworkSpec(network, 2), image_size=8, parameters=1, flops=1, data="photos",
            num_images={"train": 9, "test": len(guesses)}, fingerprints={"train": "xyz", "test": print_of_test},
            seed=0, epochs=1.0, steps=1, batch_size=1, seconds=1.0, images_per_second=1.0, device="cpu",
            precision="32-true", best_epoch=0, validation={}, metrics={}, versions={},
        )  # fmt: skip
        result.write(folder / "result.json")
        with open(folder / "predictions" / "test.csv", "w", newline="", errors="surrogateescape") as file:
            writer = csv.writer(file)
            writer.writerow(HEADER)
            for place, guess in enumerate(guesses):
                label = labels[place] if labels else "cat"
                loss = 0.1 if guess == label else 1.0 + place
                path = paths[place] if paths else f"{place}.png"
                writer.writerow((path, label, guess, "0.999960", f"{loss:.6f}", "0.900000"))
        return folder

    return make


def with_seed(folder, seed, config):
    """The recipe and the seed of a run."""
    (folder / "config.yaml").write_text(f"seed: {seed}\n{config}\n")
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(result | {"seed": seed}))


def test_two_runs(run, capsys):
    run("a", ["cat"] * 90 + ["dog"] * 10)
    run("b", ["cat"] * 70 + ["dog"] * 20 + ["cat"] * 5 + ["dog"] * 5, network="resnet")
    comparison = compare(["a", "b"])
    out = capsys.readouterr().out
    assert comparison.num_images == 100 and len(comparison.disagreements) == 25
    assert comparison.accuracies["vit"].value == 0.9 and comparison.differences["resnet"].value == 0.15
    assert "100 test images of photos" in out
    assert "vit     90.00 % (82.56 to 94.48)     90     10" in out
    assert "resnet  75.00 %" in out
    row = next(line for line in out.splitlines() if line.startswith("resnet") and "+15.00" in line)
    assert row.split()[-4:] == ["20", "5", "0.002", "0.002"], "one comparison needs no correction"
    assert "25 images with different labels, the 20 with the largest difference in loss" in out
    assert "94.png  cat   dog (> 99.9 %)  cat (> 99.9 %)" in out
    assert out.strip().splitlines()[-1] == "Next: vit compare a b --page compared.html"
    assert sorted(os.listdir()) == ["a", "b"]


def test_three_runs_are_each_compared_with_the_first(run, capsys):
    run("a", ["cat"] * 9 + ["dog"])
    run("b", ["cat"] * 8 + ["dog"] * 2)
    run("c", ["dog"] * 10, network="resnet")
    compare(["a", "b", "c"])
    out = capsys.readouterr().out
    assert "Accuracy of vit/a minus that of each other run" in out
    rows = [line.split() for line in out.splitlines()]
    assert [row[1] for row in rows if row[:1] == ["vit/b"]] == ["80.00", "+10.00"]
    assert [row[1] for row in rows if row[:1] == ["resnet/c"]] == ["0.00", "+90.00"]
    assert "corrected for 2 comparisons (Hochberg)" in out
    assert [row[-2:] for row in rows if row[:1] == ["resnet/c"]] == [["0", "10"], ["0.002", "0.004"]]
    assert "Options that differ" not in out
    assert "9 images with different labels\n" in out


def test_options_that_differ_are_shown(run, here, capsys):
    for name, rate in (("a", 0.1), ("b", 0.2)):
        run(name, ["cat"] * 4, network=name)
        (here / name / "config.yaml").write_text(f"out: {name}\noptim:\n  lr: {rate}\n  epochs: 3\n")
    compare(["a", "b"])
    out = capsys.readouterr().out
    assert "optim.lr  0.1  0.2" in out and "optim.epochs" not in out
    assert "\nout " not in out  # changes no weight


def test_all_disagreements_go_to_a_file(run, here):
    odd = ["caf\udce9.png", "a,b.png", *[f"{n}.png" for n in range(28)]]
    run("a", ["cat"] * 30, paths=odd)
    run("b", ["dog", "ox", *["cat"] * 3, *["dog"] * 25], network="resnet", paths=odd)
    compare(["a", "b"], output="new/rows.csv")
    with open("new/rows.csv", newline="", errors="surrogateescape") as file:
        header, *rows = csv.reader(file)
    assert header == [
        "path", "label", "predicted by vit", "probability by vit", "loss by vit",
        "predicted by resnet", "probability by resnet", "loss by resnet",
    ]  # fmt: skip
    assert [row[0] for row in rows] == [*odd[:2], *odd[5:]]
    assert rows[1][1:] == ["cat", "cat", "0.99996", "0.1", "ox", "0.99996", "2.0"]
    before = (here / "new/rows.csv").read_bytes()
    with pytest.raises(UsageError, match="exists"):
        compare(["a", "b"], output="new/rows.csv")
    assert (here / "new/rows.csv").read_bytes() == before
    with pytest.raises(ResourceError, match="cannot write"):
        compare(["a", "b"], output="new/rows.csv/below.csv")


def test_runs_that_agree(run, capsys):
    for name in ("a", "b"):
        run(name, ["cat", "dog"])
    compare(["a", "b"])
    out = capsys.readouterr().out
    assert "every image the same label" in out and "1.000" in out
    assert "-0.00" not in out
    assert "Next: vit predict a " in out


def test_names_from_outside_are_harmless(run, capsys):
    for name, guess in (("a", "dog\x1b[31m"), ("b", "cat")):
        run(name, [guess], paths=["evil\x1b[2J\n.png"], network="[bold]net")
    compare(["a", "b"])
    out = capsys.readouterr().out
    assert "\x1b" not in out and r"evil\x1b[2J\n.png" in out and "[bold]net/a" in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["a"], "two or more"),
        (["a", "a"], "given twice"),
        (["a", "b", "../HERE/a"], "given twice"),
        (["a", "link"], "given twice"),
        (["a", "nothing"], "not a run folder"),
        (["a", "unfinished"], "has not finished"),
        (["a", "a/result.json"], "not a run folder"),
        (["a", "b", "--output", "a"], "exists"),
        (["a", "untested"], "no test images"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_compared(run, here, line, words):
    for name in ("a", "b", "untested"):
        run(name, ["cat", "dog"])
    (here / "link").symlink_to("a")
    (here / "unfinished").mkdir()
    (here / "unfinished" / "config.yaml").write_text("")
    result = json.loads((here / "untested" / "result.json").read_text())
    del result["fingerprints"]["test"]
    (here / "untested" / "result.json").write_text(json.dumps(result))
    with pytest.raises(UsageError, match=words):
        run_command(compare, [word.replace("HERE", here.name) for word in line])


def test_other_test_images_are_named(run):
    run("a", ["cat", "dog"])
    run("b", ["cat", "dog"])
    run("c", ["cat", "dog", "dog"], print_of_test="def")
    with pytest.raises(
        DataError, match=r"^a and c have different test images: 2 of photos \(abc\), 3 .* \(def\)"
    ) as told:
        compare(["a", "b", "c"])
    for option in ("data.split_seed", "data.validation", "data.test", "data.groups"):
        assert option in told.value.fix


@pytest.mark.parametrize("change", [{"paths": ["0.png", "other.png"]}, {"labels": ["cat", "dog"]}])
def test_rows_that_do_not_belong_together_are_refused(run, change):
    run("a", ["cat", "dog"])
    run("b", ["cat", "dog"], **change)
    with pytest.raises(DataError, match=r"differ in their test images: 1\.png"):
        compare(["a", "b"])


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "path,label\n",
        ",".join(HEADER) + "\n0.png,cat,cat,0.9,0.1,0.9\n",
        ",".join(HEADER) + "\n0.png,cat,cat,x,0.1,0.9\n" * 2,
        ",".join(HEADER) + "\n0.png,cat\n1.png\n",
        ",".join(HEADER) + "\n" + "0.png,cat,cat,0.9,0.1,0.8,0.7\n" * 2,
        ",".join(HEADER[:-1]) + "\n" + "0.png,cat,cat,0.9,0.1\n" * 2,
    ],
)
def test_lost_and_damaged_predictions(run, text):
    run("a", ["cat", "dog"])
    file = run("b", ["cat", "dog"]) / "predictions" / "test.csv"
    file.unlink()
    if text is not None:
        file.write_text(text)
    words = r"b has no predictions/test\.csv; restore" if text is None else r"b/predictions/test\.csv is damaged"
    with pytest.raises(DataError, match=words):
        compare(["a", "b"])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"fingerprints": {"test": "abc"}}'])
def test_a_damaged_result(run, text):
    run("a", ["cat"])
    (run("b", ["cat"]) / "result.json").write_text(text)
    with pytest.raises(DataError, match="damaged"):
        compare(["a", "b"])


def test_real_runs_can_be_compared(digits_run, here, capsys):
    """With itself in another folder: the files of `vit train` are those that are read."""
    import shutil

    shutil.copytree(digits_run.path, here / "copy", ignore=shutil.ignore_patterns("checkpoints"))
    comparison = compare([digits_run.path, "copy"])
    out = capsys.readouterr().out
    assert comparison.num_images == 359 and not comparison.disagreements
    assert "359 test images of digits" in out and "every image the same label" in out


def test_several_seeds_are_taken_together(run, here, capsys):
    """Three seeds that agree on the images: as sure as one of them, and no surer."""
    for network, wrong in (("vit", 12), ("cnn", 4)):
        for seed in range(3):
            folder = run(f"{network}{seed}", ["dog"] * wrong + ["cat"] * (100 - wrong), network=network)
            with_seed(folder, seed, f"name: {network}{seed}\nmodel: {network}")
    compare(["vit0", "vit1", "vit2", "cnn2", "cnn1", "cnn0"])
    out = capsys.readouterr().out
    assert "differ in their seed alone" in out and "McNemar" not in out
    words = next(line for line in out.splitlines() if line.startswith("cnn") and "-8.00" in line).split()
    assert words[1] == "3" and float(words[3].strip("(")) < -8 < float(words[5].strip(")"))
    assert 0.001 < float(words[6]) < 0.05 and words[6] == words[7], "McNemar's p of 8 images is 0.008"
    for folder in ("cnn0", "cnn1", "cnn2"):
        (here / folder / "predictions" / "test.csv").write_bytes((here / "vit0/predictions/test.csv").read_bytes())
    compare(["vit0", "vit1", "vit2", "cnn0", "cnn1", "cnn2"])
    assert " +0.00 (" in capsys.readouterr().out
    compare(["vit0", "cnn0"])
    assert "McNemar" in capsys.readouterr().out, "one seed each: the trained models alone"


def test_defaults_of_a_network_that_a_recipe_writes_out_are_no_difference(run, here, capsys):
    network = "vit_nano_patch2_8"
    for seed, options in enumerate(({"patch_size": 2}, {"pool": "cls"})):
        folder = run(f"run{seed}", ["cat"] * 4, network=network)
        model = {"network": {"name": network} | options, "preprocess": {"image_size": 8}}
        (folder / "config.yaml").write_text(json.dumps({"model": model, "seed": seed}))
        result = json.loads((folder / "result.json").read_text()) | {"seed": seed}
        result["network"] |= NetworkSpec.named(network, 2, options).to_plain()
        (folder / "result.json").write_text(json.dumps(result))
    compare(["run0", "run1"])
    out = capsys.readouterr().out
    assert "differ in their seed alone" in out and "model.network" not in out


@pytest.mark.faults("D33")
def test_seeds_are_not_compared_on_one_image(run, here):
    for seed in range(2):
        for network in ("vit", "cnn"):
            with_seed(run(f"{network}{seed}", ["cat"], network=network), seed, f"model: {network}")
    with pytest.raises(DataError, match="one test image, and seeds are compared on two or more"):
        compare(["vit0", "vit1", "cnn0", "cnn1"])
    assert compare(["vit0", "cnn0"]).num_images == 1


def two_pages(run, here, page="page/compared.html"):
    run("a", ["cat"] * 90 + ["dog"] * 10)
    run("b", ["cat"] * 70 + ["dog"] * 20 + ["cat"] * 5 + ["dog"] * 5, network="resnet")
    compare(["a", "b"], page=page)
    return Page((here / page).read_text())


def test_a_page_has_the_numbers_of_the_terminal_and_the_images(run, here, capsys):
    page = two_pages(run, here)
    out = capsys.readouterr()
    assert "page in page/compared.html" in out.out and out.out.splitlines()[-1].startswith("Next: vit predict a ")
    assert "the page has no pictures" in out.err
    for words in (
        "A is more accurate than B: A minus B is +15.00 points",
        "90.00 % (82.56 to 94.48) 90 10",
        "Only A is right, not B : 20".replace(" :", ":"),
        "Only B is right, not A: 5",
        "8 more are in the list of",
    ):
        assert words in page.text, words
    assert len(page.of("svg")) == 0 and len(page.of("img")) == 1, "one figure, and no picture without the images"
    links = {link["href"] for link in page.of("a")}
    assert links == {"#images", "#first-0", "#other-0"} <= {f"#{one['id']}" for _, one in page.tags if "id" in one}


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 image has different labels."), (13, "1 more is in the list of"), (2, "2 images have")]
)
def test_a_page_counts_one_image_in_the_singular(run, here, count, words):
    run("a", ["cat"] * 20)
    run("b", ["dog"] * count + ["cat"] * (20 - count), network="resnet")
    compare(["a", "b"], page="page.html")
    assert words in Page((here / "page.html").read_text()).text


def test_an_interval_beside_a_corrected_p_is_called_uncorrected(run, here, capsys):
    """McNemar's p of 8 images against 1 is 0.021: below 5 % alone, and above it among three comparisons."""
    wrong = {"a": range(1), "b": range(1, 9), "c": range(3), "d": range(3)}
    for name, places in wrong.items():
        run(name, ["dog" if place in places else "cat" for place in range(100)], network=name)
    compare(["a", "b", "c", "d"], page="page.html")
    text = Page((here / "page.html").read_text()).text
    out = capsys.readouterr().out
    assert "p is McNemar's mid-p" in text and "McNemar's mid-p" in out
    assert "A and B cannot be told apart: +7.00 points (uncorrected 95 % interval +1." in text
    assert (
        "A and D cannot be told apart: +2.00 points (95 % interval -" in text and "; corrected p = 0.0" in text
    )  # 3 x 0.021
    assert "corrected for 3 comparisons (Hochberg); the intervals are not" in out
    compare(["a", "b"], page="two.html")
    text = Page((here / "two.html").read_text()).text
    assert (
        "A is more accurate than B: A minus B is +7.00 points (95 % interval +1." in text
        and "; corrected p" not in text
    )


@pytest.mark.faults("K9")
def test_a_page_never_takes_the_place_of_a_file(run, here):
    (here / "mine.html").write_text("mine")
    run("a", ["cat"] * 5)
    run("b", ["cat"] * 4 + ["dog"], network="resnet")
    with pytest.raises(UsageError, match=r"--page mine\.html exists"):
        compare(["a", "b"], page="mine.html")
    assert (here / "mine.html").read_text() == "mine"
    with pytest.raises(ResourceError, match="give another name"):
        compare(["a", "b"], page="mine.html/page.html")


@pytest.mark.faults("H1")
def test_hostile_names_are_text_on_the_page(run, here):
    names = [f"<script>alert({place})</script>" for place in range(6)]
    run("a", [*names[:3], *names[1:4]], labels=names, paths=[f"{name}.png" for name in names])
    run("b", names[::-1], labels=names, paths=[f"{name}.png" for name in names], network="<b>")
    compare(["a", "b"], page="page.html")
    page = Page((here / "page.html").read_text())
    assert len(page.of("script")) == 1 and page.text.count("<script>alert(") >= 10 and not page.of("b")[0]


def runs_of_seeds(run, **others):
    """Runs of two or more recipes with three seeds each: how many of 10 images they have right."""
    for seed in range(3):
        for name, right in {"vit": 8 - seed, "resnet": 4 + seed, **others}.items():
            folder = run(f"{name}{seed}", ["cat"] * right + ["dog"] * (10 - right), network=name)
            with_seed(folder, seed, f"model:\n  network: {{name: {name}}}")


def test_runs_of_several_seeds_have_a_page(run, here):
    runs_of_seeds(run)
    folders = [f"{name}{seed}" for seed in range(3) for name in ("vit", "resnet")]
    compare(folders, page="page.html")
    page = Page((here / "page.html").read_text())
    assert "Runs that differ in their seed alone are together." in page.text
    assert "Accuracy of vit minus that of the other recipe" in page.text and "resnet 3 +" in page.text


def test_corrected_p_values_of_several_recipes_are_said_to_be_so(run, here, capsys):
    runs_of_seeds(run, other=3)
    compare([f"{name}{seed}" for name in ("vit", "resnet", "other") for seed in range(3)], page="page.html")
    assert '"p corrected" is corrected for 2 comparisons (Hochberg); the intervals are not.' in capsys.readouterr().out
    text = Page((here / "page.html").read_text()).text
    assert text.count("; corrected p ") == 4 and "the intervals are not corrected" in text


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        (
            ["vit0", "vit1", "resnet0"],
            "Accuracy of vit minus that of resnet: +40.00 points, from one common seed and without a test.",
        ),
        (["vit0", "vit1", "resnet2"], "vit and resnet have no seed in common, and so no test."),
        (["vit0", "vit1"], "One recipe with several seeds: there is nothing to compare it with."),
    ],
)
def test_a_page_says_where_recipes_have_no_test(run, here, folders, words, capsys):
    runs_of_seeds(run)
    compare(folders, page="page.html")
    text = Page((here / "page.html").read_text()).text
    assert words in text and ("One recipe" in text) == (folders == ["vit0", "vit1"])
    assert ("McNemar" in capsys.readouterr().out) == (len(folders) == 3), "the table of recipes has empty columns"


def test_an_open_test_beside_an_interval_without_zero_is_explained(run, here, capsys):
    """Of 100 images, 4 are right by one run alone: the mid-p is 0.062, and Tango's interval begins at 0.15."""
    run("a", ["cat"] * 100, network="a")
    run("b", ["dog" if place < 4 else "cat" for place in range(100)], network="b")
    compare(["a", "b"], page="page.html")
    assert "+9.84; p = 0.062, of a stricter test)" in Page((here / "page.html").read_text()).text
    assert "nothing is told apart: the test is stricter" in capsys.readouterr().out


def test_images_that_a_run_knew_before_are_warned_of(run, here, capsys):
    folders = [run(name, ["cat", "dog", "cat"], network=name) for name in "ab"]
    path = folders[1] / "result.json"
    told = "the run old, from which this training starts, has trained on 2 of 3 test images"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seen_before": [told]}))
    compare(folders, page="page.html")
    assert f"WARNING: b: {told}\n" in capsys.readouterr().out
    assert f"WARNING: b: {told}." in Page((here / "page.html").read_text()).text
