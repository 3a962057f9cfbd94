"""Pictures of any names, numbers and sizes."""

import numpy as np
import pytest
import torch
from matplotlib.cbook import STEP_LOOKUP_MAP
from matplotlib.text import Text
from PIL import Image
from sklearn.metrics import average_precision_score

from vit.inference.metrics.multilabel_metrics import LabelMetrics
from vit.inference.scores.intervals import Metric
from vit.inference.scores.scored_images import ScoredImages, ScoredLabels
from vit.report.check_page import class_counts
from vit.report.page.figures import confusion_matrix, curves, reliability
from vit.report.page.image_figures import displayable, image_grid
from vit.report.page.style import rendered, save
from vit.report.run.multi_label_report import precision_recall
from vit.report.tables.class_sizes import ClassSize, metric_by_size

HOSTILE = ("$x", "$\\frac", "a_b^c{", "日本", "new\nline", "é\udce9", "x" * 300, "\\", "%s", "")


def drawn(figure, tmp_path):
    save(figure, tmp_path / "figures" / "a.png")
    with Image.open(tmp_path / "figures" / "a.png") as picture:
        picture.load()
        assert picture.format == "PNG" and min(picture.size) > 100 and max(picture.size) < 8000
        return picture.size


def test_hostile_class_names_are_drawn(tmp_path):
    drawn(confusion_matrix(np.eye(len(HOSTILE), dtype=np.int64), HOSTILE), tmp_path)
    images = [torch.zeros(3, 8, 8, dtype=torch.uint8)] * len(HOSTILE)
    drawn(image_grid(images, HOSTILE, "title"), tmp_path)


@pytest.mark.parametrize("num_classes", [2, pytest.param(30, marks=pytest.mark.slow), 31, 200])
def test_any_number_of_classes(tmp_path, num_classes):
    counts = np.random.default_rng(0).integers(0, 2, (num_classes, num_classes))
    drawn(confusion_matrix(counts, [str(i) for i in range(num_classes)]), tmp_path)


def test_a_class_without_images(tmp_path):
    drawn(confusion_matrix(np.zeros((3, 3), dtype=np.int64), ("a", "b", "c")), tmp_path)


@pytest.mark.parametrize(
    ("sizes", "scale", "shown"), [((122, 125, 128), "linear", {"122", "128"}), ((9, 90, 900), "log", {"9", "900"})]
)
def test_numbers_of_training_images_are_plain(sizes, scale, shown):
    figure = metric_by_size([ClassSize(f"{size}", size, Metric(0.9, 0.8, 1.0)) for size in sizes], "recall", "images")
    (axes,) = figure.axes
    rendered(figure, "svg")
    assert axes.get_xscale() == scale
    assert {one.get_text() for one in axes.get_xticklabels()} >= shown


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sizes", [(14,) * 10, (13, 14, 14, 15, 15, 15, 16, 16, 17, 200)])
def test_names_of_classes_lie_apart_and_in_the_figure(sizes, rate):
    classes = [ClassSize(f"class {n}", size, Metric(rate, rate, rate)) for n, size in enumerate(sizes)]
    figure = metric_by_size(classes, "recall", "images")
    rendered(figure, "png")
    (axes,) = figure.axes
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # of an annotation: without its line
    assert len(boxes) == len(sizes)
    assert not [(a, b) for n, a in enumerate(boxes) for b in boxes[:n] if a.overlaps(b)]
    assert all(axes.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 for box in boxes)


@pytest.mark.parametrize("sizes", [(14, 14), (14, 15)])
def test_numbers_of_training_images_are_whole(sizes):
    figure = metric_by_size(
        [ClassSize(f"{n}", size, Metric(0.9, 0.8, 1.0)) for n, size in enumerate(sizes)], "recall", "images"
    )
    rendered(figure, "svg")
    (axes,) = figure.axes
    shown = [one.get_text() for one in axes.get_xticklabels()]
    assert {str(size) for size in sizes} <= set(shown) and all(one.isdecimal() for one in shown)


def test_epochs_are_whole_and_no_accuracy_is_above_100(tmp_path):
    rows = [f"{epoch},{3 * epoch},1.0,1.0,{accuracy},9" for epoch, accuracy in enumerate((0.2, 0.9, 1.0))]
    header = "epoch,step,train/loss,val/loss,val/acc1,train/images_per_second"
    (tmp_path / "metrics.csv").write_text("\n".join([header, *rows]) + "\n")
    for axes in curves(tmp_path / "metrics.csv", best_epoch=2, validation_name="epoch", loss_axis="loss").axes:
        assert all(float(place).is_integer() for place in axes.get_xticks())
    assert axes.get_ylim()[1] <= 101


@pytest.mark.parametrize("sure", [[1.0, 1.0], [0.5, 0.5], [0.6, 0.9]])
def test_reliability_of_any_confidence(tmp_path, sure):
    correct, confidences = np.array([True, False]), np.array(sure, dtype=np.float32)
    figure = reliability(correct, confidences, confidences)
    assert len(figure.axes) == 2
    drawn(figure, tmp_path)


def test_reliability_with_and_without_temperature(tmp_path):
    correct = np.arange(100) % 10 > 0
    figure = reliability(correct, np.full(100, 0.9, dtype=np.float32), np.full(100, 0.6, dtype=np.float32))
    before, after = figure.axes[:2]
    assert [axes.get_title().partition(" ")[0] for axes in (before, after)] == ["Without", "With"]
    bars = [
        [(round(bar.get_x() + bar.get_width() / 2, 2), bar.get_height()) for bar in axes.patches]
        for axes in (before, after)
    ]
    assert bars == [[(0.63, 0.9)], [(0.9, 0.9)]]
    drawn(figure, tmp_path)


def test_curves_of_one_epoch_and_of_numbers_that_are_none(tmp_path):
    header = "epoch,step,lr,train/loss,train/images_per_second,val/loss,val/acc1,val/acc5,val/ece,seconds\n"
    for rows in ("0,9,0.1,2.0,100,1.9,0.5,,0.1,1.0\n", "0,9,0.1,2.0,100,nan,0.1,,nan,1.0\n", ""):
        (tmp_path / "metrics.csv").write_text(header + rows)
        figure = curves(tmp_path / "metrics.csv", 0, "epoch", "loss")
        drawn(figure, tmp_path)
        for axes in figure.axes * bool(rows):  # the losses were an empty picture, between epochs 0.945 and 1.05
            assert {line.get_marker() for line in axes.lines} >= {"o"} and {0.0, 1.0, 2.0} >= {*axes.get_xticks()}


@pytest.mark.parametrize("count", [1, 8, 9])
def test_grids_have_a_place_for_every_picture(tmp_path, count):
    pictures = [torch.full((3, 5, 4), 90, dtype=torch.uint8)] * count
    figure = image_grid(pictures, [str(i) for i in range(count)], "title")
    assert sum(len(axes.images) for axes in figure.axes) == sum(len(axes.texts) for axes in figure.axes) == count
    drawn(figure, tmp_path)


def test_normalized_images_come_back():
    images = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    normal = (images / 255 - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    assert torch.equal(displayable(normal, mean, std), images)
    assert displayable(normal * 100, mean, std).dtype == torch.uint8  # out of range is cut off, not wrapped round


def test_names_in_scored_rows_keep_their_bytes(tmp_path):
    scored = ScoredImages(("caf\udce9\n.png", "=1+1"), np.array([0, 1]), np.eye(2, dtype=np.float32))
    scored.write(tmp_path / "new" / "rows.csv", ("a", "b"))
    content = (tmp_path / "new" / "rows.csv").read_bytes()
    assert b'"caf\xe9\n.png",a,a,1.000000,' in content


@pytest.mark.parametrize("labels", [[1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1]])
def test_the_area_under_a_precision_recall_curve_is_the_average_precision(labels):
    present = np.array(labels, np.int8)[:, None]
    probabilities = np.array([[0.9], [0.8], [0.7], [0.3], [0.2]], np.float32)
    ap = average_precision_score(present[:, 0], probabilities[:, 0])
    row = LabelMetrics("owl", 5, sum(labels), Metric(ap, ap, ap), 0.5, 0.5, 0.5, 0.5, None, None)
    line = precision_recall(ScoredLabels(tuple("abcde"), present, probabilities), [row]).axes[0].lines[0]
    recall, precision = STEP_LOOKUP_MAP[line.get_drawstyle()](*line.get_data())
    assert abs(np.trapezoid(precision, recall)) / 100**2 == pytest.approx(ap, abs=1e-6)
    assert line.get_marker() == "o" and line.get_markevery() == [2]  # the legend has the marker; three are above 0.5


def test_a_panel_of_several_labels_counts_images():
    counts = {"train": np.array([60, 50, 40])}
    assert class_counts(counts, "abc", {"train": 81}).axes[0].get_title(loc="left") == "train: 81"
