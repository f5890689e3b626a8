"""How much of a device's idle time is there because the host was recorded.

Without the profiler the host would launch earlier, by what recording had cost it since it last waited: for the device,
for a batch, or in a collective. A gap shrinks by that, less what the gaps before it since then have shrunk, as the
device was earlier by as much. No gap shrinks by more than the part in which it waits for the host.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.device.lib.device_gaps import device_gaps
from stepscope.analyses.host.lib.recording_cost import recording_costs
from stepscope.core.intervals import Spans
from stepscope.core.run import Run

__all__ = ["recording_idle", "shrunk"]

_WAITS = ("data_wait", "collective", "sync")
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def recording_idle(run: Run, rank: int, device: int | None, window: Spans) -> float:
    """The share of a device's idle time outside of data waits that is there because recording makes the host late.

    Of the gaps that begin within the window; 0 where no host is recorded.
    """
    cost = recording_costs(run).get(rank)
    gaps = device_gaps(run).filter((pl.col("rank") == rank) & pl.col("device").eq_missing(device))
    gaps = gaps.sort("start").filter(pl.Series(_inside(gaps["start"].sort().to_numpy(), window), dtype=pl.Boolean))
    if cost is None or gaps.is_empty():
        return 0.0
    start, waited = gaps["start"].to_numpy(), gaps.select(pl.sum_horizontal(_WAITS)).to_series().to_numpy()
    launched = gaps.select(pl.coalesce("call_end", "start")).to_series().to_numpy()
    late = gaps.select(pl.col("host") + pl.col("launch")).to_series().to_numpy()
    since = np.flatnonzero((waited > 0) | (np.arange(len(start)) == 0))
    saved = cost.until(np.maximum(launched, start))
    base = np.repeat(cost.until(start[since] + waited[since]), np.diff(np.append(since, len(start))))
    idle = gaps.select((pl.col("end") - pl.col("start") - pl.col("data_wait")).sum()).item()
    return shrunk(saved - base, late, since) / idle if idle else 0.0


def _inside(moments: Ints, window: Spans) -> npt.NDArray[np.bool_]:
    at = np.searchsorted(window[:, 0], moments, side="right") - 1
    inside: npt.NDArray[np.bool_] = (at >= 0) & (moments < window[np.maximum(at, 0), 1])
    return inside


def shrunk(saved: Floats, late: Ints, since: Ints) -> float:
    """What all gaps shrink by, in ns, where gap i may shrink by `late[i]`, and those since the last wait by `saved[i]`.

    With s(i) the sum of what shrinks until gap i, s(i) = min(s(i - 1) + late(i), saved(i)), as `saved` never falls
    between two waits; so of a stretch from wait to wait it is the sum of `late`, less the most it exceeds `saved`.
    """
    until = np.cumsum(late) - np.repeat(np.cumsum(late)[since] - late[since], np.diff(np.append(since, len(late))))
    short = np.minimum(np.minimum.reduceat(np.maximum(saved, 0.0) - until, since), 0.0)
    whole = until[np.append(since[1:], len(late)) - 1]
    return float((whole + short).sum())
