"""Sampled lines of one process, or of a worker, to the tables of stacks."""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.core.schema import TABLES
from stepscope.importers.run_dir.clocks import Clock
from stepscope.importers.run_dir.json_files import Note, Row, number, read_lines, word
from stepscope.importers.run_dir.merged_steps import Merged, nearest_steps
from stepscope.importers.run_dir.outer_steps import OuterSteps
from stepscope.importers.run_dir.records import LINE, Records, open_records
from stepscope.importers.run_dir.steps import series
from stepscope.run_format.files import LINES
from stepscope.run_format.records import FLAG_COLLECTOR

__all__ = ["FRAME", "add_stacks", "add_worker_stacks", "described_stacks"]

PHASES = ("other", "data_wait", "forward", "backward", "optimizer")

MOST_SAMPLES = 200_000
"""Samples of a process that are shown one by one: over an hour of them. Of a share of one in a hundred they tell the
third digit, and to class and count more takes seconds."""


def add_stacks(
    folder: AnyPath, rank: int, pid: str, outer: OuterSteps, merged: Merged | None, note: Note, sink: Sink
) -> None:
    """Add the samples of lines, each with the frames that its stack id stands for; `merged` if the steps were."""
    found = _read_samples(folder, note)
    if found is None:
        return
    rows, steps = found.rows, outer.whole(found.rows["step"])
    phases, phase = np.unique(rows["phase"], return_inverse=True)
    names = pl.Series([PHASES[number] if number < len(PHASES) else "other" for number in phases.tolist()])
    sink.add(
        "stacks",
        {
            "rank": pl.repeat(rank, len(rows), dtype=pl.Int32, eager=True),
            "pid": pl.repeat(pid, len(rows), dtype=pl.String, eager=True),
            "step": series(steps if merged is None else nearest_steps(merged, steps)),
            "phase": names.gather(phase),
            "collector": pl.Series((rows["flags"] & FLAG_COLLECTOR) != 0),
            **_samples(folder, rows, found.to_epoch, note),
        },
    )


def add_worker_stacks(
    folder: AnyPath, clock: Clock, pid: str, worker: int | None, loader: int | None, note: Note, sink: Sink
) -> None:
    """Add the samples of lines of a DataLoader worker, which the process of `clock` has started."""
    found = _read_samples(folder, note)
    if found is None:
        return
    whose = {"rank": clock.rank, "pid": pid, "worker": worker, "loader": loader}
    columns = {name: [value] * len(found.rows) for name, value in whose.items()}
    sink.add("worker_stacks", {**columns, **_samples(folder, found.rows, clock.to_epoch, note)})


def _read_samples(folder: AnyPath, note: Note) -> Records | None:
    """The samples; of more than MOST_SAMPLES every second, third … one, for the time of all of them."""
    file = open_records(folder / LINES, LINE, note)
    if file is None:
        return None
    every = -(-file.count() // MOST_SAMPLES) or 1
    kept, seen = [np.empty(0, LINE.record)], 0
    for piece in file.pieces():
        kept.append(piece[-seen % every :: every].copy())
        seen += len(piece)
    rows = np.concatenate(kept)
    rows["weight"] *= every
    return Records(rows, file.to_epoch) if len(rows) else None


def _samples(folder: AnyPath, rows: npt.NDArray[np.void], to_epoch: int, note: Note) -> dict[str, pl.Series]:
    """Times, weights and frames of samples."""
    frames = described_stacks(folder, note)
    stacks, which, counts = np.unique(rows["stack"], return_inverse=True, return_counts=True)
    found = [frames.get(stack) for stack in stacks.tolist()]
    missing = np.array([frame is None for frame in found])
    note("sample whose frames were not written: kept without its line", int(counts[missing].sum()))
    schema = {column.name: column.type for column in TABLES["stacks"]}
    return {
        "time": series(rows["time"] + to_epoch),
        "weight": series(rows["weight"]),
        **{
            name: pl.Series([frame and frame[name] for frame in found], dtype=schema[name]).gather(which)
            for name in FRAME
        },
    }


FRAME = ("file", "line", "function", "text", "expression", "call", "leaf", "between", "frames", "texts")
"""Columns of a described stack."""


def described_stacks(folder: AnyPath, note: Note) -> dict[int, Row]:
    """Columns of stacks by stack id."""
    frames: dict[int, Row] = {}
    for row in read_lines(folder / "frames.jsonl", note):
        given = row.get("frames")
        user = [frame for frame in given if _is_frame(frame)] if isinstance(given, list) else []
        file, line, function = user[-1] if user else (None, None, None)
        identifier = number(row.get("id"))
        if identifier is None:
            note("stack without an id: left out", 1)
            continue
        frames[identifier] = {
            "file": word(file),
            "line": number(line),
            "function": word(function),
            "text": word(row.get("text")),
            "expression": word(row.get("segment")),
            "call": _place(row.get("call")),
            "leaf": _place(row.get("leaf")),
            "between": _names(row.get("between")),
            "frames": [_place(frame) for frame in user],
            "texts": _texts(row.get("texts"), len(user)),
        }
    return frames


def _texts(texts: object, count: int) -> list[str | None] | None:
    """The source lines of `count` frames; None if they were not written, as by earlier versions."""
    return [word(text) for text in texts] if isinstance(texts, list) and len(texts) == count else None


def _names(given: object) -> list[str] | None:
    """Names of library frames; None if they were not written, as by earlier versions."""
    return [name for name in map(word, given) if name] if isinstance(given, list) else None


def _is_frame(frame: object) -> bool:
    return isinstance(frame, list) and len(frame) == 3


def _place(frame: object) -> str | None:
    """`file:line function`."""
    if not isinstance(frame, list) or len(frame) != 3:
        return None
    file, line, function = frame
    return word(f"{file}:{line} {function}")
