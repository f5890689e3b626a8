"""Late ranks and process groups, by hand."""

import json

import polars as pl
import pytest

from stepscope.analyses.communication.clock_offsets import clock_offsets
from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.late_ranks import late_ranks
from stepscope.analyses.communication.overlap import overlap
from stepscope.analyses.communication.process_groups import process_groups
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def meet(synth: Synth, sequence: int, arrivals: dict[int, float], end: float, **columns: object) -> None:
    """An all-reduce of 1000 floats that ranks join at their times, in ms, and leave together."""
    arguments = {"collective": "allreduce", "dtype": "Float", "in_elements": 1000, "out_elements": 1000, "group": "0"}
    for rank, start in arrivals.items():
        synth.add(
            "device", rank=rank, name=ALL_REDUCE, kind="kernel", device=0, stream="20", start=round(start * MS),
            end=round(end * MS),
            **{**arguments, "group_size": len(arrivals), "collective_sequence": sequence, **columns},
        )  # fmt: skip


def header(synth: Synth, rank: int, *groups: dict[str, object]) -> None:
    synth.add("processes", rank=rank, source=f"{rank}.json")
    value = json.dumps({"rank": rank, "pg_count": len(groups), "pg_config": groups})
    synth.add("meta", source=f"{rank}.json", key="distributedInfo", value=value)


def one_late_rank() -> Run:
    synth = Synth()
    meet(synth, 1, {0: 0, 1: 2, 2: 9}, 10)
    meet(synth, 2, {0: 20, 1: 23, 2: 24}, 25)
    meet(synth, 3, {0: 40, 1: 40, 2: 39}, 45)  # 0 and 1 together: nobody is late
    meet(synth, 4, {0: 60, 1: 54, 2: 50}, 65)
    return synth.run()


def test_who_is_late_how_often_and_how_much() -> None:
    rows = {row["rank"]: row for row in late_ranks(one_late_rank()).iter_rows(named=True)}
    assert rows[2] == {
        "rank": 2, "group": "0", "collectives": 4, "ranks": 3, "last": 2, "share": 0.5, "delay": 8 * MS,
        "mean_delay": 4.0 * MS, "longest_delay": 7 * MS, "per_step": None, "uncertainty": rows[2]["uncertainty"],
    }  # fmt: skip
    clocks = dict(clock_offsets(one_late_rank()).select("rank", "uncertainty").iter_rows())
    assert clocks[0] == 0, "of the reference the table of clocks knows nothing else"
    assert [rows[rank]["uncertainty"] for rank in range(3)] == [min(clocks[1], clocks[2]), clocks[1], clocks[2]]
    assert (rows[0]["last"], rows[0]["delay"]) == (1, 6 * MS)
    assert (rows[1]["last"], rows[1]["delay"], rows[1]["mean_delay"]) == (0, 0, None)


def test_lateness_is_per_group_and_step() -> None:
    synth = Synth()
    for rank in (0, 1):
        for step in (0, 1):
            synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 100, rank=rank)
            for place in (1, 2):
                correlation = 10 * step + place
                launch = 100 * step + place
                synth.host("cudaLaunchKernel", "runtime", launch, launch + 0.5, rank=rank, correlation=correlation)
    for step in (0, 1):
        at = 100 * step
        meet(synth, step, {0: at + 10, 1: at + 14}, at + 20, group="tensor", correlation=10 * step + 1)
        meet(synth, step, {0: at + 33, 1: at + 30}, at + 40, group="data", correlation=10 * step + 2)
    rows = late_ranks(synth.run()).select("rank", "group", "last", "delay", "per_step").rows()
    assert rows == [
        (0, "data", 2, 6 * MS, 3.0 * MS),
        (0, "tensor", 0, 0, 0.0),
        (1, "data", 0, 0, 0.0),
        (1, "tensor", 2, 8 * MS, 4.0 * MS),
    ]


def test_a_broadcast_tells_nothing_of_who_is_late() -> None:
    synth = Synth()
    meet(synth, 1, {0: 0, 1: 2}, 10, collective="broadcast")
    with pytest.raises(MissingData, match="several ranks"):
        late_ranks(synth.run())


def test_ranks_that_share_no_collective_are_not_told_to_open_a_folder() -> None:
    synth = Synth()
    for rank in (0, 1):
        synth.add("processes", rank=rank, pid=str(rank))
        meet(synth, 1, {rank: 0}, 10, group=str(rank))
    with pytest.raises(MissingData, match="none could be matched") as caught:
        late_ranks(synth.run())
    assert "folder" not in caught.value.how


def test_what_a_process_group_communicates() -> None:
    synth = Synth()
    for rank in (0, 1):
        header(
            synth, rank, {"pg_name": "0", "pg_desc": "data_parallel", "pg_size": 2, "ranks": [0, 1]}, {"pg_name": "1"}
        )
        synth.kernel(0, 4, rank=rank).kernel(15, 30, rank=rank)
    meet(synth, 1, {0: 0, 1: 2}, 10, group_size=None)
    meet(synth, 2, {0: 20, 1: 20}, 25, group_size=None)
    meet(synth, 3, {0: 50}, 53, group="1", group_size=2)
    rows = process_groups(synth.run()).rows(named=True)
    assert rows[0] == {
        "rank": 0, "group": "0", "description": "data_parallel",
        "parallel": "data", "parallel_by": "description", "collective": "all_reduce", "group_size": 2,
        "calls": 2, "matched": 2, "bytes": 8000, "duration": 15 * MS, "transfer": 13 * MS, "waiting": 2 * MS,
        "exposed": 6 * MS, "bus_bandwidth": pytest.approx(8000 / (13 * MS)),
    }  # fmt: skip
    assert rows[1] == {
        "rank": 0, "group": "1", "description": None, "parallel": None, "parallel_by": None,
        "collective": "all_reduce", "group_size": 2, "calls": 1,
        "matched": 0, "bytes": 4000, "duration": 3 * MS, "transfer": None, "waiting": None, "exposed": 3 * MS,
        "bus_bandwidth": None,
    }  # fmt: skip
    assert (rows[2]["rank"], rows[2]["waiting"]) == (1, 0)


def test_the_only_group_of_a_job_needs_no_argument() -> None:
    synth = Synth()
    for rank in (0, 1):
        header(synth, rank, {"pg_name": "7", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]})
        synth.host("gloo:barrier", "annotation", rank, 9, rank=rank)
    run = synth.run()
    assert collectives(run).select("group", "group_size", "group_ranks").unique().rows() == [("7", 2, "[0, 1]")]
    assert process_groups(run).select("rank", "description", "waiting", "exposed").rows() == [
        (0, "default_pg", 1 * MS, None),
        (1, "default_pg", 0, None),
    ]


@pytest.mark.parametrize(
    ("rank", "known"), [(1, True), ("1", True), (-1, False), (2**40, False), (None, False), (True, False)]
)
def test_the_header_says_itself_of_which_rank_it_is(rank: object, known: bool) -> None:
    """In a run folder the trace of a rank is a file below the folder that the process is read from."""
    synth = Synth().add("processes", rank=1, source="folder")
    value = json.dumps({"rank": rank, "pg_config": [{"pg_name": "7", "pg_desc": "default_pg"}]})
    synth.add("meta", source="folder/trace.json", key="distributedInfo", value=value)
    synth.host("gloo:barrier", "annotation", 0, 9, rank=1)
    assert process_groups(synth.run())["description"].to_list() == ["default_pg" if known else None]


def test_what_a_kernel_says_of_its_group_goes_before_the_header() -> None:
    synth = Synth()
    header(synth, 0, {"pg_name": "7", "pg_size": 2})
    meet(synth, 1, {0: 0}, 10, group="8")
    assert collectives(synth.run()).select("group", "group_size").rows() == [("8", 1)]


def test_with_several_groups_a_collective_without_arguments_is_of_none() -> None:
    synth = Synth()
    for rank in (0, 1):
        header(synth, rank, {"pg_name": "0"}, {"pg_name": "1"})
        synth.host("gloo:barrier", "annotation", rank, 9, rank=rank)
    assert collectives(synth.run())["group"].to_list() == [None, None]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "[]",
        '{"pg_config": 3}',
        '{"pg_config": [4]}',
        '{"pg_config": [{"ranks": 1, "pg_size": 18446744073709551616}]}',
    ],
)
def test_headers_that_list_no_groups(value: str) -> None:
    synth = Synth().add("processes", source="a").add("meta", source="a", key="distributedInfo", value=value)
    synth.host("gloo:barrier", "annotation", 0, 9)
    assert process_groups(synth.run())["description"].to_list() == [None]


def test_groups_are_told_apart_by_their_members_where_names_repeat() -> None:
    synth = Synth()
    meet(synth, 1, {0: 0, 1: 2}, 10, group="tp", group_ranks="[0, 1]")
    meet(synth, 1, {2: 0, 3: 5}, 10, group="tp", group_ranks="[2, 3]")
    waiting = dict(collectives(synth.run()).select("rank", "waiting").iter_rows())
    assert waiting == {0: 2 * MS, 1: 0, 2: 5 * MS, 3: 0}
    assert late_ranks(synth.run()).filter(pl.col("last") > 0).select("rank", "delay").rows() == [
        (1, 2 * MS),
        (3, 5 * MS),
    ]


def test_overlap_of_communication_with_computing() -> None:
    synth = Synth().host("ProfilerStep#3", "annotation", 0, 100).host("ProfilerStep#4", "annotation", 100, 200)
    synth.kernel(10, 40).kernel(30, 60, ALL_REDUCE, stream="20").kernel(50, 55)
    synth.kernel(70, 80, "Memcpy HtoD", kind="memcpy").kernel(120, 150)
    assert overlap(synth.run()).rows() == [
        (0, 3, 100 * MS, 20 * MS, 15 * MS, 15 * MS, 50 * MS, 0.5, pytest.approx(35 / 30)),
        (0, 4, 100 * MS, 30 * MS, 0, 0, 70 * MS, None, None),
    ]


def test_overlap_on_the_host_alone() -> None:
    synth = Synth().host("ProfilerStep#3", "annotation", 0, 100).host("aten::mm", "operator", 10, 40)
    synth.host("gloo:all_reduce", "annotation", 30, 60, thread="2").host("c10d::allreduce_", "operator", 40, 42)
    assert overlap(synth.run()).rows() == [
        (0, 3, 100 * MS, 20 * MS, 10 * MS, 20 * MS, 50 * MS, pytest.approx(1 / 3), 1.0)
    ]


def test_overlap_needs_collectives_and_steps() -> None:
    with pytest.raises(MissingData, match="collectives"):
        overlap(Synth().host("ProfilerStep#3", "annotation", 0, 100).kernel(0, 9).run())
    with pytest.raises(MissingData):
        overlap(Synth().kernel(0, 9, ALL_REDUCE).run())
