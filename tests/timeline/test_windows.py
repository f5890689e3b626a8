"""Where steps lie in the timeline."""

import pytest

from stepscope.core.run import Run
from stepscope.core.schema import TABLES, Column
from stepscope.core.synth import MS, Synth
from stepscope.timeline import drawn, place, step_window
from stepscope.timeline.windows import AROUND_POINT
from stepscope.web.routes.tables import ANALYSES


@pytest.fixture
def run() -> Run:
    synth = Synth()
    for number, (start, end) in enumerate([(10, 90), (90, 120), (120, 155), (155, 200)]):
        synth.step(number + 5, start, end)
    return synth.step(5, 40, 60, rank=1).run()


@pytest.mark.parametrize(
    ("numbers", "rank", "window"),
    [
        ((6, 6), None, (80, 110)),
        ((6, 7), 0, (80, 145)),
        ((5, 5), 1, (30, 50)),
        (None, None, (110, 145)),  # 35 ms: of the inner steps the nearest to the mean of 47.5
        ((6, 6), 1, None),
        ((99, 99), None, None),
        ((5, 5), 7, None),
    ],
)
def test_steps_count_from_the_first_moment(
    run: Run, numbers: tuple[int, int] | None, rank: int | None, window: tuple[int, int] | None
) -> None:
    assert step_window(run, numbers, rank) == (window and (window[0] * MS, window[1] * MS))


def test_a_typical_step_is_one_that_a_trace_holds() -> None:
    synth = Synth()
    for number, length in enumerate((30, 30, 30, 44, 50, 60, 30)):
        synth.step(number, 100 * number, 100 * number + length, tags=("traced",) if 3 <= number <= 5 else ())
    assert step_window(synth.run(), None) == (400 * MS, 450 * MS)


def test_a_run_without_steps_has_none() -> None:
    assert step_window(Synth().kernel(0, 10).run(), None) is None


def test_a_time_of_the_trace_is_where_the_timeline_has_it() -> None:
    run = Synth().kernel(1000, 1010).kernel(1030, 1040).run()
    assert place(run, "trace", 1030 * MS, 1040 * MS) == (30 * MS, 40 * MS)


def test_a_time_of_the_recorder_is_moved_by_the_readings_of_both_clocks() -> None:
    synth = Synth().step(0, 0, 10).step(1, 10, 20).host("aten::mm", "operator", 1000, 1014)
    run = synth.add("clock_readings", source="start", time=0, offset=1000 * MS, error=10).run()
    assert drawn(run, "run")
    assert place(run, "run", 3 * MS, 5 * MS, 0) == (3 * MS, 5 * MS)
    assert place(run, "run", 12 * MS, None, 0) == (10 * MS, 20 * MS)  # a moment: the step around it


def test_without_readings_the_recorder_s_times_lead_nowhere() -> None:
    run = Synth().step(0, 0, 10).host("aten::mm", "operator", 1000, 1014).run()
    assert not drawn(run, "run")
    assert place(run, "run", 3 * MS, 5 * MS, 0) is None


def test_a_moment_outside_of_steps_is_shown_with_a_little_around_it() -> None:
    run = Synth().kernel(0, 10).kernel(90, 100).run()
    assert place(run, "trace", 50 * MS, None) == (50 * MS - AROUND_POINT, 50 * MS + AROUND_POINT)


def test_each_moment_of_a_table_says_its_clock() -> None:
    columns = [(name, column) for name, known in TABLES.items() for column in known]
    columns += [(name, column) for name, analysis in ANALYSES.load().items() for column in analysis.columns]
    silent = [(name, column.name) for name, column in columns if _is_moment(column) and column.clock is None]
    assert silent == [("lines", "time")]  # a length


def _is_moment(column: Column) -> bool:
    return column.unit == "ns" and column.name in ("start", "end", "time", "first_start", "last_end")
