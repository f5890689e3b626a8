"""Steps of an outer loop that were recorded in parts: those of the optimizers inside it, until the outer one was known.

A fact of the process names the records that are one step. Such a step has the number of its last record.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.importers.run_dir.json_files import Row, number
from stepscope.importers.run_dir.merged_steps import PARTS
from stepscope.importers.run_dir.rows import joined, picked
from stepscope.importers.run_dir.whole_steps import rest_of

__all__ = ["OuterSteps", "outer_steps"]

_Rows = npt.NDArray[np.void]
_Times = npt.NDArray[np.int64]

_SUMS = (*PARTS[1:-1], "evaluation_wait", "gc", "micro_batches")
_KNOWN_SUMS = ("data_wait", "samples", "device")  # negative: not known
_MOST_PARTS = 1 << 18
"""Parts of a step: a fact that names more is damaged."""


@dataclass(frozen=True, slots=True)
class OuterSteps:
    """First and last record of each step that was recorded in parts, in order."""

    first: _Times
    last: _Times

    def whole(self, steps: _Times) -> _Times:
        """The step that each record belongs to."""
        if not len(self.last):
            return steps
        place = np.minimum(np.searchsorted(self.last, steps), len(self.last) - 1)
        inside = (self.first[place] <= steps) & (steps <= self.last[place])
        return np.where(inside, self.last[place], steps)

    def put_together(self, pieces: Iterator[_Rows]) -> Iterator[_Rows]:
        """Pieces of records in order, with `other` and `device`, the parts of each step in one."""
        held: list[_Rows] = []
        while len(self.last) and (piece := next(pieces, None)) is not None:
            held.append(piece)
            if len(piece) and piece["step"][-1] > self.last[-1]:
                break
        rows = joined(held) if held else None
        if rows is not None and len(rows):
            yield _sums(rows, self.whole(rows["step"]))
        yield from pieces


def outer_steps(facts: Sequence[Row]) -> OuterSteps:
    """What the facts of a process say; a step that overlaps the one before is damage, and left out."""
    found: list[tuple[int, int]] = []
    for pair in (pair for fact in facts if fact.get("kind") == "outer_loop" for pair in _list(fact.get("steps"))):
        ends = _list(pair)
        first, last = (number(ends[0]), number(ends[1])) if len(ends) == 2 else (None, None)
        before = found[-1][1] if found else -1
        if first is not None and last is not None and before < first <= last < first + _MOST_PARTS:
            found.append((first, last))
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return OuterSteps(pairs[:, 0], pairs[:, 1])


def _sums(rows: _Rows, steps: _Times) -> _Rows:
    """One row for each run of rows of one step."""
    begins = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    result = picked(rows, np.append(begins[1:], len(rows)) - 1)
    result["start"] = rows["start"][begins]
    result["flags"] = np.bitwise_or.reduceat(rows["flags"], begins)
    for name in _SUMS:
        result[name] = np.add.reduceat(rows[name], begins)
    for name in _KNOWN_SUMS:
        known = np.minimum.reduceat(rows[name], begins) >= 0
        result[name] = np.where(known, np.add.reduceat(rows[name], begins), -1)
    result["other"] = rest_of(result)
    return result


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
