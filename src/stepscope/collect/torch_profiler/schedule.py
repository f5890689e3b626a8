"""Which steps a traced window covers: arithmetic only."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Plan", "plan"]

_FIRST_BOUNDARY = 1  # the probe is called at the end of step 0 for the first time: step 1 is the first it can trace


class Plan:
    """The steps of one window: `look` (recorded and counted, see estimate.py; -1 none), `warmup` (first step with the
    profiler prepared), `first` to `last` (recorded)."""

    __slots__ = ("first", "last", "look", "warmup")

    def __init__(self, look: int, warmup: int, first: int, last: int) -> None:
        self.look, self.warmup, self.first, self.last = look, warmup, first, last


def plan(schedule: dict[str, Any], index: int) -> Plan | None:
    """Window `index` of `schedule`, whose names mean what they do in torch.profiler.schedule; None after the last one.

    The look is the last step of the wait, else the first of the warm-up, else there is none. A window that should begin
    at step 0 begins at step 1 and keeps its length. Raises ValueError for a schedule without a step to record.
    """
    skip, wait, warmup, active, repeat = (
        int(schedule.get(name, default))
        for name, default in (("skip_first", 0), ("wait", 10), ("warmup", 1), ("active", 3), ("repeat", 1))
    )
    if min(skip, wait, warmup, repeat) < 0 or active < 1:
        raise ValueError(f"a schedule needs active >= 1 and no negative number: {schedule}")
    if repeat and index >= repeat:
        return None
    start = skip + index * (wait + warmup + active)
    first = max(start + wait + warmup, _FIRST_BOUNDARY)
    look = start + wait - 1 if wait else start if warmup else -1
    if look < _FIRST_BOUNDARY:
        look = start + wait if warmup and start + wait >= _FIRST_BOUNDARY else -1
    prepare = max(start + wait, look + 1, _FIRST_BOUNDARY)
    return Plan(look, min(prepare, first), first, first + active - 1)
