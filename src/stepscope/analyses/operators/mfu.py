"""How much of the device's peak arithmetic each step uses: model FLOPs utilization.

One row is a step on a device; device null is the host, in a rank that shows no work of a device. `flops` counts matrix
products, convolutions and attention whose shapes were recorded, of the calls whose device work starts in the step.
`mfu` is the time that these take at the device's dense peak for their precision, over the duration of the step.
`coverage` is the share of computing time in operators with known FLOPs. Where it is below 1, `mfu` is a lower bound.
Work that activation checkpointing repeats counts too, as in hardware FLOPs utilization, because a trace does not tell
it apart. Definition: Chowdhery et al., "PaLM", 2022, appendix B. Steps are adjusted to their device work, as in
`step_breakdown`; times are ns. Peaks: `core/gpus.toml`.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.analyses.lib.tb_step_bounds import adjusted_steps
from stepscope.analyses.operators.lib.flops import HEAVY
from stepscope.analyses.operators.lib.roofline_times import Timed, timed_calls
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device; null: the host"),
    Column("gpu", pl.String, None, "product whose peaks were taken; null: not in the data of peaks"),
    Column("step", pl.Int64, None, "number in the step marker; 0 for a trace without"),
    Column("duration", pl.Int64, "ns", "length of the step"),
    Column("flops", pl.Float64, "FLOP", "arithmetic of matrix products, convolutions and attention; null: unknown"),
    Column("speed", pl.Float64, "FLOP/s", "that over the duration"),
    Column("mfu", pl.Float64, "ratio", "time of that arithmetic at the device's peak, over the duration"),
    Column("coverage", pl.Float64, "ratio", "share of the computing time with known FLOPs; null: the host"),
)
_DEVICE = ("rank", "device")
_STEP = (*_DEVICE, "window", "step", "start", "duration")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device and time. Raises MissingData without recorded shapes."""
    steps = adjusted_steps(run).with_columns(duration=pl.col("end") - pl.col("start"))
    work = _in_steps(_work(timed_calls(run)), steps)
    heavy, flops, peak_time = pl.col("is_heavy"), pl.col("flops"), pl.col("computing")
    known = flops.is_not_null()
    rows = work.group_by(_STEP, maintain_order=True).agg(
        gpu=pl.col("gpu").drop_nulls().first(),
        flops=pl.when((heavy & known).any() | (~heavy & known).all()).then(flops.filter(heavy).sum()),
        at_peak=pl.when(peak_time.is_not_null().filter(heavy & known).all()).then(peak_time.filter(heavy).sum()),
        known=pl.col("time").filter(known).sum(),
        time=pl.col("time").sum(),
    )
    some, has_gpu = pl.col("duration") > 0, pl.col("gpu").is_not_null()
    coverage = pl.when((pl.col("time") > 0) & pl.col("device").is_not_null()).then(
        quotient(pl.col("known"), pl.col("time"))
    )
    rows = rows.with_columns(
        speed=pl.when(some).then(quotient(flops, pl.col("duration")) * 1e9),
        mfu=pl.when(some & has_gpu & known).then(quotient(pl.col("at_peak"), pl.col("duration"))),
        coverage=coverage,
    )
    return shaped(rows.sort(*_DEVICE, "start", nulls_last=True), COLUMNS)


def _work(found: Timed) -> pl.DataFrame:
    calls = found.calls.select(
        *_DEVICE, "at", "time", "gpu", "flops", "computing", is_heavy=pl.col("kind").is_in(HEAVY)
    )
    unknown = found.unknown.with_columns(is_heavy=pl.lit(False))
    return pl.concat([calls, unknown], how="diagonal").sort("at")


def _in_steps(work: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Work with the step that it starts in; what starts in none is left out."""
    placed = work.join_asof(
        steps.select("rank", "window", "step", "start", "end", "duration").sort("start"),
        left_on="at", right_on="start", by="rank", strategy="backward", check_sortedness=False,
    )  # fmt: skip
    return placed.filter(pl.col("at") < pl.col("end"))


LEADING = ("step", "duration", "mfu", "coverage", "speed", "flops", "gpu")
ANALYSIS = mfu = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
