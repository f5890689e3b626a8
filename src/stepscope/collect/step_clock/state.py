"""What a step's record holds, and what the step clock tells its helpers while a step lasts."""

from __future__ import annotations

from ..fields import StateFields

__all__ = [
    "PHASE_BACKWARD",
    "PHASE_DATA_WAIT",
    "PHASE_FORWARD",
    "PHASE_OPTIMIZER",
    "PHASE_OTHER",
    "State",
]

PHASE_OTHER = 0
PHASE_DATA_WAIT = 1
PHASE_FORWARD = 2
PHASE_BACKWARD = 3
PHASE_OPTIMIZER = 4


class State(StateFields):
    """What the step clock tells the line sampler and the collector timer: plain attributes, no lock.

    `phase` one of PHASE_*; `step` the step in flight; `gc_ns` time spent in the collector so far, in ns;
    `thread` the identifier of the training thread, 0 while unknown; `traced` true while torch.profiler runs.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self.phase = PHASE_OTHER
        self.step = 0
        self.gc_ns = 0
        self.thread = 0
        self.traced = False
