"""What lives in the memory of each device when it is fullest.

One row is what one operator, at one line in one module, allocated of one category and still holds at the peak of
`memory_peaks`. The rows of a device add up to its peak exactly.

The category is what the source says (memory timelines), or follows from the phases of allocation and free: `activation`
is allocated in forward and freed in backward; `gradient` allocated in backward and there when the optimizer begins;
`optimizer state` allocated in the optimizer and there when it begins the next time; `input` allocated while the loader
is waited for; `parameter` allocated while a module is made or moved (as stacks say) and never freed, or there when the
optimizer begins; `output` allocated in forward and freed after backward, such as losses that a variable holds;
`temporary` freed in the phase, of the same micro-batch, in which it was allocated, or allocated in backward and freed
before the optimizer. The rest is `unknown`.
`before the recording` is what was allocated when the recording began and not freed until the peak: parameters, as a
rule, and optimizer state. `not in the events` is the difference to the allocator's total: what threads that the
profiler does not watch (such as those of a loader) allocated or freed, or what was dropped.

A trace from before torch 1.10 has neither totals nor addresses: the row is then the change since the recording began.
"""

import polars as pl

from stepscope.analyses.lib.call_sites import site_table
from stepscope.analyses.lib.result_tables import quotient, shaped
from stepscope.analyses.memory.lib.allocation_names import allocating_operators, modules_of_rows, sites_at_peak
from stepscope.analyses.memory.lib.memory_events import BY_DEVICE, DEVICE, DEVICE_COLUMNS, named_device
from stepscope.analyses.memory.lib.peak import at_peak, peaks
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *DEVICE_COLUMNS,
    Column("category", pl.String, None, "parameter, optimizer state, gradient, activation, input, output, … (above)"),
    Column("module", pl.String, None, "innermost module that ran; null: none was recorded"),
    Column("operator", pl.String, None, "operator that allocated; null: none was recorded"),
    Column("file", pl.String, None, "file of the user's own code that called it; null: no stack was recorded"),
    Column("line", pl.Int64, None, "line of that file; of traces, where the function begins"),
    Column("function", pl.String, None, "function of that line"),
    Column("bytes", pl.Int64, "bytes", "alive at the peak"),
    Column("share", pl.Float64, "ratio", "share of the peak"),
    Column("blocks", pl.Int64, "count", "blocks alive at the peak; null: the source does not tell"),
)
_GROUP = ("key", "category", "module", "operator", "file", "line", "function")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device (the CPU last), most bytes first. Raises MissingData without memory events."""
    alive = at_peak(run)
    named = alive.filter(pl.col("row").is_not_null())
    named = named.with_columns(
        modules_of_rows(run, named["row"]).alias("module"),
        allocating_operators(run).gather(named["row"]).alias("operator"),
        *site_table(sites_at_peak(run)),
    )
    rows = pl.concat([named, alive.filter(pl.col("row").is_null())], how="diagonal")
    blocks = pl.when(pl.col("blocks").is_not_null().any()).then(pl.col("blocks").sum())
    rows = rows.group_by(_GROUP).agg(pl.col("bytes").sum(), blocks=blocks)
    rows = rows.join(peaks(run).select("key", *DEVICE, "peak"), on="key").with_columns(named_device())
    rows = rows.with_columns(share=pl.when(pl.col("peak") > 0).then(quotient(pl.col("bytes"), pl.col("peak"))))
    order = [name for name in _GROUP if name != "key"]
    descending = [False] * len(BY_DEVICE) + [True] + [False] * len(order)
    return shaped(rows.sort(*BY_DEVICE, "bytes", *order, descending=descending, nulls_last=True), COLUMNS)


LEADING = ("category", "device_type", "bytes", "share", "operator", "module", "blocks", "file", "line", "function")
ANALYSIS = memory_at_peak = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
