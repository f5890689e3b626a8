"""Records of the steps of one process to the table steps; those of a long run are merged with others like them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath, is_file
from stepscope.importers.run_dir.json_files import Note, Row, number, word
from stepscope.importers.run_dir.merged_steps import PARTS, Merged, StepMerger
from stepscope.importers.run_dir.old_steps import OldSteps, read_old
from stepscope.importers.run_dir.outer_steps import OuterSteps
from stepscope.importers.run_dir.records import STEP, RecordFile, open_records
from stepscope.importers.run_dir.rows import joined
from stepscope.importers.run_dir.whole_steps import WHOLE, device_steps, sound_steps
from stepscope.run_format import files
from stepscope.run_format.records import FLAG_BY_BACKWARD, FLAG_TRACED, STEP_TAGS

__all__ = ["MOST", "add_steps", "has_steps", "observed", "series", "step_damage"]

MOST = 1_000_000
"""Steps of a process that are shown one by one; a report of more would need more memory than machines have."""

ROWS = 1 << 18
"""Rows that more steps are merged into, at most twice as many: figures of so many differ by chance in the fourth
digit, and a report of them takes some 0.5 GB."""

_Rows = npt.NDArray[np.void]


def add_steps(
    folder: AnyPath, rank: int, pid: str, windows: Sequence[Row], outer: OuterSteps, note: Note, sink: Sink
) -> Merged | None:
    """Add the steps of a process, whose traced windows are given; returns how they were merged, if they were."""
    file = open_records(folder / files.STEPS, STEP, note)
    if file is None:
        return None
    old = read_old(folder, note)
    file = replace(file, first=old.replaced)
    sound = outer.put_together(sound_steps(file, device_steps(folder, note), note))
    pieces = (_in_traces(piece, windows) for piece in sound)
    first = list(_up_to(MOST, pieces))
    rows = joined([np.empty(0, WHOLE), *first])
    if len(rows) <= MOST and not len(old.rows):
        _add(rows, None, rank, pid, file.to_epoch, sink)
        return None
    del rows
    merger = StepMerger(_weight(file, old))
    merger.take_old(_in_traces(old.rows, windows))
    for piece in chain(first, pieces):
        merger.take(piece)
    first.clear()
    merged = merger.finish()
    note(f"steps of a long run: each row stands for {merger.weight} steps, merged with those most like it", 1)
    _add(merged.rows, merged.weights, rank, pid, file.to_epoch, sink)
    return merged


def has_steps(folder: AnyPath) -> bool:
    """Whether a step of a process was recorded whole."""
    file = open_records(folder / files.STEPS, STEP, _unsaid)
    return file is not None and any(len(piece) for piece in sound_steps(file, None, _unsaid))


def step_damage(folder: AnyPath) -> str:
    """Why the steps of a process cannot be read, or not all of them; nothing if they can."""
    reasons: list[str] = []
    file = open_records(folder / files.STEPS, STEP, lambda reason, count: reasons.append(reason))
    if file is not None:
        file.check()
    elif not reasons and any(map(is_file, (folder / files.LINES, folder / files.WINDOWS))):
        reasons.append("steps.bin is missing")
    return "; ".join(reasons)


def _unsaid(reason: str, count: int) -> None:
    return None


def _up_to(most: int, pieces: Iterator[_Rows]) -> Iterator[_Rows]:
    """Pieces, until there are more rows than that."""
    while most >= 0 and (piece := next(pieces, None)) is not None:
        most -= len(piece)
        yield piece


def _weight(file: RecordFile, old: OldSteps) -> int:
    """How many steps a row stands for, a power of two."""
    weight = int(old.rows["weight"].max(initial=1))
    while old.replaced + file.count() > 2 * ROWS * weight:
        weight *= 2
    return weight


def _in_traces(rows: _Rows, windows: Sequence[Row]) -> _Rows:
    """Mark the steps of which there is a trace: a step that was looked at became one after it was written down."""
    for window in windows:
        first, last = number(window.get("first_step")), number(window.get("last_step"))
        if word(window.get("trace")) and first is not None and last is not None:
            rows["flags"][(rows["step"] >= first) & (rows["step"] <= last)] |= FLAG_TRACED
    return rows


def _add(rows: _Rows, weights: npt.NDArray[np.int64] | None, rank: int, pid: str, to_epoch: int, sink: Sink) -> None:
    flags, which = np.unique(rows["flags"], return_inverse=True)
    columns: dict[str, Sequence[object] | pl.Series] = {
        "rank": pl.repeat(rank, len(rows), dtype=pl.Int32, eager=True),
        "pid": pl.repeat(pid, len(rows), dtype=pl.String, eager=True),
        "step": series(rows["step"]),
        "start": series(rows["start"] + to_epoch),
        "end": series(rows["end"] + to_epoch),
        "data_wait": observed(rows["data_wait"]),
        **{part: series(rows[part]) for part in PARTS[1:]},
        "evaluation_wait": observed(rows["evaluation_wait"]),
        "gc": observed(rows["gc"]),
        "samples": observed(rows["samples"]),
        "micro_batches": series(rows["micro_batches"]),
        "device_duration": observed(rows["device"]),
        "clock": _of_each(["host-backward" if value & FLAG_BY_BACKWARD else "host" for value in flags], which),
        "tags": _of_each([_tags(value) for value in flags], which, pl.List(pl.String)),
    }
    if weights is not None:
        columns["weight"] = series(weights)
    sink.add("steps", columns)


def _tags(flags: int) -> list[str]:
    return [name for bit, name in STEP_TAGS if flags & bit]


def _of_each(
    values: list[object], which: npt.NDArray[np.intp], kind: pl.DataType | type[pl.DataType] = pl.String
) -> pl.Series:
    return pl.Series(values, dtype=kind).gather(which)


def series(values: npt.NDArray[np.int64]) -> pl.Series:
    """A field of records as a column of int64."""
    return pl.Series(np.ascontiguousarray(values, dtype=np.int64))


def observed(values: npt.NDArray[np.int64]) -> pl.Series:
    """As `series`; negative values mean "not observed"."""
    column = series(values)
    return column.set(column < 0, None)
