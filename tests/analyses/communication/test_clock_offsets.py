"""Clocks of ranks, set apart on purpose and measured again."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.communication.clock_offsets import clock_offsets
from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.lib.rank_paths import paths
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

TRANSFER = 0.2  # ms, of every collective here
NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def job(
    groups: Iterable[tuple[int, ...]], clocks: Mapping[int, float], *, count: int = 20, collective: str = "allreduce",
    hosts: dict[int, str] | None = None,
) -> Synth:  # fmt: skip
    """Collectives of groups of ranks every 10 ms; in turn one rank is 1 ms late. `clocks` are added, in ms."""
    synth = Synth()
    for rank, clock in clocks.items():
        synth.add("processes", rank=rank, pid=str(rank), host=(hosts or {}).get(rank))
        synth.kernel(clock, clock + 1, rank=rank, pid=str(rank))
    for number, ranks in enumerate(groups):
        for place in range(count):
            for rank in ranks:
                start = 10 * place + (rank == ranks[place % len(ranks)]) + clocks[rank]
                synth.kernel(
                    start, 10 * place + 1 + TRANSFER + clocks[rank], NAME, rank=rank, pid=str(rank),
                    stream=str(20 + number), collective=collective, group=str(number), group_ranks=str(list(ranks)),
                    group_size=len(ranks), collective_sequence=place, dtype="Float", in_elements=8, out_elements=8,
                )  # fmt: skip
    return synth


def by_rank(run: Run) -> dict[int, dict[str, Any]]:
    return {row["rank"]: row for row in clock_offsets(run).iter_rows(named=True)}


def test_two_hosts_seventeen_milliseconds_apart() -> None:
    rows = by_rank(job([(0, 1)], {0: 1000, 1: 1017}, hosts={0: "a", 1: "b"}).run())
    assert rows[0] == {
        "rank": 0, "host": "a", "reference": 0, "through": None, "status": "reference", "offset": 0, "uncertainty": 0,
        "low": 0, "high": 0, "drift_ppm": None, "time": rows[1]["time"], "matched": 0, "reason": None,
    }  # fmt: skip
    found = rows[1]
    assert (found["status"], found["through"], found["matched"]) == ("aligned", 0, 20)
    assert found["offset"] == 17 * MS
    assert found["uncertainty"] == TRANSFER * MS
    assert found["low"] == pytest.approx(16.8 * MS, abs=25_000)
    assert found["high"] == pytest.approx(17.2 * MS, abs=25_000)
    assert found["time"] == (1001 + 1191.2) / 2 * MS


@pytest.mark.parametrize(("clock", "status"), [(0, "same-clock"), (17, "other-clock")])
def test_ranks_of_one_host_are_measured_too(clock: float, status: str) -> None:
    rows = by_rank(job([(0, 1)], {0: 0, 1: clock}, hosts={0: "a", 1: "a"}).run())
    assert (rows[1]["status"], rows[1]["offset"]) == (status, clock * MS)


def test_ranks_that_share_no_group_with_the_reference_are_reached_through_others() -> None:
    clocks = {0: 0, 1: 5, 2: -40, 3: 700}
    rows = by_rank(job([(0, 1), (2, 3), (1, 3)], clocks).run())
    assert {rank: row["through"] for rank, row in rows.items()} == {0: None, 1: 0, 2: 3, 3: 1}
    assert {rank: row["offset"] for rank, row in rows.items()} == {rank: clock * MS for rank, clock in clocks.items()}
    assert [rows[rank]["uncertainty"] for rank in (1, 3, 2)] == [200_000, 400_000, 600_000]
    assert all(rows[rank]["low"] < clocks[rank] * MS < rows[rank]["high"] for rank in (1, 2, 3))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.integers(-(10**14), 10**14)] * 3),
    st.tuples(*[st.integers(-99, 99)] * 3),
    st.lists(st.tuples(st.integers(0, 5 * MS), st.integers(0, 5 * MS), st.integers(0, MS)), min_size=3, max_size=6),
)
def test_the_true_offset_of_a_rank_reached_through_another_is_inside_its_bounds(
    offsets: tuple[int, ...], ppm: tuple[int, ...], delays: list[tuple[int, int, int]]
) -> None:
    speeds = [Fraction(1_000_000 + rate, 1_000_000) for rate in ppm]
    synth = Synth()
    for place, (early, late, transfer) in enumerate(delays):
        for number, ranks in enumerate(((0, 1), (1, 2))):
            true_start = 1000 * MS * (2 * place + number)
            end = true_start + max(early, late) + transfer
            for rank, start in zip(ranks, (true_start + early, true_start + late), strict=True):
                synth.add(
                    "device", rank=rank, device=0, stream="20", name=NAME, kind="kernel", collective="allreduce",
                    start=round(speeds[rank] * start) + offsets[rank], end=round(speeds[rank] * end) + offsets[rank],
                    group=str(number), group_size=2, collective_sequence=place,
                )  # fmt: skip
    found = by_rank(synth.run())[2]
    time = (found["time"] - offsets[0]) / speeds[0]
    assert found["through"] == 1
    assert found["low"] <= speeds[2] * time + offsets[2] - found["time"] <= found["high"]


def test_a_rank_without_a_collective_in_common_has_no_offset() -> None:
    rows = by_rank(job([(0, 1), (2, 3)], dict.fromkeys(range(4), 0.0)).run())
    for rank in (2, 3):
        assert (rows[rank]["status"], rows[rank]["offset"], rows[rank]["low"]) == ("not-enough", None, None)
        assert rows[rank]["reason"] == "no collective in common with rank 0, nor through others"


def test_two_collectives_give_bounds_and_no_estimate() -> None:
    rows = by_rank(job([(0, 1), (1, 2)], {0: 0, 1: 5, 2: 9}, count=2).run())
    assert (rows[1]["status"], rows[1]["offset"]) == ("not-enough", None)
    assert rows[1]["low"] < 5 * MS < rows[1]["high"]
    assert rows[1]["reason"] == "only 2 collectives in common with rank 0"
    assert rows[2]["reason"] == "it is compared through rank 1, whose own offset is not known"


def test_a_clock_that_was_set_during_the_run_is_inconsistent() -> None:
    run = job([(0, 1)], {0: 0, 1: 5}).run()
    late = (pl.col("rank") == 1) & (pl.col("start") > 100 * MS)
    moved = [pl.when(late).then(pl.col(name) + 50 * MS).otherwise(name).alias(name) for name in ("start", "end")]
    (row,) = clock_offsets(Run({**run.tables, "device": run.tables["device"].with_columns(moved)}))[1:].to_dicts()
    assert (row["status"], row["offset"], row["low"]) == ("inconsistent", None, None)
    assert row["reason"] == "no offset and drift fit all 20 collectives shared with rank 0"


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "all_to_allv"])
def test_collectives_that_do_not_bind_both_ways_are_left_out(collective: str) -> None:
    run = job([(0, 1)], {0: 0, 1: 5}, collective=collective).run()
    assert collectives(run)["match"].is_not_null().all()
    assert by_rank(run)[1]["status"] == "not-enough"


def test_collectives_without_data_bind_nobody() -> None:
    run = job([(0, 1)], {0: 0, 1: 5}).run()
    empty = run.tables["device"].with_columns(in_elements=pl.lit(0, pl.Int64))
    assert by_rank(Run({**run.tables, "device": empty}))[1]["status"] == "not-enough"


def test_hosts_without_names_are_not_taken_for_one() -> None:
    assert by_rank(job([(0, 1)], {0: 0, 1: 5}).run())[1]["status"] == "aligned"


def test_fast_clocks_drift() -> None:
    run = job([(0, 1)], {0: 0, 1: 5}, count=400).run()
    fast = pl.col("rank") == 1
    stretched = [
        pl.when(fast).then(pl.col(name) + pl.col(name) // 8_000).otherwise(name).alias(name)
        for name in ("start", "end")
    ]
    (row,) = clock_offsets(Run({**run.tables, "device": run.tables["device"].with_columns(stretched)}))[1:].to_dicts()
    assert row["drift_ppm"] == pytest.approx(125, abs=1)
    assert row["offset"] == pytest.approx(5 * MS + row["time"] / 8_000, abs=row["uncertainty"])
    assert row["low"] <= 5 * MS + row["time"] / 8_000 <= row["high"]


def test_one_rank_has_nothing_to_compare() -> None:
    with pytest.raises(MissingData, match="second rank"):
        clock_offsets(job([(0,)], {0: 0}).run())


def test_the_direct_way_is_taken_and_else_the_least_uncertain() -> None:
    circles: dict[tuple[int, ...], float] = {
        (0, 1): 9.0,
        (0, 2): 1.0,
        (1, 2): 1.0,
        (1, 3): 1.0,
        (2, 3): 5.0,
        (3, 4): 1.0,
        (5, 6): 1.0,
    }
    assert paths(circles, 0) == {1: 0, 2: 0, 3: 1, 4: 3}
    assert list(paths(circles, 0))[-2:] == [3, 4]


@settings(deadline=None)
@given(
    st.dictionaries(st.frozensets(st.integers(0, 12), min_size=2).map(sorted).map(tuple), st.floats(0, 9), max_size=9)
)
def test_every_rank_that_can_be_reached_comes_after_the_one_before_it(circles: dict[tuple[int, ...], float]) -> None:
    before = paths(circles, 0)
    reached, grew = {0}, True
    while grew:
        grew = False
        for circle in circles:
            if reached & set(circle) and not set(circle) <= reached:
                reached |= set(circle)
                grew = True
    assert set(before) == reached - {0}
    known = {0}
    for rank, parent in before.items():
        assert parent in known
        assert any(rank in circle and parent in circle for circle in circles)
        known.add(rank)
