"""How often recording can be afforded: what it costs is paid from a share of the CPU time of the batches.

A process has something in reserve besides: its first batches are recorded one after the other, so that a short job,
too, knows its calls from more than a few batches. Costs are paid afterwards, as measured, so an expensive batch makes
the next one wait longer, and over a long run the share is kept.
"""

from __future__ import annotations

import math

__all__ = ["RESERVE_NS", "SHARE", "OverheadBudget", "Reserve", "Slowdown"]

SHARE = 0.003
"""Part of the batches' CPU time that their spans may cost, and that of their samples again. What it comes to, with the
lines of workers, is measured by `bench/loader_overhead.py`: it stays below 1 %."""

RESERVE_NS = 10_000_000
"""CPU time that a process may take for its first batches besides: a third of what starting a worker takes."""

PASSED_NS = 10_000
"""CPU time of a batch that only passes the counters, in its worker and in the training process, where caches are cold.
It is half of what a budget gets at most: with short batches there is little else to take it from."""

MOST_NS = 2_000_000
"""What is saved up at most: after long batches come short ones, and those must be cheap by themselves."""


WATCHED_SHARE = 0.02
"""Part of a batch's CPU time that watching its calls by events is taken to cost, until batches with and without tell.
Meanwhile Python up to 3.11 runs any bytecode by a slower way: that costs a loop of nothing else 7 to 35 %."""

WATCHED_LEAST, WATCHED_MOST = 0.004, 0.5
"""Bounds of what batches tell."""

_ENOUGH = 2  # batches of each kind: fewer have no spread
_SURE = 2  # standard errors


class Reserve:
    """What the budgets of a process have in common; it does not fill up again."""

    __slots__ = ("left",)

    def __init__(self, left: float) -> None:
        self.left = left

    def take(self, wanted: float) -> float:
        """As much as is wanted, or what there is."""
        taken = min(wanted, self.left)
        self.left -= taken
        return taken


class OverheadBudget:
    """Pays for one kind of recording from `share` of the batches' CPU time, and where that does not do, from `reserve`.

    `passed`: what a batch costs that is not recorded, in ns.
    """

    __slots__ = ("_earned", "_left", "_passed", "_reserve", "_share")

    def __init__(self, share: float, reserve: Reserve, passed: int = PASSED_NS) -> None:
        self._share, self._reserve, self._passed = share, reserve, passed
        self._left = 0.0  # below 0: so much is owed
        self._earned = 0.0  # by one batch, 0 until the first was recorded

    def pay(self, cost: float, used: int, batches: int) -> None:
        """Recording cost so much; the batch took `used` ns, as `batches` batches did since the last payment."""
        allowed = self._share * max(1, used)
        self._earned = max(allowed - self._passed, allowed / 2)
        self._left -= cost
        self.earn(max(1, batches))
        if self._left < 0:
            self._left += self._reserve.take(-self._left)

    def earn(self, batches: int) -> None:
        """So many batches were made."""
        self._left = min(self._left + batches * self._earned, MOST_NS)

    def wait(self) -> int:
        """How many batches from now on the next one is that can be paid for, 1 being the next."""
        return max(1, math.ceil(-self._left / self._earned)) if self._left < 0 else 1


class Slowdown:
    """What watching calls by events costs, from the CPU time per sample of batches so watched and of others."""

    __slots__ = ("_plain", "_watched")

    def __init__(self) -> None:
        self._plain, self._watched = _Mean(), _Mean()

    def add(self, used: int, samples: int, watched: bool) -> None:
        """A batch of so many samples took `used` ns."""
        (self._watched if watched else self._plain).add(used / max(1, samples))

    def share(self) -> float:
        """Part of a watched batch's CPU time that watching takes. What chance may hide is counted in."""
        more = self._more(1)
        return WATCHED_SHARE if more is None else min(max(more, WATCHED_LEAST), WATCHED_MOST)

    def sure_share(self) -> float:
        """The same where it is more than chance, else 0."""
        return min(max(self._more(0) or 0.0, 0.0), WATCHED_MOST) if (self._more(-_SURE) or 0.0) > 0 else 0.0

    def _more(self, errors: int) -> float | None:
        """Part of a watched batch's CPU time that others do not take, and so many standard errors; None: unknown."""
        plain, watched = self._plain, self._watched
        if min(plain.count, watched.count) < _ENOUGH or watched.mean <= 0:
            return None
        return (watched.mean - plain.mean + errors * math.sqrt(plain.error() + watched.error())) / watched.mean


class _Mean:
    """The first value is left out: caches are cold, files are opened, modules are imported."""

    __slots__ = ("_squares", "count", "mean")

    def __init__(self) -> None:
        self.count, self.mean, self._squares = -1, 0.0, 0.0

    def add(self, value: float) -> None:
        self.count += 1
        if self.count:
            distance = value - self.mean
            self.mean += distance / self.count
            self._squares += distance * (value - self.mean)

    def error(self) -> float:
        """Square of the standard error."""
        return self._squares / (self.count * (self.count - 1))
