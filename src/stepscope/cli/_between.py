"""`--between FROM TO`: a run of which only a part of the time is looked at."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from stepscope.core.errors import BadInput
from stepscope.render.format import quantity

if TYPE_CHECKING:
    from stepscope.core.run import Run

__all__ = ["between"]

_NANOSECONDS = {"": 1, "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = re.compile(r"\+?(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|)")


def between(run: Run, words: tuple[str, str]) -> Run:
    """The run with only the events that overlap a range of time; whole events, so some reach beyond it.

    `words` are times: with a unit, since the first event or step, as tables for reading show them; whole nanoseconds
    after that are the times of the other formats. Raises BadInput for words that are no times, and for a range without
    events.
    """
    from stepscope.core.time_slice import began, ended, part_of

    start = began(run)
    if start is None:
        raise BadInput("--between", "the run holds no times", next_step="leave the option out")
    first, last = (_time(word, start) for word in words)
    if last <= first:
        raise BadInput("--between", f"{words[1]} is not after {words[0]}", next_step="give the earlier time first")
    part = part_of(run, first, last)
    if part is None:
        lasts = (ended(run) or start) - start
        raise BadInput(
            "--between",
            "nothing was recorded in that time",
            next_step=f"give a time from 0 ms to {quantity(lasts, 'ns')}, which the recording lasts",
        )
    return part


def _time(word: str, start: int) -> int:
    found = _TIME.fullmatch(word.strip())
    if not found:
        raise BadInput("--between", f"{word!r} is no time", next_step="write times such as --between 350ms 1.2s")
    amount = int(Decimal(found[1]) * _NANOSECONDS[found[2]])
    is_shown = not found[2] and amount >= start  # as tables show it
    return amount if is_shown else start + amount
