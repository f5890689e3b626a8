"""Records of one process to the tables steps and stacks."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.core.places import AnyPath, is_file
from stepscope.core.trace import Sink
from stepscope.importers.run_dir.clocks import Clock
from stepscope.importers.run_dir.json_files import Note, Row, number, read_lines, word
from stepscope.importers.run_dir.records import DEVICE_STEP, LINE, STEP, Records, read_records

__all__ = ["add_stacks", "add_steps", "add_worker_stacks", "observed", "series", "step_damage"]

_TRACED = 1
TAGS = (
    (_TRACED, "traced"),
    (2, "tracing"),
    (4, "evaluation"),
    (8, "epoch-start"),
    (16, "epoch-end"),
    (32, "no-data-wait"),
    (64, "foreign-loader"),
    (128, "ended-by-backward"),
    (256, "closure"),
)
_ENDED_BY_BACKWARD = 128
PHASES = ("other", "data_wait", "forward", "backward", "optimizer")
_COLLECTOR = 1
_PARTS = ("forward", "backward", "optimizer")


def add_steps(folder: AnyPath, rank: int, pid: str, windows: Sequence[Row], note: Note, sink: Sink) -> int:
    """Add the steps of a process, whose traced windows are given; return how many there are."""
    records = read_records(folder / "steps.bin", STEP, note)
    if records is None:
        return 0
    rows = records.rows
    waited = np.maximum(rows["data_wait"], 0)
    other = rows["end"] - rows["start"] - waited - sum(rows[part] for part in _PARTS)
    sound = (rows["start"] > 0) & (rows["end"] >= rows["start"]) & (other >= 0)
    for part in _PARTS:
        sound &= rows[part] >= 0
    note("step whose parts do not add up: left out", int(len(rows) - sound.sum()))
    rows, other = rows[sound], other[sound]
    flags = rows["flags"] | np.where(_in_traces(rows["step"], windows), _TRACED, 0)
    columns: dict[str, Sequence[object] | pl.Series] = {
        "rank": [rank] * len(rows),
        "pid": [pid] * len(rows),
        "step": series(rows["step"]),
        "start": series(rows["start"] + records.to_epoch),
        "end": series(rows["end"] + records.to_epoch),
        "data_wait": observed(rows["data_wait"]),
        **{part: series(rows[part]) for part in _PARTS},
        "other": series(other),
        "evaluation_wait": observed(rows["evaluation_wait"]),
        "gc": observed(rows["gc"]),
        "samples": observed(rows["samples"]),
        "micro_batches": series(rows["micro_batches"]),
        "device_duration": _device_durations(folder, rows["step"].tolist(), note),
        "clock": ["host-backward" if value & _ENDED_BY_BACKWARD else "host" for value in flags.tolist()],
        "tags": [[name for bit, name in TAGS if value & bit] for value in flags.tolist()],
    }
    sink.add("steps", columns)
    return len(rows)


def _in_traces(steps: npt.NDArray[np.int64], windows: Sequence[Row]) -> npt.NDArray[np.bool_]:
    """The steps of which there is a trace: a step that was looked at became one after it was written down."""
    found = np.zeros(len(steps), dtype=np.bool_)
    for window in windows:
        first, last = number(window.get("first_step")), number(window.get("last_step"))
        if word(window.get("trace")) and first is not None and last is not None:
            found |= (steps >= first) & (steps <= last)
    return found


def step_damage(folder: AnyPath) -> str:
    """Why the steps of a process cannot be read, or not all of them; nothing if they can."""
    reasons: list[str] = []
    records = read_records(folder / "steps.bin", STEP, lambda reason, count: reasons.append(reason))
    if records is None and not reasons and any(map(is_file, (folder / "lines.bin", folder / "windows.jsonl"))):
        reasons.append("steps.bin is missing")
    return "; ".join(reasons)


def add_stacks(folder: AnyPath, rank: int, pid: str, note: Note, sink: Sink) -> None:
    """Add the samples of lines, each with the frames that its stack id stands for."""
    records = read_records(folder / "lines.bin", LINE, note)
    if records is None or not len(records.rows):
        return
    rows = records.rows
    sink.add(
        "stacks",
        {
            "rank": [rank] * len(rows),
            "pid": [pid] * len(rows),
            "step": series(rows["step"]),
            "phase": [PHASES[phase] if phase < len(PHASES) else "other" for phase in rows["phase"].tolist()],
            "collector": [bool(flags & _COLLECTOR) for flags in rows["flags"].tolist()],
            **_samples(folder, records.rows, records.to_epoch, note),
        },
    )


def add_worker_stacks(
    folder: AnyPath, clock: Clock, pid: str, worker: int | None, loader: int | None, note: Note, sink: Sink
) -> None:
    """Add the samples of lines of a DataLoader worker, which the process of `clock` has started."""
    records = read_records(folder / "lines.bin", LINE, note)
    if records is None or not len(records.rows):
        return
    whose = {"rank": clock.rank, "pid": pid, "worker": worker, "loader": loader}
    columns = {name: [value] * len(records.rows) for name, value in whose.items()}
    sink.add("worker_stacks", {**columns, **_samples(folder, records.rows, clock.to_epoch, note)})


def _samples(
    folder: AnyPath, rows: npt.NDArray[np.void], to_epoch: int, note: Note
) -> dict[str, Sequence[object] | pl.Series]:
    """Times, weights and frames of samples."""
    frames = _frames(folder, note)
    known = [frames.get(stack) for stack in rows["stack"].tolist()]
    note("sample whose frames were not written: kept without its line", known.count(None))
    found = [frame or _NO_FRAME for frame in known]
    return {
        "time": series(rows["time"] + to_epoch),
        "weight": series(rows["weight"]),
        **{name: [frame[name] for frame in found] for name in _NO_FRAME},
    }


_NO_FRAME: Row = dict.fromkeys(("file", "line", "function", "text", "expression", "call", "leaf", "frames", "texts"))


def _frames(folder: AnyPath, note: Note) -> dict[int, Row]:
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
            "frames": [_place(frame) for frame in user],
            "texts": _texts(row.get("texts"), len(user)),
        }
    return frames


def _texts(texts: object, count: int) -> list[str | None] | None:
    """The source lines of `count` frames; None if they were not written, as by earlier versions."""
    return [word(text) for text in texts] if isinstance(texts, list) and len(texts) == count else None


def _is_frame(frame: object) -> bool:
    return isinstance(frame, list) and len(frame) == 3


def _place(frame: object) -> str | None:
    """`file:line function`."""
    if not isinstance(frame, list) or len(frame) != 3:
        return None
    file, line, function = frame
    return word(f"{file}:{line} {function}")


def series(values: npt.NDArray[np.int64]) -> pl.Series:
    """A field of records as a column of int64."""
    return pl.Series(np.ascontiguousarray(values, dtype=np.int64))


def observed(values: npt.NDArray[np.int64]) -> pl.Series:
    """As `series`; negative values mean "not observed"."""
    column = series(values)
    return column.set(column < 0, None)


def _device_durations(folder: AnyPath, steps: Sequence[int], note: Note) -> list[int | None]:
    records: Records | None = read_records(folder / "device_steps.bin", DEVICE_STEP, note)
    if records is None:
        return [None] * len(steps)
    durations = dict(zip(records.rows["step"].tolist(), records.rows["duration"].tolist(), strict=True))
    return [duration if (duration := durations.get(step, -1)) >= 0 else None for step in steps]
