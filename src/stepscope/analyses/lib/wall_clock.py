"""The wall clock, which is that of traces, against the time line of a run, from pairs that were read together."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Offset", "Reading", "offset_at"]


@dataclass(frozen=True, slots=True)
class Reading:
    """At `time` on the run's time line the wall clock was ahead of it by `offset`, give or take `error`, all in ns.

    `error` is None where nobody wrote down how long reading both clocks took.
    """

    time: int
    offset: int
    error: int | None


@dataclass(frozen=True, slots=True)
class Offset:
    """What the wall clock is ahead of the run's time line in ns, and how far off that may be; None: not known."""

    offset: int
    error: int | None


def offset_at(readings: Sequence[Reading], time: int) -> Offset | None:
    """The offset at a time, on the line through the readings before and after it; None without readings.

    If the offset went one way between the two, at once or slowly, the error is never more than what is told. Before
    the first reading and after the last nobody knows: the offset is taken to have stayed.
    """
    ordered = sorted(readings, key=lambda reading: reading.time)
    before = [reading for reading in ordered if reading.time <= time][-1:]
    after = [reading for reading in ordered if reading.time > time][:1]
    match [*before, *after]:
        case [first, second]:
            moved = second.offset - first.offset
            passed, between = time - first.time, second.time - first.time
            errors = [first.error, second.error]
            known = [error for error in errors if error is not None]
            error = max(known) + abs(moved) if len(known) == len(errors) else None
            return Offset(first.offset + moved * passed // between, error)
        case [only]:
            return Offset(only.offset, only.error)
        case _:
            return None
