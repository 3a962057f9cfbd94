"""Pictures of a study: any names, sizes and number of seeds; what is forecast looks other than what is measured."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

from vit.report.page.style import plain, rendered
from vit.report.studies.study_figures import gaps, learning_curves
from vit.study.findings import Interval

HOSTILE = (
    "$x", "$\\frac{", "a_b^c{", "_hidden", "new\nline\x00\x1b[31m", "é\udce9", "x" * 300, "-->]]><!--", "<b>&amp;",
)  # fmt: skip
FIGURES = (learning_curves, gaps)


def legends(figure):
    return figure.legends  # beside the axes, where they hide nothing


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("draw", FIGURES)
@pytest.mark.parametrize("names", [HOSTILE[place : place + 3] for place in (0, 3, 6)])
def test_hostile_names_are_drawn(study, draw, names):
    findings = study(names=names, data=" ".join(names))
    findings = replace(findings, protocol={**findings.protocol, "budget": f"{' '.join(names)} and more"})
    figure = draw(findings)
    assert rendered(figure, "png").startswith(b"\x89PNG")
    assert ElementTree.fromstring(rendered(draw(findings), "svg")).tag.endswith("svg")
    texts = [text.get_text().strip() for axes in figure.axes for text in axes.texts]
    texts += [text.get_text().strip() for legend in legends(figure) for text in legend.texts]
    assert all(any(plain(name, 40) in text for text in texts) for name in names)


@pytest.mark.parametrize("draw", FIGURES)
@pytest.mark.parametrize(
    "options",
    [
        {"fitted": False},
        {"seeds": 1},
        {"seeds": 2},
        {"sizes": (500,)},
        {"sizes": (500, 520)},
        {"sizes": (10, 20, 30, 40, 50, 60, 80, 100, 1_000_000)},
        {"names": ("a", "b", "c", "d")},
    ],
    ids=str,
)
def test_studies_of_any_shape_are_drawn(study, draw, options):
    assert rendered(draw(study(**options)), "svg")


def test_the_same_picture_is_the_same_file(study):
    assert rendered(learning_curves(study()), "svg") == rendered(learning_curves(study()), "svg")


def test_axes_are_logarithmic_with_plain_numbers(study):
    figure = learning_curves(study())
    (axes,) = figure.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert labels(axes.xaxis) == ["100", "300", "1,000", "3,000", "10,000", "40,000"]
    assert {"2", "5", "10", "20"} <= set(labels(axes.yaxis))
    assert "2,000 optimizer steps" in axes.get_title(loc="left")


def test_a_narrow_range_has_labels_too(study):
    findings = study(sizes=(1000,), names=("a", "b"))
    (axes,) = learning_curves(findings).axes
    assert len(labels(axes.yaxis)) >= 2 and all(float(label) > 0 for label in labels(axes.yaxis))


def test_every_seed_is_a_point_and_every_mean_has_its_interval(study):
    findings = study(fitted=False)
    (axes,) = learning_curves(findings).axes
    dots = [line for line in axes.lines if line.get_marker() == "."]
    drawn = sorted(float(y) for line in dots for y in line.get_ydata())
    known = sorted(100 * error for series in findings.series for point in series.points for error in point.errors)
    assert drawn == pytest.approx(known)
    bars = [bar for container in axes.containers for bar in container[2][0].get_segments()]
    ends = sorted((bar[0][1], bar[1][1]) for bar in bars)
    means = [point.mean for series in findings.series for point in series.points]
    np.testing.assert_allclose(ends, sorted((100 * mean.low, 100 * mean.high) for mean in means))


def test_what_is_estimated_is_dashed_and_ends_at_four_times_the_largest_size(study):
    figure = learning_curves(study())
    (axes,) = figure.axes
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    solid = [line for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 5]
    assert len(dashed) == 2 <= len(solid)
    for line in dashed:
        assert min(line.get_xdata()) == 10000 and max(line.get_xdata()) == pytest.approx(40000)
    for line in solid:
        assert max(line.get_xdata()) < 10_500
    assert any("forecast" in text.get_text() for text in legends(figure)[0].texts)


def test_without_a_forecast_nothing_is_estimated(study):
    figure = learning_curves(study(fitted=False))
    (axes,) = figure.axes
    assert not [line for line in axes.lines if line.get_linestyle() == "--"] and not axes.collections[2:]
    assert max(x for line in axes.lines for x in np.atleast_1d(line.get_xdata())) < 11000
    assert not any("forecast" in text.get_text() for text in legends(figure)[0].texts)


@pytest.mark.parametrize("count", [1, 4])
def test_the_legend_hides_no_mark_and_the_title_is_whole(study, count):
    found = study(names=("a", "b_with_a_long_name", "c_with_a_long_name_too", "d")[:count])
    words = "about 180 optimizer steps at 116 images, growing with images^0.12, 70.1 % of the usual length"
    figure = learning_curves(replace(found, protocol={**found.protocol, "budget_words": words}))
    figure.get_layout_engine().execute(figure)
    (axes,), (legend,) = figure.axes, legends(figure)
    assert not legend.get_window_extent().overlaps(axes.get_tightbbox())
    assert legend.get_window_extent().x0 >= 0 and legend.get_window_extent().x1 <= figure.bbox.x1
    assert axes.get_tightbbox().x1 <= figure.bbox.x1, "a line of the title is cut"


def test_an_error_of_nothing_is_drawn_at_half_an_image(study):
    findings = study(fitted=False)
    first = findings.series[0]
    perfect = replace(first.points[-1], errors=[0.0] * 5, mean=Interval(0.0, -0.0001, 0.0001))
    findings = replace(findings, series=[replace(first, points=[*first.points[:-1], perfect]), findings.series[1]])
    (axes,) = learning_curves(findings).axes
    assert min(float(y) for line in axes.lines if line.get_marker() == "." for y in line.get_ydata()) == 0.005
    assert axes.get_ylim()[0] < 0.005
    assert rendered(gaps(findings), "svg")


def test_a_crossing_is_marked_with_its_size(study):
    (axes,) = learning_curves(study()).axes
    (words,) = [text.get_text() for text in axes.texts]
    assert "1,200" in words
    (axes,) = learning_curves(replace(study(), comparisons=[])).axes
    assert not axes.texts


def test_gaps_say_who_is_ahead_where(study):
    figure = gaps(study(names=("a", "b", "c")))
    assert len(figure.axes) == 2
    texts = figure.axes[0].texts
    assert [text.get_text() for text in texts] == ["b is ahead", "a is ahead"]
    assert [text.get_position()[1] > 0.5 for text in texts] == [True, False]
    low, high = figure.axes[0].get_ylim()
    assert low < 0 < high
