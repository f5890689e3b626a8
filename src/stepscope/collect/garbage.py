"""Times the garbage collector's work in the training thread."""

from __future__ import annotations

import gc
import sys
import time
from _thread import get_ident

from .guards import own_errors

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

    from .line_sampler.lines import Sampler
    from .step_clock.clock import State

__all__ = ["LONG_NS", "Collector"]

LONG_NS = 1_000_000
"""A collection from here on becomes a line sample: shorter ones are many, and harmless one by one."""


class Collector:
    """Adds the time of each collection in the training thread to `state.gc_ns`; a long one is a sample of `sampler`.

    `start` begins, `close` ends. About 1 µs a collection.
    """

    def __init__(self, state: State, sampler: Sampler | None) -> None:
        self._state, self._sampler = state, sampler
        self._begin = 0

    def start(self) -> None:
        """Begin to time collections."""
        gc.callbacks.append(self._collection)

    def close(self) -> None:
        """Stop; a second call does nothing."""
        self._sampler = None
        if self._collection in gc.callbacks:
            gc.callbacks.remove(self._collection)

    abandon = close

    def _collection(self, phase: str, _: dict[str, Any]) -> None:
        """Python calls this, and would print what it raises."""
        try:
            if phase == "start":
                self._starts()
            elif self._begin and get_ident() == self._state.thread:
                self._ends(time.monotonic_ns() - self._begin)
        except own_errors():
            self._sampler = None

    def _starts(self) -> None:
        self._begin = time.monotonic_ns() if get_ident() == self._state.thread else 0
        self._tell(self._begin != 0)

    def _ends(self, duration: int) -> None:
        self._begin = 0
        self._state.gc_ns += duration
        self._tell(False)
        if duration >= LONG_NS and self._sampler is not None:
            self._sampler.collected(duration, sys._getframe(2))

    def _tell(self, collecting: bool) -> None:
        if self._sampler is not None:
            self._sampler.collecting = collecting
