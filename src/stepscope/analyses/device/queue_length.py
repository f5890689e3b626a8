"""How many launches wait in the queue of each stream, over time.

One row is a moment at which the length changes. A launch joins the queue when its call begins and leaves it when its
work starts, as in HTA. What starts at the moment of its launch changes nothing and has no row. Times are ns.
`queue_summary` sums it up.
"""

import polars as pl

from stepscope.analyses.device.lib.queues import queues
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("stream", pl.String, None, "stream or queue"),
    Column("time", pl.Int64, "ns", "moment from which the length holds", "trace"),
    Column("length", pl.Int64, "count", "launches that have not begun to run"),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, device, stream and time. Raises MissingData without launches of device work."""
    return pl.concat(
        shaped(
            pl.DataFrame({"time": queue.time, "length": queue.length}).with_columns(
                rank=pl.lit(queue.rank), device=pl.lit(queue.device), stream=pl.lit(queue.stream)
            ),
            COLUMNS,
        )
        for queue in queues(run)
    )


ANALYSIS = queue_length = Analysis(compute=compute, columns=COLUMNS, scope="rank")
