"""Work that may end after the user has the answer: it runs beside the rest and is waited for at the end.

Whoever starts it loses nothing if it never ends: it looks at `stop` often and leaves nothing half done.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

__all__ = ["awaited", "start"]

Work = Callable[[Event], None]
_NOTICED = 0.05  # s: the signal handler of polars lets waiting go on, so Ctrl-C is seen when we look up


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """Waiting is for `done`: before Python 3.13 an interrupted Thread.join takes the thread for ended."""

    work: Work
    stop: Event = field(default_factory=Event)
    done: Event = field(default_factory=Event)

    def run(self) -> None:
        try:
            self.work(self.stop)
        finally:
            self.done.set()


_JOBS: list[_Job] = []


def start(work: Work) -> None:
    """Call `work(stop)` in a thread; once `stop` is set it should end soon."""
    job = _Job(work)
    _JOBS[:] = [other for other in _JOBS if not other.done.is_set()]
    _JOBS.append(job)
    Thread(target=job.run, name="stepscope-background").start()  # no daemon: Python too waits for it at the end


@contextmanager
def awaited() -> Iterator[None]:
    """Wait at the end for what was started; an interruption (Ctrl-C) asks it to stop, and waits for that only."""
    try:
        yield
        _wait()
    except KeyboardInterrupt:
        for job in _JOBS:
            job.stop.set()
        raise
    finally:
        _wait()


def _wait() -> None:
    for job in _JOBS:
        while not job.done.wait(_NOTICED):
            continue
