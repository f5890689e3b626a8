"""What a step's record holds, and what the step clock tells its helpers while a step lasts."""

from __future__ import annotations

import struct

from .fields import StateFields

__all__ = [
    "FLAG_BY_BACKWARD",
    "FLAG_CLOSURE",
    "FLAG_EPOCH_END",
    "FLAG_EPOCH_START",
    "FLAG_FOREIGN_LOADER",
    "FLAG_NO_DATA_WAIT",
    "FLAG_TRACED",
    "FLAG_TRACING",
    "PHASE_BACKWARD",
    "PHASE_DATA_WAIT",
    "PHASE_FORWARD",
    "PHASE_OPTIMIZER",
    "PHASE_OTHER",
    "RECORD",
    "State",
]

PHASE_OTHER = 0
PHASE_DATA_WAIT = 1
PHASE_FORWARD = 2
PHASE_BACKWARD = 3
PHASE_OPTIMIZER = 4

FLAG_TRACED = 1
FLAG_TRACING = 2
FLAG_EPOCH_START = 8
FLAG_EPOCH_END = 16
FLAG_NO_DATA_WAIT = 32
FLAG_FOREIGN_LOADER = 64
FLAG_BY_BACKWARD = 128
FLAG_CLOSURE = 256

RECORD = struct.Struct("<qqqqqqqqqqiI")
"""step, start, end, data_wait, forward, backward, optimizer, evaluation_wait, gc, samples, micro_batches, flags."""


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
