"""A watch over how long a recording has run and how much CPU time it took, from a second thread."""

from __future__ import annotations

import time
from _thread import allocate_lock, get_ident, start_new_thread

from ..own_threads import COLLECTIONS_WAIT

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Limit", "call_in_main_thread"]

POLL_S = 0.02
"""How late `Limit` may notice: at 0.9 µs an event, 22,000 events."""


class Limit:
    """Calls `exceeded("cpu" or "wall")` once, in its own thread, when the calling thread has used `cpu_ns` of CPU time
    or `wall_ns` has passed (0: no such limit); `stop` ends the watch. Raises RuntimeError when no thread can start.

    The thread is none of the threading module's: a script that joins all threads does not wait for it.
    """

    __slots__ = ("_begin", "_clock", "_cpu_begin", "_cpu_ns", "_exceeded", "_lock", "_wall_ns")

    def __init__(self, cpu_ns: int, wall_ns: int, exceeded: Callable[[str], object]) -> None:
        self._cpu_ns, self._wall_ns, self._exceeded = cpu_ns, wall_ns, exceeded
        self._clock = time.pthread_getcpuclockid(get_ident()) if hasattr(time, "pthread_getcpuclockid") else None
        self._begin = time.monotonic_ns()
        self._cpu_begin = time.thread_time_ns()
        self._lock = allocate_lock()
        self._lock.acquire()
        start_new_thread(self._watch, ())

    def cpu(self) -> int:
        """CPU time of the watched thread since the start, in ns (elapsed time where threads have no clocks)."""
        if self._clock is None:
            return time.monotonic_ns() - self._begin
        return time.clock_gettime_ns(self._clock) - self._cpu_begin

    def stop(self) -> None:
        """End the watch; `exceeded` may still be under way."""
        if self._lock.locked():
            self._lock.release()

    def _watch(self) -> None:
        try:
            while not self._lock.acquire(timeout=POLL_S):
                if self._is_exceeded():
                    return
        except Exception:
            return  # the watched thread ended: nothing is left to watch

    def _is_exceeded(self) -> bool:
        with COLLECTIONS_WAIT:
            wall = bool(self._wall_ns) and time.monotonic_ns() - self._begin > self._wall_ns
            cpu = not wall and self.cpu() > self._cpu_ns
            if wall or cpu:
                self._exceeded("wall" if wall else "cpu")
            return wall or cpu


def call_in_main_thread(call: Callable[[], object]) -> None:
    """Have the main thread make `call()` between two bytecodes, where a signal handler would run; it must not raise.

    Raises ImportError or AttributeError where Python has no such door.
    """
    import ctypes

    def answer(_: object) -> int:
        call()
        return 0

    pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(answer)
    _alive.append(pending)
    ctypes.pythonapi.Py_AddPendingCall(pending, None)


_alive: list[Any] = []  # the interpreter holds no reference, and nobody knows when it has made the call
