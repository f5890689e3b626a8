"""Many small collectives follow one another in every step.

## What it finds
Twenty calls or more of one collective per step and process group, half of them below 256 KiB where sizes were recorded.
Their exposed time is more than 5 % of the step.

## Why it costs time
A collective costs its latency, however small it is: 20 to 50 µs on NCCL, 100 µs and more on gloo. A loop that reduces
each parameter, or each metric, pays it every time. One call for all of them pays it once.

## What to do
For gradients use DistributedDataParallel, which fills buckets, or reduce one flat tensor. Put metrics into one tensor,
and reduce it once, every hundredth step.

## How the gain is predicted
The exposed time of these calls, without one call, times 0.6 to 1.2: the Python around each call goes, too. Measured
with gloo on two ranks: 0.77 with 52 calls, 1.11 with 204.

## When it is wrong
Calls that depend on one another, as in tensor parallelism, cannot be merged; groups that their job names so are left
out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound.lib.exposed_time import exposed_communication
from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.lib.communicating_lines import communicating_lines
from stepscope.analyses.communication.process_groups import process_groups
from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.launch_lines import launch_places
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title, Value
from stepscope.core.run import Run, stack
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MANY = 20  # calls per step: DistributedDataParallel sends a model of 500 MB in as many buckets
SMALL = 2**18  # bytes: below it latency is most of the time, at 10 GB/s and 20 µs
RANGE = (0.6, 1.2)  # of the calls' exposed time, since Python around each goes, too; measured 0.77 and 1.11 with gloo
MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
_MODEL_PARALLEL = "tensor|expert|context|sequence|pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    rank: int
    collective: str
    calls: float  # per step
    size: float | None  # median bytes; None: no shapes were recorded
    each: float  # ns, mean
    saved: float  # ns per step
    step: float  # ns


def check(run: Run) -> Iterator[Finding]:
    found = [row for row in _small(run) if row.saved >= MIN_SHARE * row.step]
    if not found:
        return
    worst = max(found, key=lambda row: row.saved / row.step)
    yield Finding(
        title=Title(
            "{} small {} calls per step cost {} ({})",
            (
                Value(round(worst.calls), "count"),
                worst.collective,
                Value(worst.saved, "ns"),
                Value(worst.saved / worst.step, "ratio"),
            ),
        ),
        cause="configuration",
        evidence=(
            Evidence(label="calls per step", value=round(worst.calls), unit="count", source="collectives"),
            *_size(worst),
            Evidence(label="time of one, traced", value=worst.each, unit="ns", source="collectives"),
        ),
        gain=Gain(
            low_ns=int(RANGE[0] * worst.saved),
            high_ns=int(min(RANGE[1] * worst.saved, worst.step)),
            step_ns=int(worst.step),
            basis="exposed communication of these calls but one, and Python around them",
            confidence="structural",
            pool="communication",
        ),
        advice=_ADVICE,
        ranks=tuple(sorted({row.rank for row in found})),
        where=_places(run, worst),
    )


def _small(run: Run) -> Iterator[_Calls]:
    exposed = {row.rank: row for row in exposed_communication(run)}
    divided = process_groups(run).filter(pl.col("parallel").str.contains(_MODEL_PARALLEL))
    table = collectives(run)
    table = table.join(divided, on=("rank", "group"), how="anti", nulls_equal=True)
    steps = dict(table.group_by("rank").agg(pl.col("step").drop_nulls().n_unique()).iter_rows())
    known = table.drop_nulls("step").with_columns(whole=pl.col("duration").sum().over("rank"))
    groups = known.group_by("rank", "group", "collective").agg(
        pl.len(),
        pl.col("bytes").median(),
        pl.col("duration").mean(),
        part=pl.col("duration").sum() / pl.col("whole").first(),
    )
    for row in groups.sort("rank", "group", "collective", nulls_last=True).iter_rows(named=True):
        calls, whole = row["len"] / max(steps[row["rank"]], 1), exposed.get(row["rank"])
        if whole is not None and calls >= MANY and (row["bytes"] is None or row["bytes"] < SMALL):
            yield _Calls(
                rank=row["rank"], collective=row["collective"], calls=calls, size=row["bytes"],
                each=row["duration"], saved=whole.removable * row["part"] * (1 - 1 / calls), step=whole.step,
            )  # fmt: skip


def _size(row: _Calls) -> tuple[Evidence, ...]:
    if row.size is None:
        return ()
    return (Evidence(label="median size", value=row.size, unit="bytes", source="collectives"),)


def _places(run: Run, worst: _Calls) -> tuple[Place, ...]:
    """The lines that call it, as frames, samples or the kept source tell."""
    launched = launch_places(
        run.per_rank(communicating_lines, stack, only=worst.rank), worst.rank, worst.saved / worst.step
    )
    called = rf"\b{worst.collective}\w*\("
    return launched or model_places(run, worst.rank, called) or setting_places(run, called, worst.rank)


_ADVICE = (
    Advice(
        text="Reduce one flat tensor instead of many",
        code="flat = torch.cat([value.reshape(-1) for value in values])\n"
        "dist.all_reduce(flat)\n"
        "for value, part in zip(values, flat.split([value.numel() for value in values])):\n"
        "    value.copy_(part.view_as(value))",
    ),
    Advice(
        text="For gradients: let DistributedDataParallel fill buckets while backward goes on",
        code="model = DistributedDataParallel(model, gradient_as_bucket_view=True)",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    """31 calls of 1 ms, one after the other; fixed, one of 1 ms."""
    calls = 1 if fixed else 31
    length = 60 + calls
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.kernel(start, start + 60)
        for number in range(calls):
            at, correlation = start + 60 + number, 100 * step + number + 1
            synth.host("cudaLaunchKernel", "runtime", at - 1, at - 0.9, correlation=correlation)
            synth.kernel(
                at, at + 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream="9", correlation=correlation,
                collective="allreduce", collective_sequence=correlation, group="0", group_size=2, dtype="Float",
                in_elements=100, out_elements=100,
            )  # fmt: skip


RULE = Rule(check=check, example=example, explains="exposed-communication")
