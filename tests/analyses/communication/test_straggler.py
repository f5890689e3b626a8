"""Which rank is late for sure, and why."""

from collections.abc import Sequence

import pytest

from stepscope.analyses.bound.lib.straggler import delay_by_late_rank, late_rank
from stepscope.analyses.communication.late_ranks import late_ranks
from stepscope.core.errors import MissingData
from stepscope.core.report import Table, Text
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.format import text, title_text
from stepscope.report.diagnose import diagnose
from stepscope.report.sections.communication import distributed

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
STEPS = 12


def job(
    arrivals: Sequence[tuple[float, ...]],
    *,
    computes_from: tuple[float, ...] = (0, 0),
    waits: bool = False,
    synth: Synth | None = None,
) -> Run:
    """Steps of 100 ms: each rank computes until its collective begins, all leave it at 80 and compute on."""
    synth = synth or Synth()
    for step, times in enumerate(arrivals):
        at = 100 * step
        for rank, arrives in enumerate(times):
            begins = computes_from[rank]
            synth.host(f"ProfilerStep#{step}", "annotation", at, at + 100, rank=rank)
            if waits:
                loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
                synth.host(loader, "annotation", at, at + begins + 1, rank=rank)
            synth.kernel(at + begins, at + arrives, rank=rank)
            synth.kernel(
                at + arrives, at + 80, ALL_REDUCE, rank=rank, stream="9", collective="allreduce", group="0",
                collective_sequence=step, group_size=len(times), correlation=step + 1,
            )  # fmt: skip
            synth.host("cudaLaunchKernel", "runtime", at + 1, at + 2, rank=rank, correlation=step + 1)
            synth.kernel(at + 80, at + 99, rank=rank)
    return synth.run()


def recorded(forwards: Sequence[tuple[float, float]]) -> Synth:
    """Steps of 100 ms of the probe, long after those that are traced, whose forward parts are these."""
    synth = Synth()
    for step, times in enumerate(forwards):
        at = 2000 + 100 * step
        for rank, forward in enumerate(times):
            synth.step(step, at, at + 100, data_wait=None, forward=forward, backward=95 - forward, rank=rank)
    return synth


def test_a_rank_that_computes_longer() -> None:
    found = late_rank(job([(78, 58)] * STEPS))
    assert found is not None
    assert (found.rank, found.last, found.collectives, found.delay) == (0, STEPS, STEPS, 20.0 * MS)
    assert (found.cause, found.extra, found.step) == ("compute", 20.0 * MS, 100.0 * MS)


def test_a_rank_that_waits_for_data() -> None:
    found = late_rank(job([(78, 58)] * STEPS, computes_from=(20, 0), waits=True))
    assert found is not None
    assert (found.cause, found.extra) == ("input", 20.0 * MS)


def test_a_rank_that_is_late_for_no_reason_that_shows() -> None:
    found = late_rank(job([(78, 58)] * STEPS, computes_from=(20, 0)))
    assert found is not None
    assert (found.cause, found.extra) == ("unknown", 0.0)


@pytest.mark.parametrize(
    "arrivals",
    [
        [(78, 58)] * 6 + [(58, 78)] * 6,  # they take turns
        [(78, 58)] * 4,  # too few to tell from chance
        [(60, 60)] * STEPS,
    ],
)
def test_nobody_is_late_for_sure(arrivals: list[tuple[float, ...]]) -> None:
    assert late_rank(job(arrivals)) is None
    assert delay_by_late_rank(job(arrivals), 1) == 0


def test_two_of_three_collectives_tell_where_all_recorded_steps_say_the_same() -> None:
    arrivals = [(78, 58), (78, 58), (58, 60)]
    assert late_rank(job(arrivals)) is None
    found = late_rank(job(arrivals, synth=recorded([(40, 30)] * 25)))
    assert found is not None
    assert (found.rank, found.last, found.collectives) == (0, 2, 3)
    assert found.delay == pytest.approx(40 * MS / 3)
    for forwards in ([(40, 30)] * 15, [(40, 30), (30, 40)] * 20, [(34, 30)] * 25, [(30, 40)] * 25):
        assert late_rank(job(arrivals, synth=recorded(forwards))) is None


def test_nobody_is_late_within_the_uncertainty_of_the_clocks() -> None:
    """The collective takes 2 ms: ends may differ by as much, and then a delay of 1 ms tells nothing."""
    run = job([(78, 77)] * STEPS)
    found = late_ranks(run).select("rank", "last", "mean_delay", "uncertainty").rows()
    assert found == [(0, STEPS, 1.0 * MS, 2 * MS), (1, 0, None, 2 * MS)]
    assert late_rank(run) is None
    blocks = distributed.SECTION.build(run)
    assert "Stragglers" not in [block.title for block in blocks if isinstance(block, Table)]
    assert (
        "Rank 0 entered 12 of 12 collectives last, by 1 ms on average. That is less than the uncertainty of its "
        "clock, 2 ms, so it is not called late."
    ) in [text(block) for block in blocks if isinstance(block, Text)]


def test_the_others_wait_for_it() -> None:
    run = job([(78, 58)] * STEPS)
    assert (delay_by_late_rank(run, 0), delay_by_late_rank(run, 1)) == (0, 20 * MS)
    assert [block.rule for block in diagnose(run).findings] == ["straggler"]


def test_a_trace_of_one_rank_cannot_tell() -> None:
    run = job([(78,)] * STEPS)
    with pytest.raises(MissingData):
        late_rank(run)
    assert delay_by_late_rank(run, 0) == 0
    assert "straggler" in [unchecked.rule for unchecked in diagnose(run).unchecked]


def test_a_job_that_does_not_communicate_has_no_late_rank() -> None:
    assert "straggler" in diagnose(Synth().step(0, 0, 100).step(1, 100, 200).run()).checked


@pytest.mark.parametrize(
    ("collective", "group", "words"),
    [
        ("allreduce", "mesh_dp", "large buckets"),
        ("allreduce", "mesh_tp", "tensor-parallel group"),
        ("_allgather_base", "mesh_fsdp", "next layers"),
        ("all_to_allv", "mesh_ep", "local work"),
        ("send", "mesh_pp", "micro-batches"),
    ],
)
def test_advice_follows_what_is_exposed(collective: str, group: str, words: str) -> None:
    synth = Synth().add("processes", source="t")
    header = f'{{"rank": 0, "pg_config": [{{"pg_name": "3", "pg_desc": "{group}"}}]}}'
    synth.add("meta", source="t", key="distributedInfo", value=header)
    for step in range(4):
        at = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", at, at + 100).kernel(at, at + 70)
        synth.kernel(at + 70, at + 100, "ncclDevKernel_SendRecv", collective=collective, group="3", stream="9")
    (finding,) = [block.finding for block in diagnose(synth.run()).findings if block.rule == "exposed-communication"]
    assert words in finding.advice[0].text
    assert finding.evidence[1].value == pytest.approx(30 * MS)


def test_too_little_computing_is_said() -> None:
    synth = Synth()
    for step in range(4):
        at = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", at, at + 100).kernel(at, at + 30)
        synth.kernel(at + 30, at + 100, ALL_REDUCE, stream="9")
    (finding,) = [block.finding for block in diagnose(synth.run()).findings if block.rule == "exposed-communication"]
    assert "Communicate less" in finding.advice[-1].text


def test_a_job_on_the_cpu_waits_for_gloo() -> None:
    synth = Synth()
    for step in range(4):
        at = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", at, at + 100).host("aten::mm", "operator", at, at + 60)
        synth.host("gloo:all_reduce", "annotation", at + 50, at + 90, thread="2")
    (finding,) = [block.finding for block in diagnose(synth.run()).findings if block.rule == "exposed-communication"]
    assert title_text(finding.title).startswith("all_reduce is exposed")
    assert [(evidence.value, evidence.share, evidence.source) for evidence in finding.evidence] == [
        (30.0 * MS, 0.3, "overlap"), (0.6, None, "overlap"),
    ]  # fmt: skip
