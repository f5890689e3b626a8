"""The compiled scanner. Offsets are in bytes; every call that reads or copies much lets other threads run."""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

PADDING: int
"""Bytes behind the text that a buffer must have, and that `Scanner.scan` overwrites with zeros."""

@final
class Column:
    """A finished column: Int64 with nulls, or UInt32 numbers of texts; for Arrow's C interface, or as a buffer."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Scanner:
    """Reads pieces of a list of events, one at a time. What it has read holds until the next `scan`."""

    def scan(self, buffer: Buffer, begin: int, end: int, state: int, /) -> None:
        """Read buffer[begin:end]. `state` says what comes: 0 the list's first element, 1 an element, 2 a comma."""

    def odd(self) -> list[tuple[int, int, int]]:
        """Elements that are valid JSON but left to Python: position among those read, begin, end."""

    def first_gap(self) -> tuple[int, int, int]:
        """The first event of those left out: from the end of the element before it to the next one, and the state."""

    @property
    def count(self) -> int:
        """Elements read, odd ones included."""

    @property
    def left_out(self) -> int:
        """Damaged events that nothing could be read of; other damage stops the scanner."""

    @property
    def state(self) -> int:
        """What stands next, as for `scan`."""

    @property
    def stop(self) -> int:
        """Why it stopped: 0 the piece ended, 1 the list did, 2 not JSON or Python must decide, 3 a second list."""

    @property
    def resume(self) -> int:
        """Where what was not read begins."""

    @property
    def after_previous(self) -> int:
        """Where the last element that was read ends; where the element behind one left out, or reading, began."""

    @property
    def state_after_previous(self) -> int:
        """What stands next there."""

    @property
    def fault_at(self) -> int:
        """The byte that cannot stand where it does."""

class Columns:
    """The rows of a whole trace.

    `slots` are the members that are read: key, kind (0 whole number, 1 time in µs, 2 text) and the number of the
    dictionary of a text; the first eight are ph, cat, name, pid, tid, ts, dur and id of the event, the rest are
    in args. `tables` are host, device, memory, instants, flows, metadata and unread: for each column a slot and the
    slot that stands in where the first has no value (-1: none). `device_categories` are in lower case.
    """

    def __new__(
        cls,
        slots: Sequence[tuple[str, int, int]],
        tables: Sequence[Sequence[tuple[int, int]]],
        device_categories: Sequence[bytes],
        /,
    ) -> Columns: ...
    def scanner(self) -> Scanner:
        """A new scanner for these columns."""

    def append(self, scanner: Scanner, /) -> None:
        """Add what `scanner` has read, behind everything that was added before."""

    def advance(self, elements: int, /) -> None:
        """Leave positions for elements that were read elsewhere."""

    def rows(self, table: int, /) -> int:
        """How many rows a table has."""

    def take(self, table: int, column: int, /) -> Column | None:
        """Hand over a column; the one behind the last is the rows' positions. None: no row has a value."""

    def texts(self, dictionary: int, /) -> list[bytes]:
        """The texts of a dictionary by number, as they stand in the JSON; number 0 means absent."""

    @property
    def count(self) -> int:
        """Elements that were added, and that positions were left for."""

def last_boundary(buffer: Buffer, begin: int, end: int, first_key: bytes, /) -> int:
    """Where the last event of buffer[begin:end] seems to start, which begins with `first_key` in quotes; else `end`."""

def nest(
    order: _Ints, track: _Ints, start: _Ints, end: _Ints, parent: _Ints, depth: _Ints, self_time: _Ints, /
) -> None:
    """Fill the last three (int64, like all) from the first four; `order` sorts by track, start and descending end."""

def walk(
    first: _Ints, time: _Ints, at: _Ints, cause: _Ints, start: _Ints, held: _Ints, holder: _Ints,
    place: _Ints, begin: _Ints, end: _Ints, /,
) -> bytes:  # fmt: skip
    """Critical paths from each place at its end back to its begin; the first seven are `analyses._path_walk.Causes`.

    The result is int64: path, what the path goes through, thread or row of work, from and until of all hops.
    """

def simulate(cases: _Floats, fetch: _Floats, ends: _Floats, means: _Floats, /) -> None:
    """Fill in the ends of the steps of each case, a row each, and its mean fetch, mean step and part that had waited.

    A row of `cases` has the fields of `predict.loader_simulation.Case` but `fetch`, in order. Raises ValueError for a
    case without workers or without batches ordered ahead.
    """

def union(a: _Ints, /) -> bytearray | None:
    """The union of spans, in the order of (n, 2) int64 as all spans here; None if they are a set."""

def subtract(a: _Ints, b: _Ints, /) -> bytearray:
    """The time in set `a` and not in set `b`."""

def intersect(a: _Ints, b: _Ints, /) -> bytearray:
    """The time in both sets."""

def overlap_each(windows: _Ints, a: _Ints, shared: _Ints, /) -> None:
    """Fill in the time that each window shares with set `a`."""
