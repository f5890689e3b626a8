"""How near the kernels of a run come to the peaks of their device: what is left where no check finds a problem."""

import polars as pl

from stepscope.analyses.operators.lib.flops import HEAVY
from stepscope.analyses.operators.lib.roofline_times import timed_calls
from stepscope.core.errors import MissingData
from stepscope.core.report import Block, Text, Value
from stepscope.core.run import Run, stack

__all__ = ["speed_limit"]

MOSTLY = 0.9  # of the kernels' time with known work: of less, the line says how much
LEAST = 0.2  # of it: with less, nobody knows how fast the rest is


def speed_limit(run: Run) -> list[Block]:
    """One sentence about the device that computes longest; nothing where its peaks or the work are not known."""
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
    text = f"Kernels reach {{}} of the {gpu}'s memory bandwidth"
    values = [Value(best["moving"] / best["time"], "ratio")]
    if best["precision"] is not None:
        text = f"Kernels reach {{}} of the {gpu}'s {best['precision']} peak and {{}} of its memory bandwidth"
        values.insert(0, Value(best["computing"] / best["time"], "ratio"))
    if known < MOSTLY:
        text += " (work known for {} of kernel time)"
        values.append(Value(known, "ratio"))
    return [Text(f"{text}.", tuple(values))]


def _sums(run: Run) -> pl.DataFrame:
    """By device: ns of its kernels, of those with known work, at the peak of memory, and at that of a precision.

    The precision is that of most of the heavy arithmetic; null without any.
    """
    found = timed_calls(run)
    on_device = pl.col("device").is_not_null() & (pl.col("time") > 0)
    calls, unknown = found.calls.filter(on_device), found.unknown.filter(on_device)
    every = pl.concat([part.select("rank", "device", "time") for part in (calls, unknown)])
    wholes = every.group_by("rank", "device").agg(pl.col("time").sum())
    known = calls.filter(pl.col("computing").is_not_null() & pl.col("moving").is_not_null())
    sums = known.group_by("rank", "device", "gpu").agg(known=pl.col("time").sum(), moving=pl.col("moving").sum())
    heavy = known.filter(pl.col("kind").is_in(HEAVY) & (pl.col("flops") > 0) & pl.col("precision").is_not_null())
    used = heavy.group_by("rank", "device", "precision").agg(pl.col("flops", "computing").sum())
    used = used.sort("flops", "precision", descending=True).unique(
        ["rank", "device"], keep="first", maintain_order=True
    )
    keys = ("rank", "device")
    return wholes.join(sums, on=keys).join(used.drop("flops"), on=keys, how="left").sort(keys)
