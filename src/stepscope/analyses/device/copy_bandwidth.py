"""Bandwidth of the copies and sets that run at the same time, over time.

One row is a moment at which the bandwidth of a kind changes; it holds until the next row of that kind. It is the sum
over the copies that run then, each spread evenly over its duration. GB are 10^9 bytes. Kinds are those of `copies`.
Copies of unknown size or of no duration are left out. Definition: HTA's memory bandwidth series.
"""

import numpy as np
import polars as pl

from stepscope.analyses.device.lib.copies import KINDS, copy_events
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE_ON_GPU, shaped
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("copy", pl.String, None, "HtoD, DtoH, DtoD, PtoP, …, or memset; null: the name does not say"),
    Column("host_memory", pl.String, None, "pageable or pinned; null: no host memory, or the name does not say"),
    Column("time", pl.Int64, "ns", "moment from which the bandwidth holds", "trace"),
    Column("running", pl.Int64, "count", "copies or sets that run"),
    Column("bandwidth", pl.Float64, "GB/s", "sum of their bandwidths"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device, kind and time. Raises MissingData without copies and sets of known size."""
    copies = copy_events(run).drop_nulls("bandwidth").filter(pl.col("end") > pl.col("start"))
    if copies.is_empty():
        raise MissingData("copies or sets of device memory of known size", how=RECORD_TRACE_ON_GPU)
    kinds = copies.select(KINDS).unique().sort(KINDS).with_row_index("kind")
    copies = copies.join(kinds, on=KINDS, nulls_equal=True, maintain_order="left")
    changes = pl.concat(
        [
            copies.select("kind", "bandwidth", time="start", running=pl.lit(1, dtype=pl.Int64)),
            copies.select("kind", -pl.col("bandwidth"), time="end", running=pl.lit(-1, dtype=pl.Int64)),
        ]
    )
    steps = _steps(changes)
    series = steps.with_columns(pl.col("running", "bandwidth").cum_sum().over("kind"))
    # Nothing running is exactly 0, not what rounding leaves of a sum and its reverse.
    even = pl.when(pl.col("running") > 0).then("bandwidth").otherwise(0.0)
    return shaped(series.with_columns(bandwidth=even).hstack(kinds.select(KINDS)[series["kind"]]), COLUMNS)


def _steps(changes: pl.DataFrame) -> pl.DataFrame:
    """The sum of the changes at each moment, in order of kind and time."""
    keys = [changes[name].to_numpy() for name in ("bandwidth", "time", "kind")]
    changes = changes[np.lexsort(keys)]  # much faster than to sort the table
    moment = changes.select(pl.struct("kind", "time").rle_id()).to_series().set_sorted()
    steps = changes.group_by(moment.alias("moment"), maintain_order=True)
    return steps.agg(pl.col("kind", "time").first(), pl.col("running", "bandwidth").sum())


ANALYSIS = copy_bandwidth = Analysis(compute=compute, columns=COLUMNS, scope="rank")
