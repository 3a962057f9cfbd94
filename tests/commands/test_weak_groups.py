"""`vit evaluate` finds the weak groups of its images, in columns of a table too."""

import json

from vit.csv_files import new_table, records


def test_a_column_of_the_table_is_a_group(vit, digits_run, draw_classes, here):
    draw_classes(here / "photos", ("a", "b", "c"), 40)
    assert vit("predict", digits_run.path, "photos", "--recursive", "--output", "rows.csv").code == 0
    with new_table(here / "photos.csv", ("photo", "kind", "site")) as table:
        for number, row in enumerate(records(here / "rows.csv")):
            is_weak = number % 3 == 0
            label = str((int(row["label"]) + 1) % 10) if is_weak and number % 2 else row["label"]
            table.row((row["path"], label, "forest" if is_weak else "river"))
    columns = ("--image_column", "photo", "--label_column", "kind")
    answer = vit("evaluate", digits_run.path, "photos.csv", *columns, "--output", "measured").ok()
    assert "weak groups: 1 group has more errors than the other images, beyond chance" in answer.out
    assert "site: forest: 50.0 % of 40 images are wrong, of the others 0.0 %" in answer.out
    found = json.loads((here / "measured" / "metrics.json").read_text())["weak_groups"]
    assert found["num_tested"] > 4 and found["groups"][0]["name"] == "site: forest"
    html = (here / "measured" / "report.html").read_text()
    assert html.count("<details><summary>site: forest") == 1


def test_few_images_are_not_divided(vit, digits_run, draw_classes, here):
    draw_classes(here / "photos", ("1", "2"), 20)
    answer = vit("evaluate", digits_run.path, "photos", "--output", "measured").ok()
    page = (here / "measured" / "report.html").read_text()
    assert "weak groups" not in answer.out and "Weak groups" not in page
    assert "<p>Warning: not shown to be better than guessing: " in page, "beside the accuracy, not in the summary alone"
    assert json.loads((here / "measured" / "metrics.json").read_text())["weak_groups"] is None
