"""What one process records of its loaders: its file, opened when it is needed, and the iterators it has made."""

from __future__ import annotations

import os
import time

from ..fields import compiled
from ..guards import own_errors
from ..recorder import leave_note
from .spans import open_spans

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

    from .batch_recorder import BatchRecorder
    from .spans import SpanFile
    from .worker_lines import WorkerSampler

__all__ = ["Loading"]

ITERATORS_LIMIT = 1024
"""Iterators recorded in one process: a job that makes one for each batch would fill the disk with their names."""

NOT_COMPILED = "stepscope's compiled part is missing or does not fit this Python: batches and samples are recorded"


class Loading:
    """What this process records of its loaders. `identify(loader)` gives the number in facts.jsonl, or None.

    `share` of a batch's CPU time may go into its spans, and again into those of its samples. `lines_hz`: how often a
    second a worker's line is looked at. `source`: are lines of the user's code kept?
    """

    def __init__(
        self,
        run_dir: str,
        identify: Callable[[Any], int | None],
        share: float,
        lines_hz: float = 0,
        source: bool = False,
    ) -> None:
        self._source = source
        self._run_dir, self._identify, self._share, self._lines_hz = run_dir, identify, share, lines_hz
        self._spans: SpanFile | None = None
        self._made = 0
        self._off = False
        self.born = 0  # when this process was forked; 0: it was not, or before torch was there

    def open(self, role: str, about: dict[str, Any]) -> SpanFile | None:
        """The file of this process, opened now if it is not yet; None: nothing is recorded. Raises OSError."""
        if self._spans is None and not self._off:
            self._spans = open_spans(self._run_dir, role, about, self._share, self._source)
            if self._spans is None:
                self._off = True
                leave_note(self._run_dir, "loading of further processes", "there are as many files as a run may have")
        return self._spans

    def recorder(self, kind: Callable[[SpanFile, int], BatchRecorder]) -> BatchRecorder | None:
        """A recorder for a new iterator of this process; None: it is not recorded. Never raises."""
        if self._made >= ITERATORS_LIMIT:
            return None
        if compiled is None and not self._made:
            leave_note(self._run_dir, "calls inside the samples", NOT_COMPILED)
        try:
            spans = self.open("main", {})
            recorder = None if spans is None else kind(spans, self._made + 1)
        except own_errors() as error:
            self.fail(error)
            return None
        self._made += 1
        return recorder

    def sample_lines(self, recorder: BatchRecorder, within: CodeType) -> WorkerSampler | None:
        """Sample the lines of this worker, in what `within` calls; None: not asked for. Never raises."""
        if not self._lines_hz:
            return None
        try:
            from .worker_lines import start

            return start(recorder, self._run_dir, self._lines_hz, within)
        except own_errors() as error:
            leave_note(self._run_dir, f"lines of the loading in process {os.getpid()}", error)
            return None

    def made(self, recorder: BatchRecorder, iterator: Any, loader: Any) -> None:
        """Tell the side table of an iterator: its loader, its workers and the seed that they have in common."""
        recorder.loader = self._identify(loader)
        recorder.spans.tell(
            {
                "kind": "iterator",
                "iterator": recorder.iterator,
                "loader": recorder.loader,
                "seed": iterator._base_seed,
                "workers": iterator._num_workers,
                "pids": [worker.pid for worker in getattr(iterator, "_workers", ())],
            }
        )

    def learnt(self, recorder: BatchRecorder, iterator: Any, loader: Any) -> None:
        """Tell again of an iterator whose loader was not known when it was made, if it is known now."""
        if self._identify(loader) is not None:
            self.made(recorder, iterator, loader)

    def fail(self, error: BaseException) -> None:
        """Record nothing more here, and say why. Never raises."""
        self._off = True
        leave_note(self._run_dir, f"loading in process {os.getpid()}", error)

    def forked(self) -> None:
        """In a forked child: the file is the parent's; this process may open its own."""
        self.born = time.monotonic_ns()
        if compiled is not None:
            compiled.unwatch()  # a fetch of the parent's that this thread was forked in
        spans, self._spans = self._spans, None
        self._made, self._off = 0, False
        if spans is not None:
            try:
                spans.abandon()
            except own_errors() as error:  # Python would print it
                self.fail(error)
