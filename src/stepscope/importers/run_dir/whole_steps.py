"""Steps of a process with all that their record implies: the rest of each, and its time on the device."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from stepscope.core.paths import AnyPath
from stepscope.importers.run_dir.json_files import Note
from stepscope.importers.run_dir.merged_steps import PARTS
from stepscope.importers.run_dir.records import DEVICE_STEP, STEP, RecordFile, read_records
from stepscope.importers.run_dir.rows import picked
from stepscope.run_format.files import DEVICE_STEPS

__all__ = ["WHOLE", "device_steps", "rest_of", "sound_steps"]

_Rows = npt.NDArray[np.void]

WHOLE = np.dtype([
    ("weight", "<i8"), ("kind", "<i8"), ("other", "<i8"), ("device", "<i8"),
    *((name, STEP.record[name]) for name in STEP.record.names or ()),
])  # fmt: skip
"""A step, or the mean of `weight` steps of one `kind`."""


def sound_steps(file: RecordFile, device: _Rows | None, note: Note) -> Iterator[_Rows]:
    """Steps whose parts add up, with the rest of them and their time on the device, -1 if that is not known."""
    unsound = 0
    for rows in file.pieces():
        other = rest_of(rows)
        sound = (rows["start"] > 0) & (rows["end"] >= rows["start"]) & (other >= 0)
        for part in PARTS[1:-1]:
            sound &= rows[part] >= 0
        if not sound.all():
            unsound += int(len(rows) - sound.sum())
            rows, other = picked(rows, sound), other[sound]
        whole = np.zeros(len(rows), WHOLE)
        for name in STEP.record.names or ():
            whole[name] = rows[name]
        whole["weight"] = 1
        whole["other"], whole["device"] = other, _on_device(rows["step"], device)
        yield whole
    note("step whose parts do not add up: left out", unsound)


def rest_of(rows: _Rows) -> npt.NDArray[np.int64]:
    """What the known parts of each step leave of it: its part `other`, ns."""
    other: npt.NDArray[np.int64] = rows["end"] - rows["start"] - np.maximum(rows["data_wait"], 0)
    for part in PARTS[1:-1]:
        other -= rows[part]
    return other


def device_steps(folder: AnyPath, note: Note) -> _Rows | None:
    """Times of steps on the device, by the number of the step; of two the later holds."""
    records = read_records(folder / DEVICE_STEPS, DEVICE_STEP, note)
    if records is None or not len(records.rows):
        return None
    if (np.diff(records.rows["step"]) > 0).all():
        return records.rows
    rows = records.rows[::-1]
    return rows[np.unique(rows["step"], return_index=True)[1]]


def _on_device(steps: npt.NDArray[np.int64], device: _Rows | None) -> npt.NDArray[np.int64]:
    if device is None:
        return np.full(len(steps), -1, np.int64)
    place = np.minimum(np.searchsorted(device["step"], steps), len(device) - 1)
    return np.where(device["step"][place] == steps, device["duration"][place], -1)
