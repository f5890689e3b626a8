"""Allocations with their frees.

One row is a block of memory, from its allocation to its free. Times are ns. Blocks are paired by address within a
device: an allocation belongs to the next free of its address. `end` is null for a block that is still alive, and for
one whose free was not recorded. `fate` tells the two apart. A free whose allocation was not recorded is a row without
start. Events without addresses (torch before 1.10) cannot be paired. `operator` is the innermost one around the
allocation on its thread. Operators that only make empty tensors do not count. Definition: the table of memory events of
the TensorBoard plugin. How the category is told: see `memory_at_peak`.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import shaped
from stepscope.analyses.memory.lib.allocation_names import allocating_operators
from stepscope.analyses.memory.lib.lifetimes import lives, unmatched_frees
from stepscope.analyses.memory.lib.memory_events import DEVICE, DEVICE_COLUMNS, memory_events, named_device
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    *DEVICE_COLUMNS,
    Column("start", pl.Int64, "ns", "allocation; null: before the recording", "trace"),
    Column("end", pl.Int64, "ns", "free; null: not recorded", "trace"),
    Column("lifetime", pl.Int64, "ns", "end - start; null where one of them is"),
    Column("fate", pl.String, None, "freed, alive (at the end of the recording) or unseen (freed unrecorded)"),
    Column("bytes", pl.Int64, "bytes", "size of the block"),
    Column("address", pl.Int64, None, "address of the block"),
    Column("operator", pl.String, None, "operator that allocated it; null: none was recorded around it"),
    Column("step", pl.Int64, None, "step of the allocation; null: outside of steps"),
    Column("phase", pl.String, None, "phase of the allocation; null: unknown"),
    Column("freed_phase", pl.String, None, "phase of the free; null: unknown"),
    Column("category", pl.String, None, "what it holds: parameter, activation, gradient, … or unknown"),
)
WITH_ADDRESSES = "record it again with torch 1.10 or later, whose profiler writes the addresses of blocks"


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device and start. Raises MissingData without memory events, and if they have no addresses."""
    events = memory_events(run)
    blocks, frees = lives(run), unmatched_frees(run)
    if blocks.is_empty() and frees.is_empty():
        raise MissingData("addresses of memory blocks", how=WITH_ADDRESSES)
    fate = (
        pl.when(pl.col("freed").is_not_null()).then(pl.lit("freed"))
        .when(pl.col("again").is_null()).then(pl.lit("alive")).otherwise(pl.lit("unseen"))
    )  # fmt: skip
    operators = allocating_operators(run).gather(blocks["row"])
    blocks = blocks.with_columns(operators.alias("operator"), fate=fate, lifetime=pl.col("end") - pl.col("start"))
    frees = frees.select("key", "row", "bytes", "address", end="time", fate=pl.lit("freed"))
    rows = pl.concat([frees, blocks.select(pl.exclude("freed", "again"))], how="diagonal")
    rows = rows.hstack(events[rows["row"]].select(DEVICE)).sort("key", "start", "row", nulls_last=False)
    return shaped(rows.with_columns(named_device()), COLUMNS)


LEADING = ("start", "device_type", "bytes", "lifetime", "fate", "operator", "category", "phase", "device", "step")
ANALYSIS = allocations = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
