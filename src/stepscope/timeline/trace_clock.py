"""One clock for what a run recorded itself and for its traces: that of the traces, where there are any."""

import numpy as np
import polars as pl

from stepscope.core.run import Run
from stepscope.timeline.lanes import Ints

__all__ = ["on_clock"]


def on_clock(run: Run, rank: int | None, times: Ints) -> Ints | None:
    """Times of the recorder of a rank (None: of any) on the clock of its traces, which the times of a run without are.

    Between two readings of both clocks the offset goes from one to the other; outside of them it stays. None: there is
    a trace and nobody read both clocks.
    """
    if not any(run.rows(table) for table in ("host", "device", "memory")):
        return times
    readings = run.optional("clock_readings").sort("time")
    if rank is not None:
        readings = readings.filter(pl.col("rank") == rank)
    if readings.is_empty():
        return None
    at, offset = (readings[name].to_numpy() for name in ("time", "offset"))
    drift = np.interp((times - at[0]).astype(np.float64), (at - at[0]).astype(np.float64), offset - offset[0])
    shifted: Ints = times + offset[0] + np.rint(drift).astype(np.int64)
    return shifted
