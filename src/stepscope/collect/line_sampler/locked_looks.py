"""The looks of the line sampler in Python, with the interpreter lock: where native/stacks.h cannot be used.

The thread may be kept waiting for the lock by one long call that holds it (a pickle, a sort, a large list); the
training thread hands the lock over only after that call, with the calling line still its last instruction. So the
sample that was due, and all that fell due while it waited, go to the line that made the call. When steps went by
meanwhile, it was no single call but the sampler that was late (a busy machine); then one look must not speak for more
than LATE_NS.

What these looks do not see. The lock changes hands in calls that release it (every torch operator) or when the thread
that wants it has waited for Python's switch interval, 5 ms: pure Python shorter than that would be charged to the next
call. So the interval is PROMPT_S while no other thread of Python is at work but the training thread and the sampler;
the job's own value is back when there is one, whose turns it would change, in forked children and at the end. What is
shorter still is charged to the next call all the same.
"""

from __future__ import annotations

import os
import random
import sys
import time
from _thread import get_ident

from ..origins import COLLECTING, RECORDER
from ..own_threads import COLLECTIONS_WAIT

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any, Protocol

    class Sampler(Protocol):
        """As lines.Sampler: what is sampled, and who takes the samples."""

        state: Any
        within: CodeType | None
        origins: Any
        slot_ns: int
        late_ns: int
        file: Any
        stop: Any
        collecting: bool
        spares_traced_steps: bool

        def keep(self, now: int, step: int, weight: int, phase: int, flags: int, spots: tuple[Any, ...]) -> None: ...

        def keep_collections(self) -> list[tuple[int, int]]: ...

        def flush(self) -> None: ...


__all__ = ["HARMLESS", "PROMPT_S", "TakingTurns", "walked"]

HARMLESS = not (3, 11) <= sys.version_info < (3, 12)
"""Python 3.11 makes frame objects as another thread's stack is walked, which may start a collection; its callbacks hand
the interpreter lock to the training thread while C code still points at frames that it then leaves: a crash."""

PROMPT_S = 0.0002
"""Switch interval while it concerns nobody but the sampler: a stretch of pure Python loses as much to what follows it;
a look takes 50 µs and must not be interrupted itself."""

_PYTHONS_OWN_S = 0.005  # another value is the job's wish and stays
_WAITING = os.path.join(os.path.dirname(os.__file__), "threading.py")  # innermost file of a thread that waits
_MOST_DUE = 10_000  # samples that fell due in one wait and are looked at one by one
_DEEPEST_WALK = 400  # frames looked at: deeper recursion is cut at its outer end


class TakingTurns:
    """Looks at the thread of `sampler.state` and gives `sampler` the samples."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler, self._state = sampler, sampler.state
        self._chance = random.Random().random  # the job's own generator must not move
        self._slot = time.monotonic_ns()
        self._due = self._slot + int(sampler.slot_ns * self._chance())
        self._step = 0
        self._passed: list[int] = []  # samples that fell due and are not accounted yet
        self._interval = 0.0  # the job's own switch interval while ours is set, else 0

    def run(self) -> None:
        """Sample until the sampler is told to stop, or cannot write."""
        sampler, wait, now = self._sampler, self._sampler.stop.acquire, time.monotonic_ns
        try:
            while sampler.file is not None and not wait(timeout=max(0, self._due - now()) / 1e9):
                with COLLECTIONS_WAIT:
                    self._sample()
        finally:
            self.give_interval_back()

    def give_interval_back(self) -> None:
        """Set the job's own switch interval again; also in a forked child, which has no sampling thread."""
        if self._interval and abs(sys.getswitchinterval() - PROMPT_S) < 1e-6:  # else the job has set its own since
            sys.setswitchinterval(self._interval)
        self._interval = 0.0

    def _set_interval(self, alone: bool) -> None:
        if alone and not self._interval and sys.getswitchinterval() == _PYTHONS_OWN_S:
            self._interval = _PYTHONS_OWN_S
            sys.setswitchinterval(PROMPT_S)
        elif self._interval and not alone:
            self.give_interval_back()

    def _sample(self) -> None:
        state, sampler = self._state, self._sampler
        step, phase, now = state.step, state.phase, time.monotonic_ns()
        if sampler.spares_traced_steps and state.traced:
            self._pass(now)
            self._account()
            self._step = step
            return
        spots, ours = self._look(state.thread)
        self._pass(now)
        if sampler.collecting or ours == COLLECTING:
            return  # the collection is not known yet: the next sample tells which fell due in it
        weight, steps = sampler.slot_ns * self._account(), step - self._step
        self._step = step
        if spots and weight and not ours:
            if steps > 1 and weight > sampler.late_ns:
                weight = sampler.late_ns
            sampler.keep(now, step, weight, phase, 0, spots)
        sampler.flush()

    def _pass(self, now: int) -> None:
        """Take note of the samples that fell due by `now`, and draw the next moment."""
        while self._due <= now:
            if len(self._passed) < _MOST_DUE:
                self._passed.append(self._due)
            self._slot += self._sampler.slot_ns
            self._due = self._slot + int(self._sampler.slot_ns * self._chance())

    def _account(self) -> int:
        """Keep the collections since the last sample; how many samples fell due outside them?"""
        passed, self._passed = self._passed, []
        for begin, end in self._sampler.keep_collections():
            passed = [due for due in passed if not begin <= due <= end]
        return len(passed)

    def _look(self, thread: int) -> tuple[tuple[Any, ...], int]:
        """The stack of `thread`.

        The dictionary of frames holds the frame of this very function: a cycle that would keep every frame of the job,
        and with them all locals, until a cyclic collection. So it is emptied in any case.
        """
        frames = sys._current_frames()
        try:
            self._set_interval(_alone(frames, thread))
            return walked(frames.get(thread), self._sampler.origins.of, self._sampler.within)
        finally:
            frames.clear()


def walked(
    frame: FrameType | None, origin: Callable[[str], int], within: CodeType | None
) -> tuple[tuple[Any, ...], int]:
    """The stack as code, offset, code, offset, …, innermost first; and TRACING or COLLECTING if that goes on.

    Nothing where `within` is given and does not run.
    """
    spots: list[Any] = []
    ours = 0
    while frame is not None and len(spots) < 2 * _DEEPEST_WALK:
        code = frame.f_code
        if code is within:
            return tuple(spots), ours
        kind = origin(code.co_filename)
        if kind < RECORDER:
            spots.append(code)
            spots.append(frame.f_lasti)
        elif kind > RECORDER:
            ours = kind
        frame = frame.f_back
    return (tuple(spots) if within is None else ()), ours


def _alone(frames: dict[int, FrameType], thread: int) -> bool:
    """Whether the threads other than `thread` and this one wait for one another, as a progress bar's monitor does."""
    mine = get_ident()
    return all(found in (thread, mine) or frame.f_code.co_filename == _WAITING for found, frame in frames.items())
