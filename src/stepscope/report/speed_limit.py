"""How near the kernels of a run come to the peaks of their device, and how short a step could be at these peaks."""

import polars as pl

from stepscope.analyses.operators.lib.flops import HEAVY
from stepscope.analyses.operators.lib.roofline_times import timed_calls
from stepscope.analyses.operators.speed_of_light import speed_of_light
from stepscope.core.errors import MissingData
from stepscope.core.report import Block, Table, Text, Value, Verdict
from stepscope.core.run import Run, stack
from stepscope.core.schema import Unit

__all__ = ["speed_limit"]

MOSTLY = 0.9  # of the kernels' time with known work: of less, the line says how much
WORTH_A_TABLE = 0.05  # of the step above the limit: with less, better kernels are not the answer
LARGEST = 3  # operators: most of the distance is in few
LEAST = 0.2  # of it: with less, nobody knows how fast the rest is


def speed_limit(run: Run, verdict: Verdict) -> list[Block]:
    """Of the device that computes longest; nothing where its peaks or the work are not known.

    Where the device limits, the step at its limit comes first: each operator at the higher of its two roofs (see
    `roofline`), kernels of unknown work and all else as now.
    """
    try:
        sums = run.per_rank(_sums, stack)
    except MissingData:
        return []
    if sums.is_empty():
        return []
    best = sums.sort("time", "rank", descending=[True, False]).row(0, named=True)
    known = best["known"] / best["time"]
    if known < LEAST or best["gpu"] is None:
        return []
    gpu = best["gpu"].replace("{", "{{").replace("}", "}}")
    blocks: list[Block] = []
    if verdict.bound == "device" and not verdict.on_cpu:
        blocks += _step_at_limit(run, gpu, best, verdict)
    text = f"Kernels reach {{}} of the {gpu}'s memory bandwidth"
    values = [Value(best["moving"] / best["time"], "ratio")]
    if best["precision"] is not None:
        text = f"Kernels reach {{}} of the {gpu}'s {best['precision']} peak and {{}} of its memory bandwidth"
        values.insert(0, Value(best["computing"] / best["time"], "ratio"))
    if known < MOSTLY:
        text += " (work known for {} of kernel time)"
        values.append(Value(known, "ratio"))
    return [*blocks, Text(f"{text}.", tuple(values))]


def _step_at_limit(run: Run, gpu: str, sums: dict[str, float], verdict: Verdict) -> list[Block]:
    saved = max(0.0, (sums["known"] - sums["ideal"]) / sums["time"]) * (verdict.share or 0.0)
    if not verdict.step_ns or saved >= 1:
        return []
    where = " per step" if verdict.steps else ""
    values = (Value(verdict.step_ns * (1 - saved), "ns"), Value(1 / (1 - saved), "count"))
    limit = Text(f"Limit for these operators on the {gpu}: {{}}{where} ({{}}× faster).", values)
    return [limit, *(_headroom(run, sums, verdict) if saved >= WORTH_A_TABLE else ())]


def _headroom(run: Run, sums: dict[str, float], verdict: Verdict) -> list[Block]:
    """The operators with the most time above their limit, in time per step: shares of the kernels' time in it."""
    on_device = (pl.col("rank") == sums["rank"]) & pl.col("device").eq_missing(sums["device"]) & (pl.col("lost") > 0)
    rows = speed_of_light(run).filter(on_device).head(LARGEST)
    per_step = (verdict.share or 0.0) * (verdict.step_ns or 0.0) / sums["time"]
    times = rows.with_columns(pl.col("total", "at_limit") * per_step)
    cells = tuple(times.select("operator", "total", "at_limit", "why").iter_rows())
    if not cells:
        return []
    columns: tuple[tuple[str, Unit | None], ...] = (
        ("operator", None), ("per step now", "ns"), ("at the limit", "ns"), ("why", None),
    )  # fmt: skip
    return [Table("Operators furthest above the limit", columns, cells, source="speed_of_light")]


def _sums(run: Run) -> pl.DataFrame:
    """By device: ns of its kernels, of those with known work, these at their roofs, and at the peaks of memory and of a
    precision.

    The precision is that of most of the heavy arithmetic; null without any.
    """
    found = timed_calls(run)
    on_device = pl.col("device").is_not_null() & (pl.col("time") > 0)
    calls, unknown = found.calls.filter(on_device), found.unknown.filter(on_device)
    every = pl.concat([part.select("rank", "device", "time") for part in (calls, unknown)])
    wholes = every.group_by("rank", "device").agg(pl.col("time").sum())
    known = calls.filter(pl.col("computing").is_not_null() & pl.col("moving").is_not_null())
    sums = known.group_by("rank", "device", "gpu").agg(
        pl.col("moving").sum(), known=pl.col("time").sum(), ideal=pl.min_horizontal("ideal", "time").sum()
    )
    heavy = known.filter(pl.col("kind").is_in(HEAVY) & (pl.col("flops") > 0) & pl.col("precision").is_not_null())
    used = heavy.group_by("rank", "device", "precision").agg(pl.col("flops", "computing").sum())
    used = used.sort("flops", "precision", descending=True).unique(
        ["rank", "device"], keep="first", maintain_order=True
    )
    keys = ("rank", "device")
    return wholes.join(sums, on=keys).join(used.drop("flops"), on=keys, how="left").sort(keys)
