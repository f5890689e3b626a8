"""Steps whose ends the job marks itself: `stepscope.step()`."""

from __future__ import annotations

from ..guards import own_errors
from .training_thread import OFF
from .turns import MARKED

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from .clock import StepClock

__all__ = ["mark_step"]


def mark_step(clock: StepClock) -> None:
    """The job says that a step of its training ends here: from now on nothing else ends one. Never raises."""
    try:
        if clock.thread != clock.ident() and not _follows(clock):
            return
        if not (clock.busy or clock.depth):
            _end(clock)
    except own_errors() as error:
        clock.fail("stepscope.step()", error)


def _follows(clock: StepClock) -> bool:
    """Training is where the first mark is made. Is it in the caller's thread?"""
    if clock.thread == OFF or (clock.thread and clock.leader == MARKED):
        return False
    if clock.thread:
        clock.start_over()
    clock.settle(clock.ident())
    return True


def _end(clock: StepClock) -> None:
    if clock.last is not None and not clock.last.train:
        clock.consumed = clock.last
    clock.vote()
    end, fresh = clock.now(), clock.leader not in (0, MARKED)
    if clock.leader != MARKED:
        clock.leader, clock.by_backward, clock.early = MARKED, False, []
        clock.turns.dismiss()
    if clock.start < 0 or (fresh and not clock.micro and not clock.touched):
        clock.start = clock.mark = end  # nothing was seen since the last end: the first step begins here
    else:
        clock.close(end, 0)
