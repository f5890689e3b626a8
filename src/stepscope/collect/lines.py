"""The line sampler: a thread in the job that looks at the training thread's stack some 50 times a second.

When it looks. Time is cut into slots of 1/hz from the start, and in each slot one moment is drawn at which a sample is
due. The moments depend on nothing that the job does; moments a fixed time after the last look would come to lie behind
the call that held it up, time after time, and never see what comes next.

What a sample says. It stands for its slot. The sampler may be kept waiting for the interpreter lock by one long call
that holds it (a pickle, a sort, a large list); the training thread hands the lock over only after that call, with the
calling line still its last instruction. So the sample that was due, and all that fell due while it waited, go to the
line that made the call. When steps went by meanwhile, it was no single call but the sampler that was late (a busy
machine); then one look must not speak for more than LATE_NS.

What it does not see. The lock changes hands in calls that release it (every torch operator) or when the thread that
wants it has waited for Python's switch interval, 5 ms: pure Python shorter than that would be charged to the next call.
So the interval is PROMPT_S while no other thread of Python is at work but the training thread and the sampler; the
job's own value is back when there is one, whose turns it would change, in forked children and at the end. Samples that
fall due while stepscope itself traces or exports are left out: that time belongs to no step. Collections by the garbage
collector over 1 ms come in as samples of their own that stand for just their time (see garbage.py); what falls due in
them is left out.
"""

from __future__ import annotations

import gc
import os
import random
import struct
import sys
import time
from _thread import allocate_lock, get_ident, start_new_thread
from collections import deque

from .frames import COLLECTING, OTHER_STACKS, RECORDER, Describer, Origins

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Protocol

    from .recorder import BinaryFile

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


__all__ = ["FLAG_COLLECTOR", "LINES_MAGIC", "SAMPLE", "Sampler"]

LINES_MAGIC = b"STEPSCOPE-LINES1"
SAMPLE = struct.Struct("<qqqIHH")
"""Monotonic time, step in flight, weight in ns, stack id, phase, flags."""

FLAG_COLLECTOR = 1
"""Sample flag: the garbage collector ran."""

LATE_NS = 1_000_000_000
"""The most time one sample stands for when steps went by since the last: longer than any pause of the sampler but a
starved machine's, of which one look is no fair picture."""

HALVED_AFTER = 1 << 17
"""Samples, 4 MB, after which half as many are taken: 45 minutes at 50 a second. A run of 1,000 hours writes 45 MB."""

MOST_STACKS = 4000
"""Distinct stacks kept apart, about 0.5 KB each; a program with more is generating code."""

PROMPT_S = 0.0002
"""Switch interval while it concerns nobody but the sampler: a stretch of pure Python loses as much to what follows it;
a look takes 50 µs and must not be interrupted itself."""

_PYTHONS_OWN_S = 0.005  # another value is the job's wish and stays
_MAKES_FRAMES = (3, 11) <= sys.version_info < (3, 12)
"""Frame objects are made as the stack is walked, which may start a collection; its callbacks hand the interpreter lock
to the training thread while C code still points at frames that it then leaves: a crash."""
_WAITING = os.path.join(os.path.dirname(os.__file__), "threading.py")  # innermost file of a thread that waits
_MOST_DUE = 10_000  # samples that fell due in one wait and are looked at one by one
_MOST_KEYS = 20_000  # stacks told apart by instruction before lines; forgotten and learnt again beyond
_DEEPEST_WALK = 400  # frames looked at: deeper recursion is cut at its outer end
_FLUSH_NS = 1_000_000_000
_FLUSH_SAMPLES = 256


class Sampler:
    """Samples the thread `state.thread` about `hz` times a second into lines.bin and frames.jsonl.

    With `within`, only what that code has called. `origins` saves the time to make them. Nothing here raises but the
    constructor: OSError when the file cannot be made.
    """

    def __init__(
        self,
        state: Watched,
        recorder: Files,
        hz: float,
        within: CodeType | None = None,
        origins: Origins | None = None,
    ) -> None:
        self._state, self._recorder, self._within = state, recorder, within
        self._slot_ns = max(1, int(1e9 / hz))
        self._file: BinaryFile | None = recorder.open_binary("lines.bin", LINES_MAGIC, SAMPLE.size)
        self._origins = origins or Origins()
        self._describer = Describer(self._origins)
        self._chance = random.Random().random  # the job's own generator must not move
        self._ids: dict[tuple[Any, ...], int] = {}
        self._stacks: dict[str, int] = {}
        self._other = -1
        self._buffer: list[bytes] = []
        self._collections: deque[tuple[int, int, int, int, tuple[Any, ...]]] = deque()
        self._slot = self._due = self._flushed = self._step = 0
        self._written = 0  # samples since they became fewer
        self._passed: list[int] = []  # samples that fell due and are not accounted yet
        self.collecting = False  # set by the collector's timer, from its first to its last word
        # Frames that are looked at keep their tensors alive, which are then freed in this thread, where the profiler
        # sees no free: a trace of memory would show leaks that are none.
        self.spares_traced_steps = False
        self._stop = allocate_lock()
        self._ended = allocate_lock()
        self._pid = os.getpid()
        self._interval = 0.0  # the job's own switch interval while ours is set, else 0

    def start(self) -> None:
        """Start the thread; it is none of the threading module's, so a script that joins all threads is not held up."""
        self._stop.acquire()
        self._ended.acquire()
        self._slot = self._flushed = time.monotonic_ns()
        self._due = self._slot + int(self._slot_ns * self._chance())
        start_new_thread(self._run, ())

    def close(self) -> None:
        """End the thread and write what it has; a second call does nothing, and so does one in a forked child."""
        if self._pid != os.getpid():
            return
        if self._stop.locked():
            self._stop.release()
            self._ended.acquire(timeout=1.0)
        self._write()
        self._file = None

    def abandon(self) -> None:
        """In a forked child, which has no sampling thread: forget the parent's samples."""
        self._file = None
        self._buffer = []
        self._give_interval_back()

    def collected(self, duration: int, frame: FrameType) -> None:
        """In the training thread: the garbage collector ran for `duration` ns, called off by `frame`."""
        if self._file is not None:
            spots, _ = self._walk(frame)
            self._collections.append((time.monotonic_ns(), self._state.step, duration, self._state.phase, spots))

    # -- in the sampling thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            wait, now = self._stop.acquire, time.monotonic_ns
            while self._file is not None and not wait(timeout=max(0, self._due - now()) / 1e9):
                self._sample()
        except Exception as error:
            self._recorder.note("lines", error)
        finally:
            self._give_interval_back()
            self._ended.release()

    def _set_interval(self, alone: bool) -> None:
        if alone and not self._interval and sys.getswitchinterval() == _PYTHONS_OWN_S:
            self._interval = _PYTHONS_OWN_S
            sys.setswitchinterval(PROMPT_S)
        elif self._interval and not alone:
            self._give_interval_back()

    def _give_interval_back(self) -> None:
        if self._interval and abs(sys.getswitchinterval() - PROMPT_S) < 1e-6:  # else the job has set its own since
            sys.setswitchinterval(self._interval)
        self._interval = 0.0

    def _sample(self) -> None:
        state = self._state
        step, phase, now = state.step, state.phase, time.monotonic_ns()
        if self.spares_traced_steps and state.traced:
            self._pass(now)
            self._account()
            self._step = step
            return
        spots, ours = self._look(state.thread)
        self._pass(now)
        if self.collecting or ours == COLLECTING:
            return  # the collection is not known yet: the next sample tells which fell due in it
        weight, steps = self._slot_ns * self._account(), step - self._step
        self._step = step
        if spots and weight and not ours:
            if steps > 1 and weight > LATE_NS:
                weight = LATE_NS
            self._keep(now, step, weight, phase, 0, spots)
        if now - self._flushed > _FLUSH_NS or len(self._buffer) > _FLUSH_SAMPLES:
            self._flushed = now
            self._write()

    def _pass(self, now: int) -> None:
        """Take note of the samples that fell due by `now`, and draw the next moment."""
        while self._due <= now:
            if len(self._passed) < _MOST_DUE:
                self._passed.append(self._due)
            self._slot += self._slot_ns
            self._due = self._slot + int(self._slot_ns * self._chance())

    def _account(self) -> int:
        """Keep the collections since the last sample; how many samples fell due outside them?"""
        passed, self._passed = self._passed, []
        while self._collections:
            end, step, duration, phase, spots = self._collections.popleft()
            self._keep(end, step, duration, phase, FLAG_COLLECTOR, spots)
            passed = [due for due in passed if not end - duration <= due <= end]
        return len(passed)

    def _look(self, thread: int) -> tuple[tuple[Any, ...], int]:
        """The stack of `thread`.

        The dictionary of frames holds the frame of this very function: a cycle that would keep every frame of the job,
        and with them all locals, until a cyclic collection. So it is emptied in any case.
        """
        frames: dict[int, FrameType] = {}
        collects = _MAKES_FRAMES and gc.isenabled()
        if collects:
            gc.disable()
        try:
            frames = sys._current_frames()
            self._set_interval(_alone(frames, thread))
            return self._walk(frames.get(thread))
        finally:
            frames.clear()
            if collects:
                gc.enable()

    def _walk(self, frame: FrameType | None) -> tuple[tuple[Any, ...], int]:
        """The stack as code, offset, code, offset, …, innermost first; and TRACING or COLLECTING if that goes on.

        Nothing where `within` is given and does not run.
        """
        spots: list[Any] = []
        origin = self._origins.of
        ours = 0
        while frame is not None and len(spots) < 2 * _DEEPEST_WALK:
            code = frame.f_code
            if code is self._within:
                return tuple(spots), ours
            kind = origin(code.co_filename)
            if kind < RECORDER:
                spots.append(code)
                spots.append(frame.f_lasti)
            elif kind > RECORDER:
                ours = kind
            frame = frame.f_back
        return (tuple(spots) if self._within is None else ()), ours

    def _keep(self, now: int, step: int, weight: int, phase: int, flags: int, spots: tuple[Any, ...]) -> None:
        stack = self._ids.get(spots)
        if stack is None:
            if len(self._ids) >= _MOST_KEYS:
                self._ids.clear()
            stack = self._ids[spots] = self._new_stack(spots)
        self._buffer.append(SAMPLE.pack(now, step, weight, stack, phase, flags))

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
        self._thin_out(len(buffer))
        if buffer and self._file is not None:
            try:
                self._file.write(b"".join(buffer))
            except Exception as error:
                self._recorder.note("lines", error)
                self._file = None

    def _thin_out(self, written: int) -> None:
        """A long run must not fill the disk: later samples are fewer, and each stands for more time."""
        self._written += written
        if self._written >= HALVED_AFTER:
            self._written = 0
            self._slot_ns *= 2


def _alone(frames: dict[int, FrameType], thread: int) -> bool:
    """Whether the threads other than `thread` and this one wait for one another, as a progress bar's monitor does."""
    mine = get_ident()
    return all(found in (thread, mine) or frame.f_code.co_filename == _WAITING for found, frame in frames.items())
