"""Collectives of ranks, matched by hand."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.lib.collective_names import collective_kind
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def numbered(synth: Synth, rank: int, sequence: int, start: float, end: float, **columns: Any) -> Synth:
    """A kernel with the arguments that torch writes."""
    arguments: dict[str, Any] = {
        "collective": "allreduce", "dtype": "Float", "in_elements": 1000, "out_elements": 1000, "group": "0",
        "group_ranks": "[0, 1]", "group_size": 2, "collective_sequence": sequence, **columns,
    }  # fmt: skip
    return synth.kernel(start, end, ALL_REDUCE, rank=rank, stream=f"{20 + rank}", **arguments)


def launched(
    synth: Synth, rank: int, start: float, end: float, dims: str, *, name: str = "nccl:all_reduce", stream: str = "20"
) -> Synth:
    """A kernel without arguments, launched 1 ms before it starts inside torch's annotation."""
    correlation = int(1000 * rank + start)
    synth.host(name, "annotation", start - 2, start, rank=rank, input_dims=dims, input_types='["float"]')
    synth.host("cudaLaunchKernelExC", "runtime", start - 1, start - 0.5, rank=rank, correlation=correlation)
    return synth.kernel(start, end, ALL_REDUCE, rank=rank, stream=stream, correlation=correlation)


def matches(run: Run) -> list[tuple[object, ...]]:
    return collectives(run).select("rank", "key", "match", "matched_by", "unmatched").rows()


def steps(synth: Synth, rank: int, *starts: float) -> Synth:
    for number, start in enumerate(starts):
        synth.host(f"ProfilerStep#{5 + number}", "annotation", start, start + 100, rank=rank)
    return synth


def test_one_collective_of_two_ranks() -> None:
    synth = Synth()
    numbered(synth, 0, 7, 10, 40)
    numbered(synth, 1, 7, 1030, 1038)
    table = collectives(synth.run())
    assert table.row(0, named=True) == {
        "rank": 0, "device": 0, "stream": "20", "group": "0", "group_ranks": "[0, 1]", "group_size": 2,
        "collective": "all_reduce", "dtype": "float", "in_elements": 1000, "out_elements": 1000, "bytes": 4000,
        "step": None, "key": 7, "kernels": 1, "match": 0, "matched_by": "sequence", "unmatched": None, "ranks": 2,
        "start": 10 * MS, "end": 40 * MS, "duration": 30 * MS, "transfer": 8 * MS, "waiting": 22 * MS,
        "algorithm_bandwidth": 4000 / (8 * MS), "bus_bandwidth": 4000 / (8 * MS),
    }  # fmt: skip
    assert table.row(1, named=True)["waiting"] == 0


@pytest.mark.parametrize(
    ("collective", "elements", "size", "factor"),
    [
        ("allreduce", (1000, 1000), 4000, 2 * 3 / 4),
        ("_allgather_base", (1000, 4000), 16000, 3 / 4),
        ("_reduce_scatter_base", (4000, 1000), 16000, 3 / 4),
        ("all_to_all", (4000, 4000), 16000, 3 / 4),
        ("broadcast", (1000, 1000), 4000, 1),
        ("barrier", (1, 1), 4, None),
    ],
)
def test_bandwidth(collective: str, elements: tuple[int, int], size: int, factor: float | None) -> None:
    synth = Synth()
    for rank in range(4):
        numbered(
            synth, rank, 7, 10, 10.001 + rank, collective=collective, group_size=4, in_elements=elements[0],
            out_elements=elements[1],
        )  # fmt: skip
    (row,) = collectives(synth.run()).filter(pl.col("rank") == 2).iter_rows(named=True)
    assert row["bytes"] == size
    assert row["algorithm_bandwidth"] == (None if factor is None else pytest.approx(size / 1000))
    assert row["bus_bandwidth"] == (None if factor is None else pytest.approx(size / 1000 * factor))


def test_a_number_that_one_rank_lacks_shifts_nothing() -> None:
    synth = Synth()
    for sequence in (4, 5, 6):
        numbered(synth, 0, sequence, 10 * sequence, 10 * sequence + 5)
    for sequence in (5, 6, 7):
        numbered(synth, 1, sequence, 10 * sequence, 10 * sequence + 5)
    assert matches(synth.run()) == [
        (0, 4, None, None, "alone"),
        (0, 5, 0, "sequence", None),
        (0, 6, 1, "sequence", None),
        (1, 5, 0, "sequence", None),
        (1, 6, 1, "sequence", None),
        (1, 7, None, None, "alone"),
    ]


def test_numbers_count_within_a_group() -> None:
    synth = Synth()
    for rank in range(4):
        pair = [rank // 2 * 2, rank // 2 * 2 + 1]
        numbered(synth, rank, 3, 10, 20 + rank, group="1", group_ranks=str(pair))
        numbered(synth, rank, 3, 30, 40 + rank, group="0", group_ranks="[0, 1, 2, 3]", group_size=4)
    table = collectives(synth.run()).filter(pl.col("rank") == 3)
    assert table.select("group", "ranks", "transfer", "waiting").rows() == [
        ("1", 2, 12 * MS, 1 * MS),
        ("0", 4, 10 * MS, 3 * MS),
    ]


def test_kernels_that_share_a_number_are_one_collective() -> None:
    synth = Synth()
    for rank in (0, 1):
        numbered(synth, rank, 3, 10, 20).kernel(25, 30)
        numbered(synth, rank, 3, 20, 30 + rank)
    numbered(synth, 0, 4, 40, 50)
    numbered(synth, 0, 4, 50, 60)
    numbered(synth, 1, 4, 40, 60)
    rows = collectives(synth.run()).select("rank", "kernels", "start", "end", "match", "unmatched").rows()
    assert rows == [
        (0, 2, 10 * MS, 30 * MS, 0, None),
        (0, 2, 40 * MS, 60 * MS, None, "other-count"),
        (1, 2, 10 * MS, 31 * MS, 0, None),
        (1, 1, 40 * MS, 60 * MS, None, "other-count"),
    ]


def test_one_number_under_two_names_is_no_match() -> None:
    synth = Synth()
    numbered(synth, 0, 3, 10, 20)
    numbered(synth, 1, 3, 10, 20, collective="_allgather_base")
    assert [row[-1] for row in matches(synth.run())] == ["other-name", "other-name"]


def test_send_and_receive_match_within_their_pair_only() -> None:
    synth = Synth()
    numbered(synth, 0, 1, 10, 30, collective="send")
    numbered(synth, 1, 1, 25, 30, collective="recv")
    numbered(synth, 0, 2, 40, 50, collective="send", group="2", group_ranks="[0, 1, 2]", group_size=3)
    numbered(synth, 1, 2, 40, 50, collective="recv", group="2", group_ranks="[0, 1, 2]", group_size=3)
    assert matches(synth.run()) == [
        (0, 1, 0, "sequence", None),
        (0, 2, None, None, "no-peer"),
        (1, 1, 0, "sequence", None),
        (1, 2, None, None, "no-peer"),
    ]


def test_without_numbers_the_order_within_a_step_matches() -> None:
    synth = Synth()
    for rank, late in ((0, 0), (1, 500)):
        steps(synth, rank, late, late + 100)
        for at in (10, 30, 110, 130):
            launched(synth, rank, late + at, late + at + 5 + rank, f"[[{at % 100}]]")
    rows = (
        collectives(synth.run()).select("rank", "step", "key", "match", "matched_by", "in_elements", "waiting").rows()
    )
    assert rows[:2] == [(0, 5, 0, 0, "order", 10, 0), (0, 5, 1, 1, "order", 30, 0)]
    assert rows[4:6] == [(1, 5, 0, 0, "order", 10, 1 * MS), (1, 5, 1, 1, "order", 30, 1 * MS)]
    assert rows[6:] == [(1, 6, 0, 2, "order", 10, 1 * MS), (1, 6, 1, 3, "order", 30, 1 * MS)]


def test_a_step_that_was_cut_on_one_rank_is_not_shifted_by_one() -> None:
    """Three collectives of one size: rank 1's window begins after the first, and nothing tells which is which."""
    synth = Synth()
    for rank in (0, 1):
        steps(synth, rank, 0, 100)
        for at in (10, 30, 50, 110, 130, 150):
            if (rank, at) != (1, 10):
                launched(synth, rank, at, at + 5, "[[64]]")
    rows = matches(synth.run())
    assert rows[:3] == [(0, place, None, None, "other-count") for place in range(3)]
    assert [row[1:] for row in rows[3:6]] == [row[1:] for row in rows[8:]]
    assert [row[3] for row in rows[3:6]] == ["order"] * 3
    assert rows[6:8] == [(1, place, None, None, "other-count") for place in range(2)]


def test_in_a_cut_step_what_occurs_once_is_matched() -> None:
    synth = Synth()
    for rank in (0, 1):
        steps(synth, rank, 0)
        for at, size in ((10, 64), (30, 8), (50, 64)):
            if (rank, at) != (1, 10):
                launched(synth, rank, at, at + 5, f"[[{size}]]")
    rows = collectives(synth.run()).select("rank", "in_elements", "match", "matched_by", "unmatched").rows()
    assert rows == [
        (0, 64, None, None, "other-count"),
        (0, 8, 0, "unique", None),
        (0, 64, None, None, "other-count"),
        (1, 8, 0, "unique", None),
        (1, 64, None, None, "other-count"),
    ]


def without_steps(*sizes: str) -> Run:
    """One rank for each text, whose digits are the sizes of its collectives, in order."""
    synth = Synth()
    for rank, list_of_rank in enumerate(sizes):
        for place, size in enumerate(list_of_rank):
            launched(synth, rank, 10 + 20 * place, 15 + 20 * place, f"[[{size}]]")
    return synth.run()


@pytest.mark.parametrize(
    ("first", "second", "shift"),
    [
        ("12", "12", 0),
        ("1233", "233", 1),
        ("321", "1", 2),
        ("1234", "2345", 1),
        ("2345", "1234", -1),
        ("1111", "1111", 0),
    ],
)
def test_without_steps_the_lists_must_fit_at_one_place(first: str, second: str, shift: int) -> None:
    table = collectives(without_steps(first, second))
    pairs = table.filter(pl.col("rank") == 0).join(table.filter(pl.col("rank") == 1), on="match")
    places = pairs.select("start", "start_right").sort("start") - 10 * MS
    expected = range(max(0, shift), min(len(first), len(second) + shift))
    assert places.rows() == [(20 * MS * place, 20 * MS * (place - shift)) for place in expected]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("12121", "12", "ambiguous"),
        ("1212", "212", "ambiguous"),  # fits inside at one place, and as well a step later
        ("1111", "111", "ambiguous"),
        ("123", "13", "other-order"),
        ("123", "132", "other-order"),
        ("12345", "56789", "other-order"),  # one in common, at an end
    ],
)
def test_without_steps_what_fits_nowhere_or_twice_is_not_matched(first: str, second: str, why: str) -> None:
    assert {row[-1] for row in matches(without_steps(first, second))} == {why}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 2), min_size=1, max_size=5), min_size=2, max_size=3),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=3),
)
def test_whatever_the_windows_cut_off_what_is_matched_is_the_same_collective(
    sizes: list[list[int]], cuts: list[tuple[int, int]]
) -> None:
    """Each rank lacks some of the first step's first and of the last step's last collectives."""
    synth = Synth()
    for rank, (head, tail) in enumerate(cuts):
        steps(synth, rank, *(100 * step for step in range(len(sizes))))
        for step, of_step in enumerate(sizes):
            kept = range(head if step == 0 else 0, len(of_step) - (tail if step == len(sizes) - 1 else 0))
            for place in kept:
                at = 100 * step + 10 + 15 * place
                launched(synth, rank, at, at + 5, f"[[{of_step[place]}]]")
    try:
        table = collectives(synth.run())
    except MissingData:
        return  # nothing was left
    starts = table.drop_nulls("match").group_by("match").agg(pl.col("start").n_unique(), pl.col("rank").n_unique())
    assert starts["start"].to_list() == [1] * starts.height
    assert (starts["rank"] > 1).all()
    whole = table.filter(pl.col("step").is_between(6, 3 + len(sizes)))
    assert whole["unmatched"].null_count() == whole.height


def test_the_annotation_tells_what_a_generic_kernel_does() -> None:
    synth = Synth()
    for rank in (0, 1):
        launched(synth, rank, 10, 20, "[[64, 2], [3]]", name="nccl:_all_gather_base")
        synth.kernel(30, 40, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", rank=rank, stream="20")
        synth.kernel(50, 60, "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", rank=rank, stream="20")
    rows = collectives(synth.run()).filter(pl.col("rank") == 0)
    assert rows.select("collective", "in_elements", "bytes", "unmatched").rows() == [
        ("all_gather", 131, None, None),  # its output, n times as large, is not recorded
        ("send_recv", None, None, "no-peer"),
        (None, None, None, "no-name"),
    ]


def test_an_annotation_tells_nothing_of_what_is_launched_after_it() -> None:
    synth = Synth()
    for rank in (0, 1):
        launched(synth, rank, 10, 20, "[[64]]")
        synth.host("cudaLaunchKernelExC", "runtime", 30, 31, rank=rank, correlation=7000 + rank)
        synth.kernel(31, 40, "ncclDevKernel_Generic_1", rank=rank, stream="20", correlation=7000 + rank)
    assert collectives(synth.run())["collective"].to_list() == ["all_reduce", None] * 2


@pytest.mark.parametrize(
    ("dims", "elements"),
    [
        ("[[2, 3], [4]]", 10),
        ("[[[5], [2, 2]], []]", 9),
        ("[[], []]", None),
        ("[[1e3]]", None),
        ('["x", {"a": 1}]', None),
        ("[[9000000000000000000, 9]]", None),
        ("[[2", None),
        ("7", None),
        (None, None),
    ],
)
def test_elements_of_all_inputs(dims: str | None, elements: int | None) -> None:
    run = Synth().host("gloo:all_reduce", "annotation", 0, 1, input_dims=dims).run()
    assert collectives(run)["in_elements"].to_list() == [elements]


def test_gloo_transfers_on_the_host() -> None:
    synth = Synth()
    for rank, end in ((0, 30), (1, 31)):
        synth.host(
            "gloo:all_reduce", "annotation", 10 * rank, end, rank=rank, input_dims="[[10]]", input_types='["double"]'
        )
        synth.host("gloo:barrier", "annotation", 40, 50, rank=rank)
    rows = collectives(synth.run()).select("rank", "device", "collective", "bytes", "match", "transfer").rows()
    assert rows == [
        (0, None, "all_reduce", 80, 0, 21 * MS),
        (0, None, "barrier", None, 1, 10 * MS),
        (1, None, "all_reduce", 80, 0, 21 * MS),
        (1, None, "barrier", None, 1, 10 * MS),
    ]


def test_a_process_with_several_devices_is_not_matched() -> None:
    synth = Synth()
    for rank in (0, 1):
        for device in (0, 1):
            numbered(synth, rank, 3, 10, 20, device=device)
    assert {row[-1] for row in matches(synth.run())} == {"several-devices"}


def test_one_rank_alone_has_collectives_and_no_waiting() -> None:
    (row,) = collectives(numbered(Synth(), 0, 3, 10, 20).run()).iter_rows(named=True)
    assert (row["ranks"], row["transfer"], row["waiting"], row["unmatched"]) == (1, None, None, "alone")


def test_nothing_depends_on_the_clocks_of_other_ranks() -> None:
    synth = Synth()
    for rank, late in ((0, 0), (1, 0)):
        steps(synth, rank, late, late + 100)
        for at in (10, 30, 110, 130):
            launched(synth, rank, late + at, late + at + 5 + rank, f"[[{at}]]")
    run = synth.run()
    other_clock = [
        pl.when(pl.col("rank") == 1).then(pl.col(name) + 17 * MS).otherwise(name).alias(name)
        for name in ("start", "end")
    ]
    shifted = Run({name: run.tables[name].with_columns(other_clock) for name in ("host", "device")})
    hidden = ["start", "end"]
    assert_frame_equal(collectives(shifted).drop(hidden), collectives(run).drop(hidden))


def test_a_run_without_collectives() -> None:
    with pytest.raises(MissingData, match="collectives"):
        collectives(Synth().kernel(0, 1).run())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", "broadcast"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "reduce_scatter"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("allreduce_coalesced", "all_reduce"),
        ("all_to_allv", "all_to_allv"),
        ("nccl:recv 0<-1", "recv"),
        ("gloo:barrier", "barrier"),
        ("dispatch", "dispatch"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", None),
    ],
)
def test_names(name: str, kind: str | None) -> None:
    assert collective_kind(name) == kind
