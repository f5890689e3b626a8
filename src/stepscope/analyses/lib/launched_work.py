"""Device work beside the runtime or driver call that launched it."""

import numpy as np
import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.result_tables import RECORD_TRACE_ON_GPU
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["launched_work"]


def launched_work(run: Run) -> pl.DataFrame:
    """Work whose launch is in the trace: rank, device, stream, start, end, call, call_name, call_start, call_end.

    `call` is the row of the launch in the host tree; a graph's launch is that of all its work. `call_name` is an
    enumeration. Raises MissingData without device work, or where no launch of it was recorded.
    """
    return run.once(_launched_work)


def _launched_work(run: Run) -> pl.DataFrame:
    found = launches(run)
    known = np.nonzero(found.call >= 0)[0]
    if found.tree is None or not len(known):
        raise MissingData("calls that launch device work", how=RECORD_TRACE_ON_GPU)
    work = device_work(run, "stream").select("rank", "device", "stream", "start", "end")[known]
    row = found.call[known]
    calls = found.tree.frame.select(call_start="start", call_end="end")[row]
    return work.with_columns(call=pl.Series(row), call_name=found.tree.name.gather(row)).hstack(calls)
