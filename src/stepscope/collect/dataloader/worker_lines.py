"""The lines that a DataLoader worker is at while it makes batches: the line sampler, in the worker.

Spans tell how long a sample took, not which line of one long `__getitem__` took it. What a worker does between its
batches is no sample, and neither are the frames of the script that started it.
"""

from __future__ import annotations

import math
import os
import time
from _thread import get_ident

from ..line_sampler.lines import Sampler
from ..origins import Origins
from ..recorder import BinaryFile, append_line, both_clocks, leave_note
from ..step_clock.state import State

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from ..sources import Sources
    from .batch_recorder import BatchRecorder

__all__ = ["LINES_SUFFIX", "WorkerSampler", "start"]

LINES_SUFFIX = ".lines"
"""What the folder of the lines has behind the name of the worker's file of spans."""

HALVED_AFTER = 8192
"""Samples, 300 KB, after which only half as many are taken: a worker of a long run must not fill the disk."""

SHARE = 0.001
"""Part of the worker's CPU time that looking may cost: 50 µs a look where caches are warm, 250 µs beside other jobs."""

_ORIGINS = Origins()  # workers that are forked have it from their parent
_LONGEST_NS = 2_000_000_000  # from one look to the next
_WELL_BELOW = 4  # times less than it may cost: it is done twice as often again


def start(recorder: BatchRecorder, run_dir: str, hz: float, within: CodeType) -> WorkerSampler:
    """Sample the calling thread, a worker's own, in what `within` calls, the code of a fetch. Raises OSError."""
    files = _Files(recorder.spans.path + LINES_SUFFIX, run_dir)
    share = SHARE if recorder.spans.share < 1 else math.inf
    state = State()
    state.thread = get_ident()
    sampler = WorkerSampler(state, files, hz, within, share, recorder.spans.sources)
    os.register_at_fork(after_in_child=sampler.abandon)
    sampler.start()
    return sampler


class WorkerSampler(Sampler):
    """Takes fewer samples the longer it runs, and where looking takes more than `share` of the worker's CPU time."""

    def __init__(
        self, state: State, files: _Files, hz: float, within: CodeType, share: float, sources: Sources | None
    ) -> None:
        super().__init__(state, files, hz, within, _ORIGINS, sources)
        self._share, self._shortest_ns = share, self.slot_ns
        self._before = (0, 0)  # CPU time of this thread, and of the process, when it wrote last

    def _run(self) -> None:
        self._before = time.thread_time_ns(), time.process_time_ns()
        super()._run()

    def _settle(self) -> None:
        """How long until the next look, after what the last ones took?"""
        own, used = now = time.thread_time_ns(), time.process_time_ns()
        spent, allowed = own - self._before[0], self._share * (used - self._before[1])
        self._before = now
        if self._written >= HALVED_AFTER:
            self._written = 0
            self._shortest_ns *= 2
        wanted = self.slot_ns
        if spent > allowed:
            wanted *= 2
        elif spent * _WELL_BELOW < allowed:
            wanted //= 2
        self.slot_ns = max(self._shortest_ns, min(wanted, _LONGEST_NS))

    def _thin_out(self, written: int) -> None:
        self._written += written  # what follows from it is settled with what looking costs


class _Files:
    """The files of the lines of one worker, in a folder of their own."""

    def __init__(self, folder: str, run_dir: str) -> None:
        os.mkdir(folder)
        self._folder, self._run_dir = folder, run_dir

    def open_binary(self, name: str, magic: bytes, record_size: int) -> BinaryFile:
        return BinaryFile(os.path.join(self._folder, name), magic, record_size, *both_clocks()[:2])

    def append(self, name: str, row: dict[str, Any]) -> None:
        append_line(os.path.join(self._folder, name), row)

    def note(self, what: str, why: object) -> None:
        leave_note(self._run_dir, f"{what} of the loading in process {os.getpid()}", why)
