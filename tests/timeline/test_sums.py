"""Sums by name over a window: clipped to it; sums count twice what runs twice, unions once."""

from stepscope.core.synth import MS, Synth
from stepscope.timeline import sums
from stepscope.timeline.sums import NameSum


def test_spans_are_summed_by_name_and_clipped_to_the_window() -> None:
    synth = Synth().host("mm", "operator", 0, 10).host("mm", "operator", 5, 15, thread="2")
    run = synth.host("add", "operator", 30, 31).host("far", "operator", 90, 91).run()
    found = sums(run, (2 * MS, 50 * MS))
    assert (found.spans, found.names) == (3, 2)
    assert found.rows == (
        NameSum("mm", "operator", 2, 18 * MS, 10 * MS, 13 * MS),
        NameSum("add", "operator", 1, 1 * MS, 1 * MS, 1 * MS),
    )


def test_only_the_tracks_that_are_named_count() -> None:
    run = Synth().host("mm", "operator", 0, 10).host("mm", "operator", 5, 15, thread="2").run()
    (row,) = sums(run, (0, 20 * MS), ["host:0:1:2"]).rows
    assert (row.count, row.sum) == (1, 10 * MS)


def test_an_empty_window_has_no_rows() -> None:
    assert sums(Synth().kernel(0, 1).run(), (5 * MS, 6 * MS)).rows == ()
