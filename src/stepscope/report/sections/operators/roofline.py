"""How near the work of each kind comes to what the device can do, and how much of its arithmetic the steps use."""

import polars as pl

from stepscope.analyses.operators.lib.flops import HEAVY
from stepscope.analyses.operators.lib.roofline_times import timed_calls
from stepscope.analyses.operators.mfu import mfu
from stepscope.analyses.operators.roofline_kinds import roofline_kinds
from stepscope.analyses.steps.steady_steps import marks_steps
from stepscope.core.report import Block, Roof, Roofline, RooflinePoint, Section, Text, Value
from stepscope.core.run import Run, stack
from stepscope.report.sections import RANKS_SHOWN, excerpt, has_device_work, is_traced, literal, many

__all__ = ["SECTION"]

_HEADINGS = {
    "rank": "rank", "kind": "kind of work", "total": "total", "share": "share of computing", "known": "FLOPs known",
    "roofline": "roofline efficiency", "lost": "time lost", "speed": "speed", "bandwidth": "bandwidth",
}  # fmt: skip

_MEANING = (
    "Roofline efficiency: the least time at peak arithmetic or memory speed, as a share of the measured time. "
    "Time lost is the rest."
)
_SECOND = 1e9  # ns
_LIGHT = "vector"  # what the arithmetic outside of tensor and matrix cores is called


def build(run: Run) -> list[Block]:
    if is_traced(run) and not has_device_work(run):
        return []  # the peaks of CPUs are not known
    table = roofline_kinds(run).sort("total", descending=True, maintain_order=True)
    blocks = excerpt("", roofline_kinds, table, _HEADINGS, limit=RANKS_SHOWN, name="roofline_kinds")
    if table["gpu"].is_null().all():
        return [*blocks, Text("No roofline efficiency: the peak speeds of this device are unknown.")]
    return [*_chart(run), *blocks, Text(_MEANING), *_utilization(run)]


def _chart(run: Run) -> list[Block]:
    """The kinds of work of the device that computes longest, below the roofs of the precisions that it used."""
    work = run.per_rank(_placed_work, stack)
    if work.is_empty():
        return []
    busiest = work.group_by("rank", "device", "gpu").agg(pl.col("time").sum()).sort("time", descending=True)
    rank, device, gpu, _ = busiest.row(0)
    own = work.filter(pl.col("rank").eq_missing(rank), pl.col("device").eq_missing(device))
    sums = own.group_by("kind").agg(pl.col("flops", "bytes", "time").sum()).sort("time", descending=True)
    roofs = own.group_by("peak", "label").agg(pl.col("time").sum()).sort("time", descending=True)
    points = tuple(
        RooflinePoint(kind, flops / moved, flops / time * _SECOND, time)
        for kind, flops, moved, time in sums.iter_rows()
    )
    labels = {peak: name for peak, name, _ in reversed(roofs.rows())}  # of two with one peak, the longer used
    several = work["rank"].n_unique() > 1 or work["device"].n_unique() > 1
    title = f"Roofline of {gpu}" + (f", rank {rank}" if several else "")
    drawn = tuple(Roof(labels[peak], peak) for peak in sorted(labels, reverse=True))
    return [Roofline(title, own["memory_speed"][0], drawn, points)]


def _placed_work(run: Run) -> pl.DataFrame:
    """Sums of the calls that have a place in the chart, by device, kind of work and roof."""
    calls = timed_calls(run).calls.drop_nulls(("flops", "bytes", "peak", "memory_speed"))
    calls = calls.filter((pl.col("flops") > 0) & (pl.col("bytes") > 0) & (pl.col("time") > 0))
    precision = pl.col("precision").fill_null("unknown")
    label = pl.when(pl.col("kind").is_in(HEAVY)).then(precision).otherwise(pl.lit(_LIGHT))
    return calls.group_by(
        "rank", "device", "gpu", "kind", "peak", "memory_speed", label=label, maintain_order=True
    ).agg(pl.col("flops", "bytes", "time").sum())


def _utilization(run: Run) -> list[Block]:
    """The mean step of each product, weighted by duration."""
    steps = mfu(run).drop_nulls("mfu")
    weight = pl.col("duration") / pl.col("duration").sum()
    means = steps.group_by("gpu", maintain_order=True).agg(
        pl.len(), (pl.col("mfu") * weight).sum(), (pl.col("coverage") * weight).sum()
    )
    return [
        Text(
            f"Model FLOPs utilization: {{}} of the peak of {literal(gpu)}, over {many(count, 'step')}; "
            "FLOPs are known for {} of the computing time.",
            (Value(used, "ratio"), Value(count, "count"), Value(coverage, "ratio")),
        )
        if marks_steps(run)
        else Text(
            f"Model FLOPs utilization: {{}} of the peak of {literal(gpu)}, over the whole recording; "
            "FLOPs are known for {} of the computing time.",
            (Value(used, "ratio"), Value(coverage, "ratio")),
        )
        for gpu, count, used, coverage in means.iter_rows()
    ]


SECTION = Section(title="Roofline", order=92, group="kernels", build=build)
