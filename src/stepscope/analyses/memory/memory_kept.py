"""Memory that steps leave behind: blocks allocated in a step that nobody had freed when the recording ended.

One row is an operator and line whose blocks were kept. Steady training keeps nothing: what a step allocates is freed in
it or in the next. So blocks of the last traced step do not count. What nearly every step keeps piles up: losses in a
list with their graphs, hooks added again and again, collected outputs. What only the first step keeps, such as the
optimizer's state, has one step. Blocks are paired with frees by address.

`per_step` is bytes kept per watched step, which are all traced steps but the last. `file` and `line` are the nearest
frame of the user's own code, as in `memory_lines`.
"""

import polars as pl

from stepscope.analyses.lib.call_sites import site_table
from stepscope.analyses.lib.markers import step_markers
from stepscope.analyses.lib.result_tables import quotient, shaped
from stepscope.analyses.memory.allocations import WITH_ADDRESSES
from stepscope.analyses.memory.lib.allocation_names import allocating_operators, sites_of
from stepscope.analyses.memory.lib.lifetimes import lives
from stepscope.analyses.memory.lib.memory_events import DEVICE, DEVICE_COLUMNS, memory_events, named_device
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *DEVICE_COLUMNS,
    Column("operator", pl.String, None, "operator that allocated; null: none was recorded around it"),
    Column("file", pl.String, None, "file of the user's own code; null: no stack leads there"),
    Column("line", pl.Int64, None, "line of that file; of traces, where the function begins"),
    Column("function", pl.String, None, "function of that line"),
    Column("text", pl.String, None, "source line, where samples of the run have seen it"),
    Column("category", pl.String, None, "what it holds: parameter, activation, gradient, … or unknown"),
    Column("bytes", pl.Int64, "bytes", "kept"),
    Column("blocks", pl.Int64, "count", "blocks kept"),
    Column("steps", pl.Int64, "count", "steps that kept some"),
    Column("watched", pl.Int64, "count", "traced steps but the last, in which it could be seen"),
    Column("per_step", pl.Float64, "bytes", "kept per watched step"),
)
RECORD_STEPS = "record several steps: `stepscope run --trace 10:20 --with memory -- COMMAND`"
_GROUP = ("key", "operator", "file", "line", "function", "text", "category")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and device, most steps first, then bytes. Raises MissingData without memory events or steps."""
    events = memory_events(run)
    blocks = lives(run)
    if blocks.is_empty():
        raise MissingData("addresses of memory blocks", how=WITH_ADDRESSES)
    steps = step_markers(run).group_by("rank").agg(watched=pl.col("step").n_unique() - 1, last=pl.col("step").max())
    steps = steps.filter(pl.col("watched") > 0)
    if steps.is_empty():
        raise MissingData("several steps with memory", how=RECORD_STEPS)
    kept = blocks.filter(pl.col("freed").is_null() & pl.col("again").is_null() & pl.col("step").is_not_null())
    kept = kept.hstack(events[kept["row"]].select(DEVICE)).join(steps, on="rank").sort("row")
    kept = kept.filter(pl.col("step") < pl.col("last"))
    kept = kept.with_columns(
        allocating_operators(run).gather(kept["row"]).alias("operator"),
        *site_table(sites_of(run, kept["row"])),
    )
    rows = kept.group_by(_GROUP, maintain_order=True).agg(
        pl.col(*DEVICE, "watched").first(), pl.col("bytes").sum(), blocks=pl.len(), steps=pl.col("step").n_unique()
    )
    rows = rows.with_columns(named_device(), per_step=quotient(pl.col("bytes"), pl.col("watched")))
    return shaped(rows.sort("key", "steps", "bytes", descending=[False, True, True], maintain_order=True), COLUMNS)


LEADING = ("file", "line", "bytes", "per_step", "blocks", "steps", "operator", "device_type", "category", "function")
ANALYSIS = memory_kept = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
