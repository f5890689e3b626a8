"""CPU times of the Python threads of one process."""

import polars as pl

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.core.schema import TABLES, polars_schema
from stepscope.importers.run_dir.clocks import Clock
from stepscope.importers.run_dir.json_files import Note, Row, flag, number, read_lines, word
from stepscope.importers.run_dir.stacks import described_stacks
from stepscope.run_format.files import THREADS

__all__ = ["add_thread_times"]

_FIGURES = ("time", "span", "cpu", "ready")
_SCHEMA = polars_schema(TABLES["thread_times"])


def add_thread_times(folder: AnyPath, clock: Clock, note: Note, sink: Sink) -> None:
    """Add a row for each line; those without their figures are left out."""
    rows = read_lines(folder / THREADS, note)
    stacks = described_stacks(folder, note) if rows else {}
    whole = [row for row in rows if all(number(row.get(name)) is not None for name in _FIGURES)]
    note("CPU time of a thread without its figures: left out", len(rows) - len(whole))
    if whole:
        table = pl.DataFrame([_values(row, clock, stacks) for row in whole], schema=_SCHEMA, orient="row")
        sink.add("thread_times", {name: table[name] for name in table.columns})


def _values(row: Row, clock: Clock, stacks: dict[int, Row]) -> tuple[object, ...]:
    time, span, cpu, ready = (number(row.get(name)) or 0 for name in _FIGURES)
    at = stacks.get(number(row.get("stack")) or 0, {}) if row.get("stack") is not None else {}
    place = (at.get("file"), at.get("line"), at.get("function"), at.get("text"), at.get("call"))
    return (
        clock.rank, clock.pid, word(row.get("thread")), flag(row.get("training")), time + clock.to_epoch, span, cpu,
        ready, *place,
    )  # fmt: skip
