"""The lines of code whose allocations fill the memory of each device when it is fullest.

One row is a line of the user's own code: the nearest such frame in the stack of the allocation. Stacks are from a
memory snapshot or from the Python frames of a trace (`--with memory,stacks`); the latter tell where the function
begins. Only blocks that are alive at the peak of `memory_peaks` count. A row without a file holds what no stack leads
to. That is allocations of backward, which run on a thread of torch's own, and what was there before the recording. So
the rows of a device add up to its peak.
"""

import polars as pl

from stepscope.analyses.lib.call_sites import site_table
from stepscope.analyses.lib.result_tables import quotient, shaped
from stepscope.analyses.memory.lib.allocation_names import sites_at_peak
from stepscope.analyses.memory.lib.memory_events import BY_DEVICE, DEVICE, DEVICE_COLUMNS, named_device
from stepscope.analyses.memory.lib.peak import at_peak, peaks
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *DEVICE_COLUMNS,
    Column("file", pl.String, None, "file of the user's own code; null: no stack leads there"),
    Column("line", pl.Int64, None, "line of that file; of traces, where the function begins"),
    Column("function", pl.String, None, "function of that line"),
    Column("text", pl.String, None, "source line, where samples of the run have seen it"),
    Column("bytes", pl.Int64, "bytes", "alive at the peak"),
    Column("share", pl.Float64, "ratio", "share of the peak"),
    Column("blocks", pl.Int64, "count", "blocks alive at the peak; null: the source does not tell"),
)
RECORD_LINES = "record stacks with the memory: `stepscope run --trace 10:13 --with memory,stacks -- COMMAND`"
_PLACE = ("file", "line", "function", "text")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device (the CPU last), most bytes first. Raises MissingData without memory events or stacks."""
    alive = at_peak(run)
    named = alive.filter(pl.col("row").is_not_null())
    sites = sites_at_peak(run)
    if all(site.file is None for site in sites):
        raise MissingData("stacks of memory blocks", how=RECORD_LINES)
    rows = pl.concat([named.hstack(site_table(sites)), alive.filter(pl.col("row").is_null())], how="diagonal")
    blocks = pl.when(pl.col("blocks").is_not_null().any()).then(pl.col("blocks").sum())
    rows = rows.group_by("key", *_PLACE).agg(pl.col("bytes").sum(), blocks=blocks)
    rows = rows.join(peaks(run).select("key", *DEVICE, "peak"), on="key").with_columns(named_device())
    rows = rows.with_columns(share=pl.when(pl.col("peak") > 0).then(quotient(pl.col("bytes"), pl.col("peak"))))
    rows = rows.filter(pl.col("file").is_not_null().any().over("rank"))  # ranks with stacks
    descending = [False] * 3 + [True, *(False for _ in _PLACE)]
    return shaped(rows.sort(*BY_DEVICE, "bytes", *_PLACE, descending=descending, nulls_last=True), COLUMNS)


LEADING = ("file", "line", "device_type", "function", "bytes", "share", "blocks", "text")
ANALYSIS = memory_lines = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
