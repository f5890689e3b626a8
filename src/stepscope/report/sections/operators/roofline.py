"""How near the work of each kind comes to what the device can do, and how much of its arithmetic the steps use."""

import polars as pl

from stepscope.analyses.operators.mfu import mfu
from stepscope.analyses.operators.roofline_kinds import roofline_kinds
from stepscope.core.report import Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.report.sections import RANKS_SHOWN, excerpt, has_device_work, is_traced, literal, many

__all__ = ["SECTION"]

_HEADINGS = {
    "rank": "rank", "kind": "kind of work", "total": "total", "share": "share of computing", "known": "known",
    "roofline": "of the roofline", "lost": "lost", "speed": "speed", "bandwidth": "bandwidth",
}  # fmt: skip


def build(run: Run) -> list[Block]:
    if is_traced(run) and not has_device_work(run):
        return []  # the peaks of CPUs are not known
    table = roofline_kinds(run).sort("total", descending=True, maintain_order=True)
    blocks = excerpt("", roofline_kinds, table, _HEADINGS, limit=RANKS_SHOWN, name="roofline_kinds")
    if table["gpu"].is_null().all():
        return [*blocks, Text("No roofline: the peaks of this device are unknown.")]
    return [*blocks, *_utilization(run)]


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
            "FLOPs are known of {} of the computing time.",
            (Value(used, "ratio"), Value(count, "count"), Value(coverage, "ratio")),
        )
        for gpu, count, used, coverage in means.iter_rows()
    ]


SECTION = Section(title="Roofline", order=92, group="kernels", build=build)
