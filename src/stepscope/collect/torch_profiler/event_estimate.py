"""How many events a step will make under the profiler: the cost of a trace, which nothing tells beforehand.

Two sources. The autograd nodes of one untraced step are counted by torch anyway; where they already mean a large trace,
that is enough. Else a look: a step that is recorded and counted.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["LOOK_CPU_NS", "Estimate"]

LOOK_CPU_NS = 125_000_000
"""CPU time after which a look is cut: a step of small operators of 100,000 events (1.2 µs each) is seen whole; at most
about 140,000 events (0.9 µs each), in 0.8 s stopped and counted."""

_EVENTS_PER_NODE = 12
"""Events of one autograd node, forward and backward, in a loop of the smallest operators; others make up to 34."""

_LARGE = 50_000
"""Events from which a step is large enough to go by its nodes: a look at it would cost more than it tells."""

_UNSEEN_EVENTS_PER_S = 500_000.0
"""Density to expect of a step nobody looked at: the smallest operators make at most about twice as many events."""

_SLOWER_WHEN_TRACED = 2.0
"""An untraced CPU second holds up to this times the events of a traced one: recording slows the smallest operators."""

_DEVICE_FACTOR = 2
"""Events with the device recorded for each event of the host alone: launch and kernel."""

_CUT_MARGIN = 1.25
"""A recording may grow to this times the events allowed: steps differ, and a cut loses the step in flight."""


class Estimate:
    """`events` a step holds, None while unknown. `device`: kernels will be recorded too."""

    def __init__(self) -> None:
        self.events: int | None = None
        self.device = False
        self._per_cpu_second = _UNSEEN_EVENTS_PER_S
        self._begin: tuple[int, int] | None = None
        self._step_cpu = 0

    def begin_step(self) -> None:
        """An untraced step begins in the calling thread."""
        self._begin = (time.thread_time_ns(), _autograd_nodes())

    def end_step(self) -> None:
        """The untraced step has ended; without `begin_step` nothing is learnt."""
        if self._begin is None:
            return
        cpu, nodes = self._begin
        self._step_cpu = time.thread_time_ns() - cpu
        events = (_autograd_nodes() - nodes) * _EVENTS_PER_NODE * self._factor()
        if events > _LARGE:
            self.events = events
            self._per_cpu_second = events * 1e9 / max(1.0, self._step_cpu * _SLOWER_WHEN_TRACED)

    def looked(self, events: int, cpu_ns: int, cut: bool) -> None:
        """A look found `events` of the host in `cpu_ns` of CPU time; a `cut` one saw the beginning of the step only."""
        events *= self._factor()
        self._per_cpu_second = max(1.0, events * 1e9 / max(1, cpu_ns))
        if cut:
            events = max(events, int(self._per_cpu_second * _SLOWER_WHEN_TRACED * self._step_cpu / 1e9))
        self.events = events

    def steps_in(self, allowed: int) -> int | None:
        """Whole steps in `allowed` events, None when unknown."""
        return None if self.events is None else allowed // max(1, self.events)

    def cpu_limit_ns(self, allowed: int) -> int:
        """CPU time in which a recording makes the `allowed` events and the margin."""
        return max(LOOK_CPU_NS, int(allowed * _CUT_MARGIN / self._per_cpu_second * 1e9))

    def _factor(self) -> int:
        return _DEVICE_FACTOR if self.device else 1


def _autograd_nodes() -> int:
    """Autograd nodes made by this thread so far; 0 where torch does not tell."""
    torch: Any = sys.modules["torch"]
    count = getattr(torch._C._autograd, "_get_sequence_nr", None)
    return int(count()) if count is not None else 0
