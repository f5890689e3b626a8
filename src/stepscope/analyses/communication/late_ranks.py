"""Which ranks come late to collectives, how often, and what that costs the others.

One row is a rank in a process group. Times are ns. In a collective in which every rank waits for every other, the rank
with the shortest stay came last. Its `delay` is the second shortest stay less its own. All other ranks would have saved
that time. Every duration is from the rank's own clock, so clocks that differ change nothing. But ranks do not leave a
collective at one moment. So a delay below `uncertainty` tells of no late rank. Only matched collectives count. A rank
that is last as often as any other (1 / ranks) is not slow; one that always is, is.
"""

import polars as pl

from stepscope.analyses.communication.clock_offsets import clock_offsets
from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.lib.collective_names import SYMMETRIC
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE, shaped
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("group", pl.String, None, "process group; null: not recorded"),
    Column("collectives", pl.Int64, "count", "matched collectives that the rank took part in"),
    Column("ranks", pl.Int64, "count", "ranks of these collectives, the most of any"),
    Column("last", pl.Int64, "count", "collectives to which it came last"),
    Column("share", pl.Float64, "ratio", "last / collectives; without a slow rank 1 / ranks"),
    Column("delay", pl.Int64, "ns", "time by which it came after all others, summed"),
    Column("mean_delay", pl.Float64, "ns", "delay / last; null: never last"),
    Column("longest_delay", pl.Int64, "ns", "largest of these times; null: never last"),
    Column("per_step", pl.Float64, "ns", "delay / steps with collectives; null: no steps recorded"),
    Column("uncertainty", pl.Int64, "ns", "of clock_offsets, of the reference the least of others; null: not known"),
)
_HOW = f"{RECORD_TRACE}, on all ranks, and open the folder that holds their traces"
_UNMATCHED = (
    "of what the traces of the ranks hold, none could be matched (they are of different steps or groups, or do not "
    f"name the group), or all are broadcasts and the like; for the same steps of all ranks, {RECORD_TRACE}"
)
# All end together, so that the shortest stay is the latest arrival.
_TOGETHER = (*SYMMETRIC, "all_to_all", "all_to_allv")


def compute(run: Run) -> pl.DataFrame:
    """Rows for all ranks with matched collectives. Raises MissingData if there are none."""
    found = collectives(run).filter(pl.col("match").is_not_null() & pl.col("collective").is_in(_TOGETHER))
    if found.is_empty() and run.optional("processes", "rank")["rank"].n_unique() > 1:
        raise MissingData("collective in which these ranks wait for each other", how=_UNMATCHED)
    if found.is_empty():
        raise MissingData("collectives of several ranks", how=_HOW)
    # The wait of the second to last: 0 when two came together, and then neither is late.
    second = pl.col("waiting").bottom_k(2).max().over("match")
    is_last = (pl.col("waiting") == 0) & (second > 0)
    found = found.with_columns(delay=pl.when(is_last).then(second))
    rows = found.group_by("rank", "group").agg(
        pl.col("ranks").max(),
        collectives=pl.len(),
        last=pl.col("delay").count(),
        delay=pl.col("delay").sum(),
        mean_delay=pl.col("delay").mean(),
        longest_delay=pl.col("delay").max(),
        steps=pl.col("step").n_unique() - pl.col("step").is_null().any(),
    )
    per_step = pl.when(pl.col("steps") > 0).then(pl.col("delay") / pl.col("steps"))
    rows = rows.with_columns(per_step=per_step, share=pl.col("last") / pl.col("collectives"))
    return shaped(rows.join(_uncertainties(run), on="rank", how="left"), COLUMNS).sort("rank", "group")


def _uncertainties(run: Run) -> pl.DataFrame:
    """How well each rank's clock is known; that of the reference as well as that of the one known best."""
    clocks = clock_offsets(run).select("rank", "status", "uncertainty")
    least = clocks.filter(pl.col("status") != "reference")["uncertainty"].min()
    own = pl.when(pl.col("status") != "reference").then("uncertainty").otherwise(pl.lit(least, dtype=pl.Int64))
    return clocks.select("rank", uncertainty=own)


LEADING = ("group", "collectives", "last", "share", "delay", "per_step", "mean_delay", "uncertainty")
ANALYSIS = late_ranks = Analysis(compute=compute, columns=COLUMNS, leading=LEADING)
