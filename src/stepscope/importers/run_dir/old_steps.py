"""steps.old.bin: the first steps of a run that is longer than its disk, merged with others like them.

While a job runs and its file of steps has grown large, a process beside it writes the older steps into this file and
gives the room that they had in steps.bin, and in device_steps.bin, back to the disk: there they read as blanks. The
header says how many records of steps.bin are in it. The file is replaced as a whole, so that it can be read at every
moment. All ordinary steps in it are merged by the same number, which doubles when the file is full; unusual ones stay.

    python -m stepscope.importers.run_dir.old_steps RUN
"""

import ctypes
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepscope.core.paths import AnyPath
from stepscope.importers.run_dir import records
from stepscope.importers.run_dir.json_files import Note
from stepscope.importers.run_dir.merged_steps import ALONE_KIND, kinds_of, merge_alike
from stepscope.importers.run_dir.records import DEVICE_STEP, STEP, Kind, RecordFile, open_records
from stepscope.importers.run_dir.rows import joined, picked
from stepscope.importers.run_dir.whole_steps import WHOLE, device_steps, sound_steps
from stepscope.run_format import files
from stepscope.run_format.records import HEADER, OLD_STEP_MAGIC
from stepscope.run_format.records import header as header_of

__all__ = ["OLD_STEPS", "OldSteps", "fold", "read_old"]

OLD_STEPS = Kind(OLD_STEP_MAGIC, WHOLE, "weight")

YOUNG = 3 << 18
"""The last steps, which stay one by one: 69 MB."""
PIECE = 1 << 18
"""Steps that are merged at once: enough to know which of them are unusual."""
MOST_ORDINARY = 1 << 18
"""Rows of ordinary steps: 31 MB, and while the file is replaced twice that."""
MOST_UNUSUAL = 1 << 18
"""Unusual steps that stay as they are; more are no exceptions."""
FIRST_WEIGHT = 16

_LEFT_OVER = 1  # a kind that kinds_of never gives: ordinary steps, too few for a row
_BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h


@dataclass(frozen=True, slots=True)
class OldSteps:
    """Rows with their weights and kinds, and how many records of steps.bin they stand for."""

    rows: npt.NDArray[np.void]
    replaced: int


def read_old(folder: AnyPath, note: Note) -> OldSteps:
    """The old steps of a process; none where it has no such file."""
    file = open_records(folder / files.OLD_STEPS, OLD_STEPS, note)
    if file is None:
        return OldSteps(np.empty(0, WHOLE), 0)
    with (folder / files.OLD_STEPS).open("rb") as opened:
        replaced = HEADER.unpack(opened.read(HEADER.size))[6]
    return OldSteps(joined([np.empty(0, WHOLE), *file.pieces()]), max(0, replaced))


def fold(folder: Path) -> int:
    """Move steps from steps.bin to the old ones until YOUNG are left; returns how many. Raises OSError."""
    found = open_records(folder / files.STEPS, STEP, _unsaid)
    old = read_old(folder, _unsaid)
    if found is None or found.count() - old.replaced < YOUNG + PIECE:
        return 0
    last = (found.count() - YOUNG) // PIECE * PIECE
    pieces = sound_steps(replace(found, first=old.replaced), device_steps(folder, _unsaid), _unsaid)
    rows, taken = old.rows, old.replaced
    while taken < last:
        rows = _with(rows, joined(list(islice(pieces, PIECE // records.PIECE))), first=taken)
        taken += PIECE
    with (folder / files.STEPS).open("rb") as file:
        header = file.read(HEADER.size)
    _write(folder / files.OLD_STEPS, header, rows, taken)
    _give_back(folder, taken, found)
    return taken - old.replaced


def _with(rows: npt.NDArray[np.void], piece: npt.NDArray[np.void], *, first: int) -> npt.NDArray[np.void]:
    """Old rows, and the steps of a piece."""
    piece["kind"] = kinds_of(piece, first=first)
    ordinary, unusual = picked(rows, rows["kind"] == 0), picked(rows, rows["kind"] != 0)
    weight = int(ordinary["weight"].max(initial=FIRST_WEIGHT))
    new, left = _merged(picked(piece, piece["kind"] == 0), weight)
    left["kind"] = _LEFT_OVER
    unusual = joined([unusual, left, picked(piece, piece["kind"] != 0)])
    ordinary = joined([ordinary, new])
    if len(unusual) > MOST_UNUSUAL:
        apart = unusual["kind"] != ALONE_KIND
        by_kind = unusual[apart][np.argsort(unusual["kind"][apart], kind="stable")]
        more, left = _merged(by_kind, weight)
        ordinary, unusual = joined([ordinary, more]), joined([picked(unusual, ~apart), left])
    if len(ordinary) > MOST_ORDINARY:
        ordinary, _ = _merged(ordinary, 2)  # one row of many may be left over
        ordinary["weight"] = 2 * weight
    return joined([ordinary, unusual])


def _merged(rows: npt.NDArray[np.void], size: int) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    """Rows for `size` each, those made as ordinary ones, and the rest."""
    merged, left = merge_alike(rows, size)
    merged["weight"], merged["kind"] = size, 0
    return merged, joined([left])


def _write(path: Path, header: bytes, rows: npt.NDArray[np.void], replaced: int) -> None:
    epoch, monotonic = HEADER.unpack(header)[3:5]
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(header_of(OLD_STEPS.magic, WHOLE.itemsize, epoch, monotonic, len(rows), replaced))
        file.write(rows.tobytes())
    new.replace(path)


def _give_back(folder: Path, steps: int, found: RecordFile) -> None:
    """Make holes where the records of so many steps were; raises OSError where the file system cannot."""
    _make_hole(folder / files.STEPS, found.place(steps))
    timed = open_records(folder / files.DEVICE_STEPS, DEVICE_STEP, _unsaid)
    if timed is not None:
        number = int(next(replace(found, first=steps).pieces())["step"][0])
        _make_hole(folder / files.DEVICE_STEPS, timed.place(int(np.searchsorted(timed.all()["step"], number))))


def _make_hole(path: Path, end: int) -> None:
    """Give the blocks up to `end`, but the first one, back to the disk."""
    library = ctypes.CDLL(None, use_errno=True)
    length = end // _BLOCK * _BLOCK - _BLOCK
    if length <= 0:
        return
    with path.open("r+b") as file:
        mode = ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE)
        if library.fallocate(file.fileno(), mode, ctypes.c_int64(_BLOCK), ctypes.c_int64(length)):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(path))


def _unsaid(reason: str, count: int) -> None:
    return None


def main(run: str) -> None:
    """Fold the steps of all processes of a run; what cannot be written stays where it is."""
    os.nice(19)
    for folder in sorted(Path(run).glob("rank-*.pid-*")):
        with suppress(OSError):
            fold(folder)


if __name__ == "__main__":
    main(sys.argv[1])
