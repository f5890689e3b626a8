"""Traces of the capture of device graphs: what is launched there does not run, so nothing limits it."""

import polars as pl

from stepscope.core.run import Run, chain

__all__ = ["captures"]

ENOUGH_LAUNCHES = 10  # calls that launch work: of fewer nothing can be said
CAPTURED = 0.1  # of the launches left work on the device: the others were captured into a graph


def captures(run: Run) -> bool:
    """Whether the launches of a trace were captured: nearly none of them left work on the device."""
    counts = run.per_rank(_launches, chain)
    launched, captures, ran = (sum(count[at] for count in counts) for at in (1, 2, 3))
    return launched >= ENOUGH_LAUNCHES and captures > 0 and ran < CAPTURED * launched


def _launches(run: Run) -> tuple[tuple[int, int, int, int], ...]:
    """Of each rank: its number, calls that launch, calls that begin or end a capture, and kernels that ran."""
    calls = run.where("host", pl.col("kind").is_in(["runtime", "driver"]), "rank", "name")
    name = pl.col("name").cast(pl.String)
    called = calls.group_by("rank").agg(
        launched=name.str.contains("LaunchKernel").sum(),
        captures=name.str.contains("BeginCapture|EndCapture|GetCaptureInfo").sum(),
    )
    ran = run.where("device", pl.col("kind") == "kernel", "rank").group_by("rank").agg(ran=pl.len())
    return tuple(called.join(ran, on="rank", how="left").with_columns(pl.col("ran").fill_null(0)).sort("rank").rows())
