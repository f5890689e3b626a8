"""What the ranks send each other, how long they wait for one another, and which of them come late."""

import polars as pl

from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.late_ranks import late_ranks
from stepscope.analyses.communication.overlap import overlap
from stepscope.analyses.communication.process_groups import process_groups
from stepscope.core.errors import MissingData
from stepscope.core.report import Bar, Bars, Block, Section, Table, Text, Value
from stepscope.core.run import Run
from stepscope.report.sections import RANKS_SHOWN, excerpt, many, ranked

__all__ = ["SECTION"]

_GROUPS = {
    "rank": "rank", "group": "group", "description": "purpose", "collective": "collective", "calls": "calls",
    "bytes": "bytes", "transfer": "transfer", "waiting": "waiting", "exposed": "exposed",
    "bus_bandwidth": "bus bandwidth",
}  # fmt: skip
_STEP = {
    "own": "without waiting",
    "compute": "computing alone", "overlapped": "both", "exposed_communication": "communicating alone",
    "other": "neither", "compute_per_communication": "computing / communicating",
}  # fmt: skip
_OVERLAP = {
    "compute": "computing alone", "overlapped": "both", "exposed_communication": "communicating alone", "other":
    "neither",
}  # fmt: skip
_CALLS = 5
_CALL = {
    "rank": "rank", "collective": "collective", "group": "group", "bytes": "bytes", "duration": "duration", "transfer":
    "transfer", "waiting": "waiting", "step": "step",
}  # fmt: skip
_LATE = {
    "rank": "rank", "group": "group", "last": "times last", "share": "share", "delay": "total delay",
    "mean_delay": "mean delay", "uncertainty": "±", "longest_delay": "longest", "per_step": "mean per step",
}  # fmt: skip
_UNMATCHED = {
    "alone": "no other rank's trace holds them",
    "other-count": "the ranks' traces hold different numbers of them, as where a window was cut",
    "other-order": "the ranks' traces hold different ones",
    "other-name": "other ranks have other collectives under their numbers",
    "ambiguous": "the lists of the ranks differ and fit together in several ways",
    "no-peer": "they are point-to-point and the trace does not say with whom",
    "no-name": "nothing tells what they are",
    "several-devices": "their process drives several devices",
}


def build(run: Run) -> list[Block]:
    try:
        table = collectives(run)
    except MissingData:
        return []  # a job of one rank communicates with nobody
    groups = process_groups(run).sort("duration", descending=True, maintain_order=True)
    groups = groups.with_columns(description=pl.coalesce("parallel", "description"))
    title = "Process groups, longest first"
    blocks = excerpt(title, process_groups, groups, _GROUPS, limit=RANKS_SHOWN, name="process_groups")
    return [*_bars(run), *blocks, *_longest(table), *_steps(run), *_late(run), *_unmatched(table)]


def _longest(table: pl.DataFrame) -> list[Block]:
    """Single collectives: what one call costs, and in which step."""
    longest = table.sort("duration", descending=True, maintain_order=True).head(_CALLS)
    return excerpt("Longest collectives", collectives, longest, _CALL, limit=_CALLS, name="collectives")


def _bars(run: Run) -> list[Block]:
    """The mean step of the rank that communicates alone for longest, above that of the one that does so for least."""
    try:
        means = overlap(run).group_by("rank", maintain_order=True).agg(pl.col(list(_OVERLAP)).mean())
    except MissingData:
        return []
    by_exposed = means.sort("exposed_communication", descending=True, maintain_order=True)
    shown = [by_exposed.row(0, named=True), *([by_exposed.row(-1, named=True)] if means.height > 1 else [])]
    whole = max(sum(row[name] for name in _OVERLAP) for row in shown)
    return [
        Bars(
            f"Mean traced step of rank {row['rank']}", "ns",
            tuple(Bar(label, row[name]) for name, label in _OVERLAP.items()), whole,
        )
        for row in shown
    ]  # fmt: skip


def _steps(run: Run) -> list[Block]:
    """The mean step of each rank, by what overlaps with what; who takes longest without waiting for others comes first.

    Ranks that wait for each other all have the longest one's step: only the time without waiting tells them apart.
    """
    try:
        table = overlap(run)
    except MissingData:
        return []  # without steps: what the groups expose is said already
    units = {column.name: column.unit for column in overlap.columns}
    table = table.with_columns(own=pl.sum_horizontal("compute", "overlapped", "other"))
    means = table.group_by("rank", maintain_order=True).agg(pl.col(list(_STEP)).mean())
    means = means.sort("own", descending=True, maintain_order=True)
    columns = (("rank", None), *((heading, units.get(name, "ns")) for name, heading in _STEP.items()))
    return [ranked("Mean step of each rank, slowest first", columns, tuple(means.head(RANKS_SHOWN).iter_rows()))]


def _late(run: Run) -> list[Block]:
    try:
        table = late_ranks(run)
    except MissingData:
        return []  # said by what was not matched
    last = table.filter(pl.col("last") > 0).sort("delay", descending=True, maintain_order=True)
    late = last.filter(pl.col("mean_delay") > pl.col("uncertainty").fill_null(0))
    blocks: list[Block] = []
    if not late.is_empty():
        units = {column.name: column.unit for column in late_ranks.columns}
        columns = tuple((heading, units[name]) for name, heading in _LATE.items())
        rows = tuple(late.select(list(_LATE)).head(RANKS_SHOWN).iter_rows())
        blocks.append(Table("Stragglers", columns, rows))  # the rank stays, be it one only
    if late.height < last.height:
        blocks.append(_within(last.join(late, on=["rank", "group"], how="anti", nulls_equal=True)))
    return blocks


def _within(close: pl.DataFrame) -> Text:
    """Ranks that came last by less than can be told."""
    row = close.row(0, named=True)
    values = (
        Value(row["rank"], None), Value(row["last"], "count"), Value(row["collectives"], "count"),
        Value(row["mean_delay"], "ns"), Value(row["uncertainty"], "ns"),
    )  # fmt: skip
    others = close.height - 1
    same = f" The same holds for {many(others, 'more rank')}." if others else ""
    more = (Value(others, "count"),) if others else ()
    return Text(
        "Rank {} entered {} of {} collectives last, by {} on average. That is less than the uncertainty of its "
        f"clock, {{}}, so it is not called late.{same}",
        (*values, *more),
    )


def _unmatched(table: pl.DataFrame) -> list[Block]:
    """Collectives that no other rank's could be matched with, by reason."""
    if table["rank"].n_unique() < 2:
        return []  # other ranks were not opened
    counts = (
        table.drop_nulls("unmatched").group_by("unmatched").len().sort("len", "unmatched", descending=[True, False])
    )
    return [
        Text(
            f"{{}} of {{}} collectives have no counterpart on another rank: {_UNMATCHED[reason]}.",
            (Value(count, "count"), Value(table.height, "count")),
        )
        for reason, count in counts.iter_rows()
    ]


SECTION = Section(title="Communication between ranks", order=75, group="distributed", build=build)
