"""Appends to files from a thread of its own: a disk of another machine that does not answer must not stop training."""

from __future__ import annotations

import errno
import os
import time
from _thread import allocate_lock, start_new_thread
from collections import deque

from .append import append_bytes
from .own_threads import COLLECTIONS_WAIT

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Outbox"]

EVERY_S = 0.5
"""Time between two deliveries: what a job that is killed may lose."""

_MOST_WAITING = 20_000  # pieces, of 88 bytes for a step: minutes of a quick job, and few megabytes
_PATIENCE_S = 2.0  # at the end of the job, for a delivery that is under way


class Outbox:
    """Takes pieces for files and delivers them in order. `deliver(path, data)` does so; it may wait for long."""

    def __init__(self, deliver: Callable[[str, bytes], None] = append_bytes) -> None:
        self._deliver = deliver
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._pid, self._under_way = os.getpid(), allocate_lock()
        self._runs = self._closed = False
        self._error: OSError | None = None

    def put(self, path: str, data: bytes) -> None:
        """Have `data` appended to `path` soon. Raises OSError where what came before could not be, or still waits."""
        if self._error is not None:
            raise self._error
        if len(self._waiting) >= _MOST_WAITING:
            raise OSError(errno.ETIMEDOUT, f"the disk of {path} does not answer")
        self._waiting.append((path, data))
        if not self._runs:
            self._runs = True
            start_new_thread(self._run, ())

    def close(self) -> None:
        """Deliver what waits, unless the disk does not answer. A forked child leaves it to its parent."""
        if self._pid != os.getpid() or self._closed:
            return
        self._closed = True
        if self._under_way.acquire(timeout=_PATIENCE_S):
            try:
                self._send()
            finally:
                self._under_way.release()

    def _run(self) -> None:
        while not self._closed and self._error is None:
            time.sleep(EVERY_S)
            with COLLECTIONS_WAIT, self._under_way:
                self._send()

    def _send(self) -> None:
        pieces: dict[str, list[bytes]] = {}
        while self._waiting:
            path, data = self._waiting.popleft()
            pieces.setdefault(path, []).append(data)
        try:
            for path, parts in pieces.items():
                self._deliver(path, b"".join(parts))
        except OSError as error:
            self._error = error
