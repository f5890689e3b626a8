"""One stretch of steps under torch's profiler, with its annotations and a limit on its size.

All but `_exceeded` runs in the training thread, outside torch's own annotations (see tracer.py).
"""

from __future__ import annotations

import sys
from _thread import get_ident
from time import sleep

from .limits import Limit, call_in_main_thread
from .tracer import STEP_MARK

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..step_clock.clock import State
    from .tracer import Tracer

__all__ = ["Recording"]

SETTLING_S = 0.002
"""Threads of gloo end the annotation of a collective after those that wait for it have gone on, and had their core.
Without this 3 of 7 recordings on two cores saw one open, with it none of 8."""


class Recording:
    """`tracer`, prepared, from `start` to `stop`. When it has used `cpu_ns` of the thread's CPU time or lasted
    `wall_ns` (0: no limit), `overdue` says so and `interrupt()` is called in the main thread."""

    def __init__(self, tracer: Tracer, state: State, interrupt: Callable[[], object]) -> None:
        self.overdue = ""
        self._tracer, self._state, self._interrupt = tracer, state, interrupt
        self._thread = get_ident()
        self._annotation: Any = None
        self._limit: Limit | None = None

    def start(self, cpu_ns: int, wall_ns: int) -> None:
        """Record from here on. Raises what torch raises, and RuntimeError when no thread can be started."""
        self._tracer.start()
        self._state.traced = True
        self._limit = Limit(cpu_ns, wall_ns, self._exceeded)

    def in_its_thread(self) -> bool:
        """Whether the caller is in the thread that records: only there can it be stopped."""
        return get_ident() == self._thread

    def annotate(self, step: int) -> None:
        """End the annotation of the last step and begin that of `step`."""
        from torch.autograd.profiler import record_function

        self.end_annotation()
        self._annotation = record_function(f"{STEP_MARK}{step}")
        self._annotation.__enter__()

    def end_annotation(self) -> None:
        """End the annotation of the last step, if there is one."""
        annotation, self._annotation = self._annotation, None
        if annotation is not None:
            annotation.__exit__(None, None, None)

    def cpu(self) -> int:
        """CPU time of the thread since the start, in ns; at least 1."""
        return max(1, self._limit.cpu()) if self._limit is not None else 1

    def stop(self) -> Tracer:
        """Stop recording; the events are in the tracer that is returned."""
        self._state.traced = False
        if self._limit is not None:
            self._limit.stop()
        try:
            if _communicates():
                sleep(SETTLING_S)
        finally:  # also where a signal handler of the job raises meanwhile
            self.end_annotation()
            self._tracer.stop()
        return self._tracer

    def abandon(self) -> Tracer:
        """In a forked child: forget the recording, touching nothing of torch. Returns what must be kept alive."""
        self._state.traced = False
        return self._tracer

    def _exceeded(self, limit: str) -> None:
        if limit == "wall":
            self.overdue = "it took longer than a trace may (trace_seconds)"
        else:
            self.overdue = "it grew past the events that a trace may have (trace_events)"
        call_in_main_thread(self._interrupt)


def _communicates() -> bool:
    """Whether the job has initialized torch.distributed."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and bool(distributed.is_initialized())
