"""Leaderboard, claims and parts of the results are what evidence/ keeps, and its commands made what it keeps."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml

from tests.processes import ROOT
from vit.commands.studies.study_options import read_words
from vit.commands.studies.study_series import series_of
from vit.study.folder import StudyDirectory

STUDIES = sorted((ROOT / "evidence" / "make" / "studies").glob("*.yaml"))
KEPT = sorted(path.parent.name for path in (ROOT / "evidence").glob("*/study.json"))


@pytest.fixture(scope="module")
def pages():
    import pages

    return pages


@pytest.fixture(scope="module")
def rows():
    import definitions

    return definitions


@pytest.fixture(scope="module")
def store():
    import kept

    return kept


@pytest.fixture(scope="module")
def evidence(rows):
    return rows.read_evidence()


@pytest.fixture(scope="module")
def kept(evidence, store):
    return {name: found for name, row in evidence.rows.items() if (found := store.Kept.of(row)) is not None}


@pytest.fixture
def copied(rows, evidence, tmp_path, monkeypatch):
    """`copied(NAME)`: a row whose kept files may be changed."""

    def copy(name):
        monkeypatch.setattr(rows, "EVIDENCE", tmp_path)
        shutil.copytree(ROOT / "evidence" / name, tmp_path / name, ignore=shutil.ignore_patterns("*.ckpt"))
        return evidence.rows[name]

    return copy


def test_no_kept_balanced_accuracy_counts_the_first_five_answers():
    """Metrics of validation images shared their counts once. Runs of that time lack the two values that were wrong."""
    for path in (ROOT / "evidence").glob("*/cells/**/result.json"):
        found = json.loads(path.read_text(encoding="utf-8"))["validation"]
        if "val/balanced_acc" in found and "val/acc5" in found:
            away = [abs(found["val/balanced_acc"] - found[name]) for name in ("val/acc1", "val/acc5")]
            assert away[0] <= away[1], path


def test_the_pages_are_written_from_what_is_kept(pages, evidence, kept):
    again = 'run "make results"'
    assert pages.BOARD.read_text(encoding="utf-8") == pages.leaderboard(kept, evidence.rows), again
    claims = pages.claims_page(kept, evidence.rows, evidence.claims, pages.NOTE)
    assert pages.CLAIMS.read_text(encoding="utf-8") == claims, again
    results = pages.results_page(kept, evidence.rows, evidence.sections, pages.NOTE)
    assert pages.RESULTS.read_text(encoding="utf-8") == results, again
    readme = pages.README.read_text(encoding="utf-8")
    assert readme == pages.short_board(readme, kept) and "|`make results ROW=clothing`|" in readme, again


def test_the_board_says_which_images_and_weights_an_accuracy_is_about(pages):
    board = pages.BOARD.read_text(encoding="utf-8").partition("## Hardware")[0]
    assert board.count("|photographs of clothing, 1,000 of 3,068 training images; from published weights|") == 2
    assert board.count("\n|CIFAR-10|") == 4  # all images, from random weights


def test_the_figures_show_what_is_kept(pages, evidence, kept):
    from figures import FIGURES, content, numbers, numbers_of_lines, stated

    claims = evidence.claims
    answers = {claim.name: pages.answers_of(kept, claim) for claim in claims}
    lines = {claim.name: pages.lines_of(evidence.rows, claim) for claim in claims}
    shown = {name: numbers(found) for name, found in answers.items() if found is not None}
    shown |= {name: numbers_of_lines(found) for name, found in lines.items() if found is not None}
    assert {path.stem for path in FIGURES.glob("*.png")} == shown.keys()
    for claim in claims:
        if claim.name in shown:
            found, name = stated(FIGURES / f"{claim.name}.png"), claim.name
            assert found == content(claim, shown[name]), f'{name}: run "make results"'


def test_learning_curves_show_what_is_kept(evidence, kept):
    from figures import stated
    from sizes import CURVES, curve_numbers, curve_path

    named = [name for section in evidence.sections for name in section.rows]
    shown = [kept[name] for name in named if name in kept and kept[name].has_sizes]
    assert {curve_path(one) for one in shown} == set(CURVES.glob("*.png")) and shown
    for one in shown:
        assert stated(curve_path(one)) == curve_numbers(one), f'{one.row.name}: run "make results"'


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_was_made_by_the_row_s_command(store, evidence, name):
    row = evidence.rows[name]
    expected = store.expected_cells(row)
    study = store.StudyDirectory(row.folder)
    protocol, cells = study.read()
    listed = {cell.folder for cell in cells}
    by_first_seed = "with seed 0; then fixed" in str(protocol["tuning"])  # before each seed tuned for itself
    assert listed <= expected and (listed == expected or by_first_seed)
    results = {path.parent.relative_to(row.folder).as_posix() for path in row.folder.glob("cells/*/*/*/result.json")}
    assert results and results <= expected
    noted = {cell for cells in store.Kept.of(row).machines.values() for cell in cells}
    assert noted and noted <= results  # a training may add results at this moment


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_names_the_pages_that_show_it(path):
    for page in re.findall(r"docs/\w+\.md", path.read_text(encoding="utf-8")):
        assert re.search(rf"ROW={path.stem}\b", (ROOT / page).read_text(encoding="utf-8")), page


def test_rows_of_the_cutmix_of_before_say_so(evidence):
    """Boxes lay wholly inside the image when these rows were trained. A row that is trained again loses the words."""
    mixed = {
        name
        for name in KEPT
        for choices in series_of(read_words(["--config", evidence.rows[name].config, "--wandb=off"])).values()
        for recipe in choices.values()
        if (recipe.augment.name == "strong" if recipe.augment.cutmix is None else recipe.augment.cutmix)
    } - {"fashion_mnist_kinds"}  # trained since, with the paper's boxes
    words = "Cutmix kept its boxes wholly inside the image in these runs."
    assert mixed <= {name for section in evidence.sections if words in section.text for name in section.rows}
    assert mixed == {"cifar10_gpu", "fashion_mnist_trials"}
    headers = [(ROOT / "configs" / f"{name}.yaml").read_text(encoding="utf-8") for name in ("cifar10", "cifar10_cnn")]
    for text in (evidence.rows["cifar10_gpu"].title, *headers):  # the leaderboard shows the title
        assert "cutmix boxes wholly inside the image" in text


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_is_small_and_names_no_place(name):
    files = list((ROOT / "evidence" / name).glob("cells/*/*/*/result.json"))
    files += [*(ROOT / "evidence" / name).glob("*.json"), *(ROOT / "evidence" / name).glob("measured/*.json")]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'"/(home|root|tmp|mnt|Users)/', text), f"{path} names a folder of a machine"


@pytest.mark.parametrize("name", KEPT)
def test_unchanged_images_are_answered_as_in_the_study(kept, name):
    """Other batches round in another way, so that single images may differ."""
    measured = kept[name].measured("conditions")
    if measured is None:
        pytest.skip("not measured on changed images")
    own = kept[name].answers.correct[""]
    for series, seeds in measured.correct["unchanged"].items():
        for seed, correct in seeds.items():
            assert (correct != own[series][seed]).mean() <= 0.01, (series, seed)


def test_a_recipe_that_has_changed_is_noticed(store, evidence, tmp_path, monkeypatch):
    row = evidence.rows["digits_demo"]
    tree = tmp_path / "evidence" / "make" / "studies"
    tree.mkdir(parents=True)
    content = yaml.safe_load((ROOT / "evidence" / "make" / "studies" / "digits_demo.yaml").read_text(encoding="utf-8"))
    content["set"]["optim.weight_decay"] = 0.2
    (tree / "digits_demo.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    before = store.expected_cells(row)
    monkeypatch.setattr(store, "ROOT", tmp_path)
    assert not before & store.expected_cells(row)


def test_the_cells_of_a_row_that_starts_from_weights_follow_their_hashes(rows, store, evidence, tmp_path, monkeypatch):
    """The weights themselves need not be on this machine."""
    content = json.loads((ROOT / "evidence" / "digits_demo" / "study.json").read_text(encoding="utf-8"))
    row = evidence.rows["digits_pretrained"]
    monkeypatch.setattr(rows, "EVIDENCE", tmp_path)
    row.folder.mkdir()

    def cells(last):
        files = [
            f"{rows.MADE / row.name}/{method}_seed{seed}.safetensors" for method in ("mae", "diet") for seed in range(5)
        ]
        content["protocol"]["weights"] = {**dict.fromkeys(files, "1"), files[-1]: last}
        (row.folder / "study.json").write_text(json.dumps(content), encoding="utf-8")
        return store.expected_cells(row)

    assert len(cells("1")) == 60
    other = cells("2") - cells("1")
    assert len(other) == 3 and all("ViT-DIET" in folder and "seed4" in folder for folder in other)  # of each size


def test_a_teacher_without_weights_trains_again_and_is_noted_with_its_new_machine(
    rows, evidence, tmp_path, monkeypatch
):
    import make

    monkeypatch.setattr(rows, "EVIDENCE", tmp_path)
    monkeypatch.setattr(make, "machine", lambda: "a laptop")
    row = replace(evidence.rows["digits_demo"], teachers="CNN")
    kept_folder = ROOT / "evidence" / row.name
    shutil.copytree(kept_folder, row.folder, ignore=shutil.ignore_patterns("*.ckpt"))
    make.forget_teachers(row)

    def noted():
        return json.loads((row.folder / "machines.json").read_text(encoding="utf-8"))

    left = {path.parent.relative_to(row.folder).as_posix() for path in row.folder.glob("cells/*/*/*/result.json")}
    assert left == {cell for cells in noted().values() for cell in cells}
    assert len(left) == 5 and all("/ViT/" in cell for cell in left)
    again = next(kept_folder.glob("cells/CNN/*/seed0-*/result.json")).relative_to(kept_folder)
    shutil.copy(kept_folder / again, row.folder / again)
    assert make.keep(row)
    (trained_by,) = (name for name, cells in noted().items() if again.parent.as_posix() in cells)
    assert trained_by == "a laptop"


def test_a_cell_that_a_gpu_elsewhere_trained_is_noted_with_that_gpu(rows, evidence, tmp_path, monkeypatch):
    import make

    monkeypatch.setattr(rows, "EVIDENCE", tmp_path)
    monkeypatch.setattr(make, "machine", lambda: "a laptop")
    row = evidence.rows["cifar10_gpu"]
    shutil.copytree(ROOT / "evidence" / row.name, row.folder, ignore=shutil.ignore_patterns("machines.json", "*.ckpt"))
    assert make.keep(row)
    noted = json.loads((row.folder / "machines.json").read_text(encoding="utf-8"))
    assert set(noted) == {"NVIDIA H200"} and len(noted["NVIDIA H200"]) == 2


def test_teachers_are_trained_before_and_in_the_same_folder(evidence):
    teachers, study = evidence.rows["fashion_mnist_help"].command.split("`, then `")[1:]
    assert teachers == f"{study} --networks fashion_mnist_cnn" and "--out evidence" in study


@pytest.mark.parametrize(("weights", "commands"), [("here", ["all"]), ("gone", ["CNN", "all"])])
def test_a_row_with_teachers_goes_on_whether_or_not_their_weights_are_here(
    weights, commands, rows, evidence, tmp_path, monkeypatch
):
    """`vit study` refuses to leave out finished cells, and a command of the teachers alone names no others."""
    import make

    monkeypatch.setattr(rows, "EVIDENCE", tmp_path)
    row = replace(evidence.rows["digits_demo"], teachers="CNN")
    shutil.copytree(ROOT / "evidence" / row.name, row.folder, ignore=shutil.ignore_patterns("*.ckpt", "checkpoints"))
    study = StudyDirectory(row.folder)
    _, listed = study.read()
    next(row.folder.glob("cells/ViT/*/*/result.json")).unlink()  # a cell that is missing
    for cell in listed:
        if weights == "here" and cell.series == "CNN":
            study.run(cell).best_path.parent.mkdir()
            study.run(cell).best_path.touch()
    ran = []

    def run_study(row, words):
        assert words[0] == "study" and read_words(words[1:]).yes
        named = words[words.index("--networks") + 1] if "--networks" in words else "all"
        cells = [cell for cell in listed if named in ("all", cell.series)]
        study.check_extends(cells)  # as the command does
        study.description_path.write_text(json.dumps({"protocol": {}, "cells": [cell.to_json() for cell in cells]}))
        ran.append(named)

    monkeypatch.setattr(make, "run_study", run_study)
    make.train(row, jobs=1)
    assert ran == commands


def test_a_changed_result_changes_the_page(pages, store, evidence, kept, tmp_path, copied):
    row = copied("digits_demo")
    path = next((tmp_path / row.name).glob("cells/*/*/seed0-*/result.json"))
    content = json.loads(path.read_text(encoding="utf-8"))
    content["metrics"]["acc1"]["value"] = 0.5
    content["correct"]["test"] = "A" * len(content["correct"]["test"])
    path.write_text(json.dumps(content), encoding="utf-8")
    board = {name: one for name, one in kept.items() if name != row.name} | {row.name: store.Kept.of(row)}
    named = evidence.rows
    assert pages.leaderboard(board, named) != pages.leaderboard(kept, named)


def test_the_board_names_the_machines_of_the_networks_that_it_shows(pages, evidence, store, tmp_path, copied):
    """A machine that trained other networks or sizes of the row is named with the hours of the row alone."""
    row = copied("digits_demo")
    path = tmp_path / row.name / "machines.json"
    cells = [cell for trained in json.loads(path.read_text(encoding="utf-8")).values() for cell in trained]
    machines = {"a laptop": [cell for cell in cells if "/ViT/" in cell], "a server": [c for c in cells if "/CNN/" in c]}
    path.write_text(json.dumps(machines), encoding="utf-8")
    lines = pages.leaderboard({row.name: store.Kept.of(row)}, evidence.rows).splitlines()
    vit, cnn = (next(line for line in lines[::-1] if f"|{name} (" in line) for name in ("ViT", "CNN"))
    assert "|a laptop (each run: cpu, 1 thread)" in vit and "|a server (each run: cpu, 1 thread)" in cnn
    assert any(line.endswith("|a laptop; a server|") for line in lines)


def test_a_network_that_two_machines_trained_has_the_device_and_the_minutes_of_each(
    pages, evidence, store, tmp_path, copied
):
    """Minutes of a GPU and of a CPU had one mean, and the GPU stood beside networks that it never trained."""
    row = copied("digits_demo")
    path = tmp_path / row.name / "machines.json"
    ((machine, cells),) = json.loads(path.read_text(encoding="utf-8")).items()
    on_gpu = [cell for cell in cells if "/ViT/" in cell and "/seed4-" in cell]
    path.write_text(json.dumps({machine: [cell for cell in cells if cell not in on_gpu], "a GPU": on_gpu}))
    for number, cell in enumerate(cells):
        result = tmp_path / row.name / cell / "result.json"
        content = json.loads(result.read_text(encoding="utf-8"))
        content |= {"device": "a GPU", "seconds": 12.0} if cell in on_gpu else {"seconds": 60.0 + number % 2}
        result.write_text(json.dumps(content), encoding="utf-8")
    lines = pages.leaderboard({row.name: store.Kept.of(row)}, evidence.rows).splitlines()
    vit, cnn = (next(line for line in lines[::-1] if f"|{name} (" in line) for name in ("ViT", "CNN"))
    assert f"|1.0 ({machine}); 0.2 (a GPU)|{machine} (each run: cpu, 1 thread); a GPU|" in vit
    assert f"|1.0|{machine} (each run: cpu, 1 thread)|" in cnn


def test_the_board_shows_a_network_once_all_its_runs_have_ended(pages, evidence, store, tmp_path, copied):
    """A network that was added to a row must not take the finished ones away, nor be shown by its first seeds."""
    row = copied("digits_demo")
    next((tmp_path / row.name).glob("cells/CNN/*/*/result.json")).unlink()
    found = {row.name: store.Kept.of(row)}
    board = pages.leaderboard(found, evidence.rows)
    assert board.count("`make results ROW=digits_demo`|") == 2  # the ViT and the support vector machine
    assert "|Digits (8x8 scans)|ViT (" in board and "|Digits (8x8 scans)|CNN (" not in board
    assert "9 of 10 runs" in board and "**CNN**" not in board
    shutil.rmtree(tmp_path / row.name / "cells" / "ViT")
    board = pages.leaderboard({row.name: store.Kept.of(row)}, evidence.rows)
    assert "\n|Digits (8x8 scans)|" not in board


def test_a_network_whose_largest_runs_all_failed_has_a_line(store, tmp_path, copied):
    from blocks import network_lines

    row = copied("fashion_mnist_views")
    for path in (tmp_path / row.name).glob("cells/CNN/0030000/*/result.json"):
        path.with_name("failure.txt").write_text("diverged", encoding="utf-8")
        path.unlink()
    left = store.Kept.of(row)
    lines = list(network_lines(left))
    assert [line[0].partition(" ")[0] for line in lines] == ["ViT", "CNN"] and lines[1][2] == "no finished run"


def test_tuned_rows_say_by_which_number_the_values_were_chosen(pages):
    """In every tuned row, the accuracy of the chosen value is the highest one, or the loss has chosen."""
    text = pages.RESULTS.read_text(encoding="utf-8")
    parts = re.split(r"Chosen by the (.*); validation accuracies stand in parentheses:", text)[1:]
    assert len(parts) == 2 * sum("tune" in yaml.safe_load(path.read_text()) for path in STUDIES if path.stem in KEPT)
    for rule, block in zip(parts[::2], parts[1::2], strict=True):
        for choice, tried in re.findall(r"^- .*?: (\S+) of (.*)$", block.partition("\n\n##")[0], re.MULTILINE):
            shown = {name: float(value) for name, value in re.findall(r"(\S+) \(([\d.]+) %\)", tried)}
            assert rule == "lowest val/loss" or shown[choice] == max(shown.values()), (rule, choice)


def test_claims_say_superlatives_only_of_what_they_test(evidence):
    """A verdict on lines compares their first places with their last ones, and no other places."""
    for claim in evidence.claims:
        if claim.lines and claim.kinds:
            assert not re.search(r"\b(largest|smallest|highest|lowest|most|least)\b", claim.said), claim.name


def test_a_series_without_seeds_stands_beside_every_seed(store):
    correct = np.array([True, False, True, True])
    networks = {0: correct, 1: ~correct}
    answers = store.Answers(4, {"": {"ViT": networks, "SVC": {0: correct}}}, seedless=frozenset({"SVC"}))
    pair = answers.pair("", "ViT", "SVC")
    assert pair.seeds == [0, 1] and pair.gaps().mean() == pytest.approx(0.25)
    reverse = answers.pair("", "SVC", "ViT")
    assert reverse.gaps().mean() == pytest.approx(-0.25)


def test_a_network_with_one_finished_seed_is_compared_on_this_seed_alone(store):
    from sentences import compared

    generator = np.random.default_rng(0)
    cnn = {seed: generator.random(500) < 0.9 for seed in range(3)}
    answers = store.Answers(500, {"": {"ViT": {0: generator.random(500) < 0.7}, "CNN": cnn}})
    assert answers.pair("", "ViT", "CNN").seeds == [0] == answers.pair("", "CNN", "ViT").seeds
    (found,) = compared(answers, [("ViT", "CNN")])
    assert not found.found.is_tested and not found.is_apart and "one seed" in found.sentence({})
    late = store.Answers(500, {"": {"ViT": {2: cnn[0]}, "CNN": {0: cnn[0], 1: cnn[1]}}})
    assert not late.has_pair("", "ViT", "CNN") and not compared(late, [("ViT", "CNN")])


def test_an_option_is_taken_out_of_a_series_name():
    from figures import without

    assert without("embed_dim=16, scaled=True", "embed_dim") == ("scaled=True", 16)
    assert without("scaled=True, embed_dim=16", "embed_dim") == ("scaled=True", 16)
    assert without("pre-norm (depth=24)", "depth") == ("pre-norm", 24)
    assert without("num_heads=8", "num_heads") == ("", 8)


def test_a_result_is_made_small(store, tmp_path):
    from vit.checkpoints.result import RunResult

    path = next((ROOT / "evidence" / "digits_demo").glob("cells/*/*/*/result.json"))
    result = RunResult.read(path)
    whole = replace(result, answers={"sets": [1, 2, 3]})
    whole.write(tmp_path / "result.json")
    store.compact(tmp_path / "result.json")
    assert RunResult.read(tmp_path / "result.json") == replace(result, answers={})
    assert len((tmp_path / "result.json").read_text().splitlines()) == 1


def test_cells_of_tried_values_count_as_runs_and_only_chosen_ones_as_answers(rows, store, kept, tmp_path, monkeypatch):
    whole, folder = kept["cifar10_grid"], tmp_path / "cifar10_grid"
    assert whole.is_finished and whole.num_done == whole.num_listed == 12 and len(whole.cells) == 3
    assert whole.seconds > sum(cell.seconds for cell in whole.cells)
    monkeypatch.setattr(rows, "EVIDENCE", tmp_path)
    shutil.copytree(ROOT / "evidence" / "cifar10_grid", folder)
    next(folder.glob("cells/ViT/*/*/result.json")).unlink()  # nothing is chosen for this network yet
    part = store.Kept.of(whole.row)
    assert [cell.series for cell in part.cells] == ["ViT_C", "CNN"]
    assert part.num_done == 11 and not part.is_finished


@pytest.mark.parametrize(
    ("study", "grid"), [("cifar10_sizes", "cifar10_grid"), ("fashion_mnist_sizes", "fashion_mnist_grid")]
)
def test_a_study_of_sizes_uses_the_learning_rates_that_its_grid_chose(kept, study, grid):
    if grid not in kept or not kept[grid].is_finished:
        pytest.skip("the grid is not finished")

    def words(lr):
        return f"lr={float(lr):g}"

    given = read_words(["--config", str(ROOT / "evidence" / "make" / "studies" / f"{study}.yaml")])
    used = {name: words(choices[""].optim.lr) for name, choices in series_of(given).items()}
    chosen = {name.partition(",")[0]: choice for name, choice in kept[grid].protocol["chosen"].items()}
    assert {name: words(choice.removeprefix("lr=")) for name, choice in chosen.items()} == used


def test_published_accuracies_stand_beside_those_of_the_nearest_size(rows, kept):
    """Sizes that differ by more than a tenth have no accuracy of ours."""
    from sizes import size_lines

    one = kept["fashion_mnist_views"]
    published = rows.Published("By somebody else.", ("ViT", "CNN"), (315, 5000), ((60.0, 70.0), (80.0, 85.0)))
    lines = list(size_lines(replace(one, row=replace(one.row, published=(published,)))))
    ours = {
        series: 100 - 100 * one.answers_by_size.wrong("", f"{series} (images=300)").mean() for series in ("ViT", "CNN")
    }
    gap = ours["CNN"] - ours["ViT"]
    ratio = (100 - ours["ViT"]) / (100 - ours["CNN"])
    near = f"{ours['ViT']:.2f}|{ours['CNN']:.2f}|{gap:.2f}|{ratio:.2f}"
    assert lines[-2:] == [f"|315 (ours 300)|60.00|80.00|20.00|2.00|{near}|", "|5,000|70.00|85.00|15.00|2.00|||||"]
    assert "By somebody else." in lines


def test_a_row_of_sizes_has_the_answer_of_its_study(kept):
    from blocks import network_lines
    from sizes import size_lines

    one = kept["fashion_mnist_views"]
    lines = list(size_lines(one))
    assert lines[0].startswith("**Use CNN: 4.3 points fewer errors than ViT with 30,000 images")
    sizes = [line for line in lines if line.startswith(("|300|", "|3,000|", "|30,000|"))]
    errors = [series.points[-1].mean for series in one.findings.series]
    ends = [f"({100 - 100 * error.high:.2f} to {100 - 100 * error.low:.2f})" for error in errors]
    assert len(sizes) == 3 and re.findall(r"% (\(.*?\))", sizes[2]) == ends  # the intervals of the study's own report
    assert sizes[2].endswith("**; < 0.001|")  # the difference
    assert [re.search(r"\(.*\)", line[2])[0] for line in network_lines(one)] == ends


def test_a_size_with_missing_seeds_says_so(kept):
    from sizes import size_lines

    one = kept["fashion_mnist_views"]
    few = replace(
        one, cells=[cell for cell in one.cells if (cell.num_images, cell.series) != (300, "ViT") or cell.seed < 2]
    )
    (line,) = [line for line in size_lines(few) if line.startswith("|300|")]
    assert line.count("2 of 5 seeds") == 1


def test_make_results_measures_what_is_kept(evidence):
    """Changed images of CIFAR-10 were measured by hand, so that the command of the row would not make them again."""
    named = {name: [words.split() for words in row.measures] for name, row in evidence.rows.items()}
    files = [*(ROOT / "evidence").glob("*/measured/*.json")]
    assert files
    for file in files:
        command = json.loads(file.read_text(encoding="utf-8")).get("command")
        if command:  # not a list of measured cells
            name = file.parents[1].name
            script, *words = command.removeprefix("python evidence/make/").split()
            words.remove(name)
            assert [script, *words] in named[name], file


def test_only_finished_trainings_are_measured():
    """A training that runs has a best.ckpt, too, which is not yet its last one."""
    files = list((ROOT / "evidence").glob("*/measured/reach_cells.json"))
    assert files
    for file in files:
        cells = json.loads(file.read_text(encoding="utf-8"))
        assert all((file.parents[1] / cell / "result.json").is_file() for cell in cells), file
