"""Sums by name over a window: clipped to it; sums count twice what runs twice, unions once."""

from stepscope.core.synth import MS, Synth
from stepscope.timeline import sums
from stepscope.timeline.aggregates import NameSum

HOST = ["host:0:1:1", "host:0:1:2"]


def test_spans_are_summed_by_name_and_clipped_to_the_window() -> None:
    synth = Synth().host("mm", "operator", 0, 10).host("mm", "operator", 5, 15, thread="2")
    run = synth.host("add", "operator", 30, 31).host("far", "operator", 90, 91).run()
    found = sums(run, (2 * MS, 50 * MS), HOST)
    assert (found.spans, found.names) == (3, 2)
    assert found.rows == (
        NameSum("work", "mm", "operator", 2, 18 * MS, 18 * MS, 10 * MS, 13 * MS),
        NameSum("work", "add", "operator", 1, 1 * MS, 1 * MS, 1 * MS, 1 * MS),
    )


def test_kernels_and_operators_lead_by_their_own_time_and_what_stands_around_them_follows() -> None:
    synth = Synth().step(0, 0, 100, clock="kineto").host("train.py(1): main", "python", 0, 100)
    synth.host("linear", "operator", 10, 60).host("mm", "operator", 20, 50).host("mm", "operator", 70, 75)
    synth.host("late", "operator", 95, 110)  # ends after the frame that it begins in: nobody's part
    rows = sums(synth.kernel(20, 60, "gemm").run(), (15 * MS, 100 * MS)).rows
    told = [(row.group, row.name, row.own // MS, row.sum // MS) for row in rows if row.group in ("work", "around")]
    assert told == [
        ("work", "gemm", 40, 40),
        ("work", "mm", 35, 35),
        ("work", "linear", 15, 45),
        ("work", "late", 5, 5),
        ("around", "step 0", 85, 85),
        ("around", "train.py(1): main", 35, 85),
    ]


def test_idle_times_and_the_critical_path_are_summed_apart() -> None:
    synth = Synth().kernel(0, 10, "gemm").kernel(30, 40, "gemm").kernel(50, 55, "gemm")
    rows = sums(synth.run(), (5 * MS, 55 * MS)).rows
    assert [(row.group, row.name, row.sum // MS) for row in rows if row.group in ("work", "idle")] == [
        ("work", "gemm", 20), ("idle", "unknown", 30),
    ]  # fmt: skip
    assert sum(row.sum for row in rows if row.group == "path") == 50 * MS  # it has no holes


def test_only_the_tracks_that_are_named_count() -> None:
    run = Synth().host("mm", "operator", 0, 10).host("mm", "operator", 5, 15, thread="2").run()
    (row,) = sums(run, (0, 20 * MS), ["host:0:1:2"]).rows
    assert (row.count, row.sum) == (1, 10 * MS)


def test_an_empty_window_has_no_rows() -> None:
    assert sums(Synth().kernel(0, 1).run(), (5 * MS, 6 * MS)).rows == ()


def test_marks_of_the_profiler_lead_nothing() -> None:
    rows = sums(Synth().host("PyTorch Profiler (0)", "other", 0, 100).host("mm", "operator", 1, 2, thread="2").run(),
                (0, 100 * MS)).rows  # fmt: skip
    assert [row.name for row in rows if row.group == "work"] == ["mm"]
