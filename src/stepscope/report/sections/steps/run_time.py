"""The wall time of the whole run in parts that add up, which of them a finding shortens, and what that could save."""

from collections.abc import Mapping

from stepscope.analyses.bound.run_time import run_time
from stepscope.core.finding import Pool
from stepscope.core.report import Bar, Bars, Block, FindingBlock, Section, Table, Text, Value
from stepscope.core.run import Run
from stepscope.core.schema import Unit
from stepscope.report.diagnose import diagnose
from stepscope.report.overlaps import pool_of
from stepscope.report.whole_run import Saving, savings, whole_run

__all__ = ["SECTION"]

_PARTS: Mapping[Pool, str] = {
    "data-wait": "data wait", "host": "host", "device": "computing", "communication": "communication",
    "copies": "copies",
}  # fmt: skip
_LONG = "periodic-stall"  # the rule whose gain comes out of long steps
_TOLD = 3  # findings that are told: as many as have a card


def build(run: Run) -> list[Block]:
    rows = whole_run(run)
    wall = int(rows["duration"].sum())
    findings = diagnose(run).findings
    numbers = {part: number for number, block in reversed([*enumerate(findings, 1)]) for part in [_part(block)]}
    cells = tuple((*row, numbers.get(row[0])) for row in rows.select("part", "duration", "share", "steps").iter_rows())
    columns: tuple[tuple[str, Unit | None], ...] = (
        ("part", None), ("time", "ns"), ("share of run", "ratio"), ("steps", "count"), ("finding", None),
    )  # fmt: skip
    ranks = run_time(run)["rank"].n_unique()
    of = f" of rank {rows.item(0, 'rank')}" if ranks > 1 else ""
    return [
        Bars(f"Whole run{of}", "ns", tuple(Bar(part, time) for part, time, *_ in cells)),
        Table("Whole run by phase", columns, cells, source="run_time"),
        Text("Wall time from start to end: {}.", (Value(wall, "ns"),)),
        *(_told(saving, wall) for saving in savings(run)[:_TOLD]),
    ]


def _told(saving: Saving, wall: int) -> Text:
    number, most = Value(saving.number, "count"), (Value(saving.high, "ns"), Value(saving.high / wall, "ratio"))
    if not saving.low:
        return Text("Finding {} could save up to {}, {} of the run.", (number, *most))
    told = "Finding {} could save {} to {}, at most {} of the run."
    return Text(told, (number, Value(saving.low, "ns"), *most))


def _part(block: FindingBlock) -> str:
    if block.rule == _LONG:
        return "long steps"
    pool = pool_of(block.finding)
    return _PARTS.get(pool, "") if pool else ""


SECTION = Section(title="Whole run", order=41, build=build)
