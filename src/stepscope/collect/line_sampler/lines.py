"""The line sampler: a thread in the job that looks at the training thread's stack some 50 times a second.

When it looks. Time is cut into slots of 1/hz from the start, and in each slot one moment is drawn at which a sample is
due. The moments depend on nothing that the job does.

How it looks. Where the compiled part is there, it reads the stack out of memory (native/stacks.h) while the training
thread runs on: without the interpreter lock, so that no line is seen more often because it hands the lock over; without
an object made or held, so that nothing of the job lives longer, ends in another thread or waits. Where the job computes
on several cores, it looks from the training thread's (native/same_core.h). Only once a second Python code runs, to
write, and to describe stacks seen for the first time. Elsewhere it takes turns with the job: see locked_looks.py.

What a sample says. It stands for its slot. The sampler may come late: once a second it waits for the lock, which one
long call may hold (a pickle, a sort), with the calling line its last instruction when it hands it over. So the sample
that was due, and all that fell due while it waited, go to the line that is then seen. When steps went by meanwhile, it
was no single call but a busy machine; then one look must not speak for more than LATE_NS.

Samples that fall due while stepscope itself traces or exports are left out: that time belongs to no step. Collections
by the garbage collector over 1 ms come in as samples of their own that stand for just their time (see garbage.py); what
falls due in them is left out.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, start_new_thread
from collections import deque

from ...run_format.files import LINES, THREADS
from ...run_format.records import FLAG_COLLECTOR, LINE
from ..fields import StateFields, compiled
from ..origins import RECORDER, Origins
from ..own_threads import COLLECTIONS_WAIT
from ..stack_frames import OTHER_STACKS, Describer
from .copied_code import CopiedCode, reads_true
from .locked_looks import HARMLESS, TakingTurns, walked
from .thread_times import ThreadTimes

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Protocol

    from ..recorder import BinaryFile
    from ..sources import Sources

    class Watched(Protocol):
        """As clock.State: the thread that is sampled and what it is at."""

        thread: int
        phase: int
        traced: bool

        @property
        def step(self) -> int: ...

    class Files(Protocol):
        """As recorder.Recorder: where the samples go."""

        def open_binary(self, name: str, magic: bytes, record_size: int) -> BinaryFile: ...

        def append(self, name: str, row: dict[str, Any]) -> None: ...

        def note(self, what: str, why: object) -> None: ...


__all__ = ["Sampler"]

"""Monotonic time, step in flight, weight in ns, stack id, phase, flags."""

"""Sample flag: the garbage collector ran."""

LATE_NS = 1_000_000_000
"""The most time one sample stands for when steps went by since the last: longer than any pause of the sampler but a
starved machine's, of which one look is no fair picture."""

HALVED_AFTER = 1 << 17
"""Samples, 4 MB, after which half as many are taken: 45 minutes at 50 a second. A run of 1,000 hours writes 45 MB."""

MOST_STACKS = 4000
"""Distinct stacks kept apart, about 0.5 KB each; a program with more is generating code."""

_MOST_KEYS = 20_000  # stacks told apart by instruction before lines; forgotten and learnt again beyond
_FLUSH_NS = 1_000_000_000
_FLUSH_SAMPLES = 256


class Sampler:
    """Samples the thread `state.thread` about `hz` times a second into lines.bin and frames.jsonl.

    With `within`, only what that code has called. `origins` saves the time to make them; `sources` takes the source of
    what is seen, None: none is kept. Nothing here raises but the constructor: OSError when the file cannot be made.
    """

    def __init__(
        self,
        state: Watched,
        recorder: Files,
        hz: float,
        within: CodeType | None = None,
        origins: Origins | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.state, self.within, self.origins = state, within, origins or Origins()
        self.slot_ns, self.late_ns = max(1, int(1e9 / hz)), LATE_NS
        self.file: BinaryFile | None = recorder.open_binary(LINES, LINE.magic, LINE.struct.size)
        self._collections: deque[tuple[int, int, int, int, tuple[Any, ...]]] = deque()
        self.collecting = False  # set by the collector's timer, from its first to its last word
        self.spares_traced_steps = False
        """Frames that Python code looks at keep their tensors alive, which are then freed in the sampling thread, where
        the profiler sees no free: a trace of memory would show leaks that are none."""
        self.stop = allocate_lock()
        self._recorder = recorder
        self._describer = Describer(self.origins, sources)
        self._looker = self._make_looker()
        self._turns: TakingTurns | None = None
        self._copies: list[CopiedCode] = []
        self._threads = ThreadTimes(state.thread, self._stack_of)
        self._thread_stacks: dict[tuple[int, ...], int] = {}
        self._taken = b""  # samples that a collection going on may have to be kept out of
        self._ids: dict[tuple[Any, ...], int] = {}
        self._stacks: dict[str, int] = {}
        self._other = -1
        self._buffer: list[bytes] = []
        self._flushed = 0
        self._written = 0  # samples since they became fewer
        self._ended = allocate_lock()
        self._pid = os.getpid()

    def start(self) -> None:
        """Start the thread; it is none of the threading module's, so a script that joins all threads is not held up."""
        self.stop.acquire()
        self._ended.acquire()
        self._flushed = time.monotonic_ns()
        start_new_thread(self._run, ())

    def close(self) -> None:
        """End the thread and write what it has; a second call does nothing, and so does one in a forked child."""
        if self._pid != os.getpid():
            return
        if self.stop.locked():
            self.stop.release()
            if self._looker is not None:
                self._looker.stop()
            self._ended.acquire(timeout=1.0)
        self._write()
        self.file = None

    def abandon(self) -> None:
        """In a forked child, which has no sampling thread: forget the parent's samples."""
        self.file = None
        self._buffer = []
        if self._turns is not None:
            self._turns.give_interval_back()

    def collected(self, duration: int, frame: FrameType) -> None:
        """In the training thread: the garbage collector ran for `duration` ns, called off by `frame`."""
        if self.file is not None:
            spots, _ = walked(frame, self.origins.of, None)
            self._collections.append((time.monotonic_ns(), self.state.step, duration, self.state.phase, spots))

    # -- in the sampling thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with COLLECTIONS_WAIT:
                watched = self._looker is not None and reads_true(self._looker)
                if watched:
                    self._watch(self._looker)
            if not watched:
                self._take_turns()
        except Exception as error:
            self._recorder.note("lines", error)
        finally:
            self._ended.release()

    def _take_turns(self) -> None:
        if not HARMLESS:
            why = "stacks cannot be read out of memory here, and Python 3.11 has no safe other way"
            self._recorder.note("lines", why)
            return
        self._turns = TakingTurns(self)
        self._turns.run()

    def _make_looker(self) -> Any:
        if compiled is None or not isinstance(self.state, StateFields):
            return None
        code = Sampler.__init__.__code__
        try:
            return compiled.Looker(self.state, code, self.within, self.slot_ns, LATE_NS, sys.version_info[1])
        except NotImplementedError:
            return None

    def _watch(self, looker: Any) -> None:
        """Have `looker` sample until it is told to stop; about once a second write what it has."""
        looker.forget()
        looker.prompt()
        goes_on = True
        while goes_on and self.file is not None:
            goes_on = looker.watch(_FLUSH_NS)  # meanwhile collections begin as ever
            self._describe(looker)
            self._taken += looker.take()
            for row in self._threads.rows():
                self._recorder.append(THREADS, row)
            if looker.full:
                looker.forget()
                self._copies.clear()
            if not self.collecting or not goes_on:  # else that collection is not known yet
                self._keep_taken()
                self.flush()
            looker.slot_ns = self.slot_ns

    def _stack_of(self, ident: int) -> int | None:
        """The id of the stack at which a thread is that waits for the interpreter; None where it cannot be read."""
        self._describe(self._looker)
        spots = self._looker.spots(ident)
        if spots and spots not in self._thread_stacks and len(self._thread_stacks) < MOST_STACKS:
            stack = self._describe(self._looker)
            if stack is not None:
                self._thread_stacks[spots] = stack
        return self._thread_stacks.get(spots)

    def _describe(self, looker: Any) -> int | None:
        """Describe the stacks that were seen since the last call; the id of the last one, None if there is none."""
        fresh = looker.fresh()
        if fresh is None:
            return None
        codes, first, stacks = fresh
        self._copies += [CopiedCode(*code) for code in codes]
        stack = None
        for number, pairs in enumerate(stacks, first):
            stack = self._id_of(pairs)
            looker.name(number, stack)
        return stack

    def _id_of(self, pairs: tuple[int, ...]) -> int:
        """The id of a stack of copies, number, offset, …; negative: stepscope's own, or nothing to be seen."""
        spots: list[Any] = []
        for index in range(0, len(pairs), 2):
            copy = self._copies[pairs[index]]
            kind = self.origins.of(copy.co_filename)
            if kind > RECORDER:
                return -1
            if kind < RECORDER:
                spots += (copy, pairs[index + 1])
        return self._new_stack(tuple(spots)) if spots else -1

    def _keep_taken(self) -> None:
        """Keep the samples that were taken, without those that fell due in a collection, and the collections."""
        taken, self._taken = self._taken, b""
        for begin, end in self.keep_collections():
            rows = LINE.struct.iter_unpack(taken)
            taken = b"".join(LINE.struct.pack(*row) for row in rows if not begin <= row[0] <= end)
        if taken:
            self._buffer.append(taken)

    def keep_collections(self) -> list[tuple[int, int]]:
        """Keep the collections since the last call as samples; when each began and ended."""
        found = []
        while self._collections:
            end, step, duration, phase, spots = self._collections.popleft()
            self.keep(end, step, duration, phase, FLAG_COLLECTOR, spots)
            found.append((end - duration, end))
        return found

    def flush(self) -> None:
        """Write what was kept, once it is a second old or much."""
        now = time.monotonic_ns()
        if now - self._flushed > _FLUSH_NS or len(self._buffer) > _FLUSH_SAMPLES:
            self._flushed = now
            self._write()
            self._settle()

    def _settle(self) -> None:
        """May change `slot_ns`, by what the looks since the last call have cost."""

    def keep(self, now: int, step: int, weight: int, phase: int, flags: int, spots: tuple[Any, ...]) -> None:
        """Keep a sample of a stack of code, offset, …, innermost first."""
        stack = self._ids.get(spots)
        if stack is None:
            if len(self._ids) >= _MOST_KEYS:
                self._ids.clear()
            stack = self._ids[spots] = self._new_stack(spots)
        self._buffer.append(LINE.struct.pack(now, step, weight, stack, phase, flags))

    def _new_stack(self, spots: tuple[Any, ...]) -> int:
        """The id of the stack as it is described, which is written down at first sight."""
        if self._other >= 0:
            return self._other
        full = len(self._stacks) >= MOST_STACKS
        row = dict(OTHER_STACKS) if full else self._describer.describe(spots)
        name = repr(row)
        known = self._stacks.get(name)
        if known is not None:
            return known
        stack = self._stacks[name] = len(self._stacks)
        self._recorder.append("frames.jsonl", {"id": stack, **row})
        if full:
            self._other = stack
            self._recorder.note("lines", f"more than {MOST_STACKS} different stacks: the rest is one entry")
        return stack

    def _write(self) -> None:
        buffer, self._buffer = self._buffer, []
        self._thin_out(sum(map(len, buffer)) // LINE.struct.size)
        if buffer and self.file is not None:
            try:
                self.file.write(b"".join(buffer))
            except Exception as error:
                self._recorder.note("lines", error)
                self.file = None

    def _thin_out(self, written: int) -> None:
        """A long run must not fill the disk: later samples are fewer, and each stands for more time."""
        self._written += written
        if self._written >= HALVED_AFTER:
            self._written = 0
            self.slot_ns *= 2
