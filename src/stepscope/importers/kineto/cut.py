"""Until when a trace that is cut off holds everything: its writer goes through time in the last kinds of events."""

import polars as pl

from stepscope.core.importing import Sink

__all__ = ["whole_until"]

_LAST = 200  # events before the cut that tell how its writer went through time
_IN_ORDER = 0.8  # of them; kernels are written behind the call that launched them, and start later
_TABLES = ("host", "device")


def whole_until(sink: Sink) -> int | None:
    """The moment, ns; the first of all where nothing is whole, None without events.

    Of a job with a device whose work was cut away altogether nothing is whole.
    """
    columns = ("index", "start")
    frames = {name: pl.concat(sink.parts[name]).select(columns) for name in _TABLES if sink.parts.get(name)}
    events = pl.concat(frames.values()) if frames else pl.DataFrame()
    if events.is_empty():
        return None
    starts = events.sort("index")["start"].tail(_LAST)
    first = events["start"].min()
    has_device = "device" in frames and frames["device"].height > 0
    in_order = (starts.diff().drop_nulls() >= 0).mean() if len(starts) > 1 else 0.0
    is_whole = (has_device or "devices" not in sink.parts) and isinstance(in_order, float) and in_order >= _IN_ORDER
    moment = starts[-1] if is_whole else first
    return int(moment) if isinstance(moment, int) else None
