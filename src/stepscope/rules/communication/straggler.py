"""One rank comes late to most collectives, and all others wait for it.

## What it finds
A rank that arrives last at most of its collectives, more often than chance can explain. Its delay costs the others more
than 5 % of the step. It says whether that rank waits longer for its data, computes longer, or neither.

## Why it costs time
A collective ends on all ranks when the last one has come. All other ranks wait for the extra time of the slowest.

## What to do
Make that rank do what the others do. If it waits for data: the same storage, the same number of loader workers, shards
of equal size. If it computes longer: batches of equal length, and a look at the clock, temperature and other users of
its device. Else: what only this rank does, such as logging, checkpoints and progress bars of rank 0, and the cores that
it may use.

## How the gain is predicted
High end: the delay, which is the time by which the rank comes after the last of the others, summed over the collectives
of a step. Low end: half of it, because part of it may hide behind computing, and the next slowest rank is not far. If
its cause is not known, or the rank computes longer on the CPU, 0.6 to 1.15 times what remains when the work is shared
evenly. Measured with two ranks: 0.65 and 1.06 times.

## When it is wrong
Durations are compared, not clocks, so clocks that differ do no harm. A rank that comes late to its first collective of
the step only because the profiler starts there costs nothing outside the traced window. With a pipeline, a stage waits
for the one before by design; send and receive do not count here.
"""

from collections.abc import Iterator

from stepscope.analyses.bound.lib.straggler import LateRank, late_rank
from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Cause, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

ALL_GOES = (0.5, 1.0)  # of the delay that can go: the next slowest rank is not far
SHARED = (0.6, 1.15)  # of what sharing the work evenly saves: 0.65 and 1.06 were measured with two ranks
MIN_SHARE = 0.05  # of the step, which every rank of the job loses: half of what a single process would have to lose
_BEHIND = "delay of this rank behind the last of the others"
_SHARED = "delay of this rank, with its extra work shared evenly"


def check(run: Run) -> Iterator[Finding]:
    if run.optional("processes", "world_size")["world_size"].max() == 1:
        return  # a job of one rank waits for nobody
    try:
        collectives(run)
    except MissingData:
        return  # nor does one whose ranks do not communicate
    found = late_rank(run)
    if found is None or found.delay <= MIN_SHARE * found.step:
        return
    low, high = _saved(run, found)
    yield Finding(
        title=Title(
            (_WORDS if _ranks(run) > 2 else _WORDS_OF_TWO)[found.cause], (str(found.rank), Value(found.delay, "ns"))
        ),
        cause=_CAUSES[found.cause],
        evidence=_evidence(run, found),
        gain=Gain(
            low_ns=low,
            high_ns=high,
            step_ns=int(found.step),
            basis=_BEHIND if _goes(run, found) else _SHARED,
            confidence="structural",
            pool="communication",
        ),
        advice=_advice(run, found),
        ranks=(found.rank,),
        where=model_places(run, found.rank) if found.cause != "input" else (),
    )


def _ranks(run: Run) -> int:
    return max(2, run.optional("processes", "rank")["rank"].n_unique())


def _saved(run: Run, found: LateRank) -> tuple[int, int]:
    """Range in ns: all of the delay where its cause can go; else what remains of work that all ranks share evenly."""
    part, (low, high) = (1.0, ALL_GOES) if _goes(run, found) else (1 - 1 / _ranks(run), SHARED)
    most = min(found.delay, found.step)
    return int(low * part * most), int(min(high * part, 1.0) * most)


def _goes(run: Run, found: LateRank) -> bool:
    return found.cause == "input" or (found.cause == "compute" and has_gpu(run))


def _advice(run: Run, found: LateRank) -> tuple[Advice, ...]:
    """Of a rank that computes longer on the CPU the clock of a GPU is no business."""
    first, *others = _ADVICE[found.cause]
    return tuple(others) if found.cause == "compute" and not has_gpu(run) else (first, *others)


def _evidence(run: Run, found: LateRank) -> tuple[Evidence, ...]:
    rows = (
        Evidence(
            label="delay per step", value=found.delay, unit="ns", source="late_ranks", share=found.delay / found.step
        ),
        Evidence(
            label="last in collectives",
            value=found.last,
            unit="count",
            source="late_ranks",
            of=found.collectives,
        ),
    )
    if found.cause == "input":
        label = "extra data wait"
        return (rows[0], Evidence(label=label, value=found.extra, unit="ns", source="steps"), rows[1])
    if found.cause == "compute":
        label = "extra compute time"
        source = "device_time" if has_gpu(run) else "operators"
        return (rows[0], Evidence(label=label, value=found.extra, unit="ns", source=source), rows[1])
    return rows


_WORDS = {
    "input": "Rank {} delays the others {} per step: it waits for data",
    "compute": "Rank {} delays the others {} per step: it computes longer",
    "unknown": "Rank {} delays the others {} per step",
}
_WORDS_OF_TWO = {
    "input": "Rank {} delays the other {} per step: it waits for data",
    "compute": "Rank {} delays the other {} per step: it computes longer",
    "unknown": "Rank {} delays the other {} per step",
}
_CAUSES: dict[str, Cause] = {"input": "data-reading", "compute": "model", "unknown": "scheduling"}
_ADVICE = {
    "input": (
        Advice(
            text="Give this rank the same workers, storage and shard size as the others",
            code="loader = DataLoader(dataset, sampler=DistributedSampler(dataset), num_workers=8, prefetch_factor=4)",
        ),
    ),
    "compute": (
        Advice(
            text="Check the clock, temperature, power and other processes of its GPU",
            code="nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE -i LOCAL_RANK  # AMD: rocm-smi",
            language="shell",
        ),
        Advice(
            text="Balance batch lengths between ranks: bucket by length, or pack samples",
            code="order = sorted(range(len(dataset)), key=lambda index: len(dataset[index]))\n"
            "own = order[rank::world_size]  # each rank has short and long ones",
        ),
    ),
    "unknown": (
        Advice(
            text="Move work of this rank alone out of the step: logging, checkpoints, progress bars",
            code="if rank == 0 and step % 100 == 0:\n    log(loss.item())  # an item() waits for the device",
        ),
        Advice(
            text="Check which cores and memory node its process uses",
            code="taskset -cp PID  # and: numactl --show",
            language="shell",
        ),
    ),
}


def example(synth: Synth, fixed: bool) -> None:
    length, computing = (80, 70) if fixed else (100, 90)
    for step in range(12):
        start = step * length
        for rank in (0, 1):
            arrives = start + (computing if rank == 0 else 70)
            synth.host(f"ProfilerStep#{step}", "annotation", start, start + length, rank=rank)
            synth.host("cudaLaunchKernel", "runtime", start, start + 0.1, rank=rank, correlation=step + 1)
            synth.kernel(start, arrives, rank=rank)
            synth.kernel(
                arrives, start + computing + 2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream="9", rank=rank,
                correlation=step + 1, collective="allreduce", collective_sequence=step, group="0", group_size=2,
            )  # fmt: skip
            synth.kernel(start + computing + 2, start + length, rank=rank)


RULE = Rule(check=check, example=example)
