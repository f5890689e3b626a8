"""CPU times of the Python threads of one process."""

from typing import Any

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.run_dir.clocks import Clock
from stepscope.importers.run_dir.json_files import Note, Row, flag, number, read_lines, word
from stepscope.importers.run_dir.stacks import FRAME, described_stacks
from stepscope.run_format.files import THREADS

__all__ = ["add_thread_times"]

_FIGURES = ("time", "span", "cpu", "ready")


def add_thread_times(folder: AnyPath, clock: Clock, note: Note, sink: Sink) -> None:
    """Add a row for each line; those without their figures are left out."""
    rows = read_lines(folder / THREADS, note)
    stacks = described_stacks(folder, note) if rows else {}
    whole = [row for row in rows if all(number(row.get(name)) is not None for name in _FIGURES)]
    note("CPU time of a thread without its figures: left out", len(rows) - len(whole))
    if whole:
        numbers = (number(row.get("stack")) for row in whole)
        places: list[Row] = [{} if stack is None else stacks.get(stack, {}) for stack in numbers]
        figures: dict[str, list[Any]] = {name: [number(row.get(name)) for row in whole] for name in _FIGURES}
        columns: dict[str, list[object]] = {
            **figures,
            "rank": [clock.rank] * len(whole),
            "pid": [clock.pid] * len(whole),
            "thread": [word(row.get("thread")) for row in whole],
            "training": [flag(row.get("training")) for row in whole],
            "time": [time + clock.to_epoch for time in figures["time"]],
            **{name: [place.get(name) for place in places] for name in FRAME},
        }
        sink.add("thread_times", columns)
