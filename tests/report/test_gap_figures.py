"""Figures of gaps: who is ahead where."""

from vit.report.gap_figures import gaps


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_gaps_say_who_is_ahead_where(study):
    figure = gaps(study(names=("a", "b", "c")))
    assert len(figure.axes) == 4
    left, right = figure.axes[:2]
    assert [text.get_text() for text in left.texts] == ["b is ahead", "a is ahead"]
    assert [text.get_position()[1] > 0.5 for text in left.texts] == [True, False]
    low, high = left.get_ylim()
    assert low < 0 < high and right.get_yscale() == "log"
    assert right.get_ylim()[0] < 1 < right.get_ylim()[1] and "1" in labels(right.yaxis)
