"""How far the clocks of the ranks are apart, how that was found, and which of them cannot be compared."""

import polars as pl

from stepscope.analyses.communication.clock_offsets import clock_offsets
from stepscope.core.report import Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.report.sections import RANKS_SHOWN, excerpt, is_traced, literal, many

__all__ = ["SECTION"]

_HEADINGS = {
    "rank": "rank", "host": "host", "status": "status", "offset": "offset", "uncertainty": "±", "low": "at least",
    "high": "at most", "drift_ppm": "ppm", "matched": "shared",
}  # fmt: skip
# Ranks that something is wrong with come first in the table.
_ORDER = ("inconsistent", "other-clock", "not-enough", "aligned", "same-clock", "reference")
_DIFFERS = (
    "Rank {} and rank {} run on one host, but their clocks differ by {} ± {}. Check for a wrong host name or edited "
    "times."
)


def build(run: Run) -> list[Block]:
    if run.optional("processes", "rank")["rank"].n_unique() < 2 or not is_traced(run):
        return []  # one clock, or times that nothing compares
    table = clock_offsets(run).sort(pl.col("status").cast(pl.Enum(_ORDER)), "rank")
    others = table.filter(pl.col("status") != "reference")
    shown = excerpt("", clock_offsets, table, _HEADINGS, limit=RANKS_SHOWN, name="clock_offsets")
    return [_summary(others), *shown, *_warnings(others)]


def _summary(table: pl.DataFrame) -> Text:
    known = table.drop_nulls("offset")
    compared = (Value(table["reference"][0], None), Value(known.height, "count"), Value(table.height, "count"))
    if known.is_empty():
        clocks = many(table.height, "clock")
        return Text(
            f"Do not compare times across ranks: against rank {{}}, {{}} of {clocks} could be measured.", compared
        )
    others = many(table.height, "other rank")
    text = (
        f"Against the clock of rank {{}}, those of {{}} of {others} were measured, from shared collectives. The "
        "largest offset is {}, the largest uncertainty {}. Waits for other ranks use each rank's own clock and "
        "need no offset."
    )
    largest = known.select(pl.col("offset").abs().max(), pl.col("uncertainty").max()).row(0)
    return Text(text, (*compared, *(Value(value, "ns") for value in largest)))


def _warnings(table: pl.DataFrame) -> list[Block]:
    blocks: list[Block] = []
    for row in table.head(RANKS_SHOWN).iter_rows(named=True):
        rank = Value(row["rank"], None)
        if row["status"] == "other-clock":
            values = (Value(row["reference"], None), Value(row["offset"], "ns"), Value(row["uncertainty"], "ns"))
            blocks.append(Text(_DIFFERS, (rank, *values)))
        elif row["reason"]:
            blocks.append(Text(f"The clock offset of rank {{}} is unknown: {literal(row['reason'])}.", (rank,)))
    return blocks


SECTION = Section(title="Clocks of the ranks", order=112, group="quality", build=build)
