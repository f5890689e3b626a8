"""What the probe costs in this very process: a step of nothing, timed with the hooks around it."""

from __future__ import annotations

import _thread
import os
import time

from .hooks import backward_hook, next_hook, optimizer_hook
from .step_clock.clock import LoaderUse, State, StepClock
from .step_clock.observer import Observer

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["hooked_step", "step_cost_ns"]

_STEPS = 60  # about 0.3 ms in the job, once
_REPEATS = 4  # the quickest repeat is the one nothing else disturbed


class _Iterator:
    """Stands for a loader's iterator; gives `self` as the batch."""

    def __init__(self, use: LoaderUse) -> None:
        self._stepscope_use = use


def hooked_step(emit: Callable[[bytes], Any]) -> Callable[[], None]:
    """A step of one fetch, one backward and one optimizer step that do nothing, with the hooks around each."""
    clock = StepClock(State(), time.monotonic_ns, _thread.get_ident, _always, Observer(emit))
    iterator = _Iterator(LoaderUse(0, _one))
    fetch, backward = next_hook(clock, _nothing), backward_hook(clock, _nothing)
    optimize = optimizer_hook(clock, _nothing, _nothing)

    def step() -> None:
        fetch(iterator)
        backward(iterator)
        optimize(iterator)

    return step


def step_cost_ns() -> int:
    """Nanoseconds that the hooks and the record add to a step, less the calls that they surround."""
    descriptor = os.open(os.devnull, os.O_WRONLY)

    def emit(record: bytes) -> None:
        os.write(descriptor, record)

    def bare() -> None:
        _nothing(None)
        _nothing(None)
        _nothing(None)

    try:
        return max(0, _best(hooked_step(emit)) - _best(bare))
    finally:
        os.close(descriptor)


def _best(step: Callable[[], None]) -> int:
    best = 0
    for _ in range(_REPEATS):
        begin = time.monotonic_ns()
        for _ in range(_STEPS):
            step()
        taken = (time.monotonic_ns() - begin) // _STEPS
        best = taken if not best else min(best, taken)
    return best


def _nothing(thing: Any) -> Any:
    return thing


def _one(batch: Any) -> int:
    return 1


def _always() -> bool:
    return True
