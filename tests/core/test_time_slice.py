"""A run of which only a part of the time is looked at."""

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.core.time_slice import began, ended, part_of


def run() -> Run:
    synth = Synth().host("a", "operator", 10, 20).host("b", "operator", 30, 40)
    synth.add("meta", source="r", key="command", value="[]")
    return synth.run()


def test_its_time_begins_with_the_first_event_and_ends_with_the_last() -> None:
    assert (began(run()), ended(run())) == (10 * MS, 40 * MS)
    assert (began(Run({})), ended(Run({}))) == (None, None)


def test_events_that_overlap_stay_whole_and_tables_without_times_too() -> None:
    part = part_of(run(), 15 * MS, 25 * MS)
    assert part is not None
    assert part.table("host", how="")["name"].to_list() == ["a"]
    assert part.rows("meta") == 1


def test_a_time_without_events_is_no_run() -> None:
    assert part_of(run(), 21 * MS, 29 * MS) is None
