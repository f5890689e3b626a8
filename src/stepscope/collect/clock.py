"""The step clock: turns loader fetches, backward calls and optimizer steps into one record a step.

A step ends when the leader optimizer (the first one whose outermost `step()` returns after a backward) returns. All
times are those of the training thread on the host. `mark` is the end of the last accounted event, so that forward
(mark to backward), backward, optimizer (mark or entry to return) and data wait can never overlap.
"""

from __future__ import annotations

import struct

from .fields import ClockFields, StateFields
from .roles import LoaderUse, elected, waits

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["NO_LEADER_NS", "RECORD", "LoaderUse", "State", "StepClock"]

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

NO_LEADER_NS = 60_000_000_000
"""Without any optimizer step for a minute we take backward calls for steps ..."""
NO_LEADER_BACKWARDS = 20  # ... but only of a loop that runs: a saliency map or two is no training
BARE_STEPS = 3  # steps of an optimizer without any backward: gradients come from torch.autograd.grad
TAKEOVER_STEPS = 50  # a GAN's critic makes 5 steps to one of the generator; a leader this far behind is out of use

OFF = -1  # the value of `thread` that no thread has: every hook passes straight through


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


class StepClock(ClockFields):
    """Accounts the training thread's time. `now` gives ns, `ident` the thread, `grad_enabled` torch's grad mode.

    What the owner may set: `emit(record)` takes each finished record; `boundary(step)`, or None, is called after it and
    returns the next step's flags, its own time belongs to no step; `edge()`, or None, is called inside a step that is
    traced and may have to be cut short; `identify(iterator)` finds the LoaderUse of an iterator made behind our back;
    `met_optimizer(optimizer)`, `found_training(use)` and `note(what, why)` tell what was learnt. `busy` is true inside
    a fetch or a backward: what happens in there is part of it.
    """

    __slots__ = (
        "bare_steps", "by_backward", "failed", "fetching", "found_training", "identify", "leader_ref", "met",
        "met_optimizer", "note",
    )  # fmt: skip

    def __init__(
        self,
        state: State,
        now: Callable[[], int],
        ident: Callable[[], int],
        grad_enabled: Callable[[], bool],
        emit: Callable[[bytes], Any],
    ) -> None:
        self.state, self.now, self.ident, self.grad_enabled, self.emit = state, now, ident, grad_enabled, emit
        self.boundary: Callable[[int], int] | None = None
        self.identify: Callable[[Any], LoaderUse] | None = None
        self.met_optimizer: Callable[[Any], Any] | None = None
        self.found_training: Callable[[LoaderUse], Any] | None = None
        self.note: Callable[[str, BaseException], Any] | None = None
        self.restart()

    def restart(self) -> None:
        """Begin with step 0, knowing nothing: at the start, and in a forked child."""
        state = self.state
        state.phase = state.step = self.thread = state.thread = 0
        state.traced = False
        self.edge: Callable[[], int | None] | None = None
        self.busy = self.by_backward = self.closures = self.foreign = self.failed = False
        self.depth = self.others = self.bare_steps = self.unobserved = self.leader = self.fetching = 0
        self.leader_ref: Any = None
        self.met: set[int] = set()
        self.training: list[LoaderUse] = []
        self.touched: list[LoaderUse] = []
        self.last: LoaderUse | None = None
        self.start = self.mark = -1
        self.forward = self.backward = self.optimizer = self.micro = self.flags = 0
        self.expected = self.inner_forward = 0
        self.gc_mark = state.gc_ns

    # -- loader ------------------------------------------------------------------------------------------------------

    def fetched(self, iterator: Any, begin: int, batch: Any) -> None:
        """A fetch that began at `begin` gave `batch`."""
        end = self.now()
        self.busy = False
        try:
            try:
                use = iterator._stepscope_use
            except AttributeError:
                use = self.identify(iterator)  # type: ignore[misc]
            state = self.state
            if use.step != state.step:
                self._touch(use)
            if self.grad_enabled() or use.any_grad:
                use.wait += end - begin
                use.fetches += 1
                use.samples += use.count(batch)
                use.grad = True
                state.phase = PHASE_FORWARD if use.train or not self.training else PHASE_OTHER
            else:
                use.away += end - begin
                use.grad = False
                state.phase = PHASE_OTHER
            use.open = True
            self.last = use
            self.mark = end
        except Exception as error:
            self.fail("data wait", error)

    def not_fetched(self, iterator: Any, begin: int, error: BaseException) -> None:
        """A fetch that began at `begin` raised: the end of the epoch, or a failure of the user's code."""
        end = self.now()
        self.busy = False
        try:
            use = getattr(iterator, "_stepscope_use", None) or self.identify(iterator)  # type: ignore[misc]
            if use.step != self.state.step:
                self._touch(use)
            if isinstance(error, StopIteration):
                use.flags |= FLAG_EPOCH_END
                use.open = False
            else:
                use.wait += end - begin
            self.state.phase = PHASE_OTHER
            self.mark = end
        except Exception as failure:
            self.fail("data wait", failure)

    def started(self, use: LoaderUse, begin: int) -> None:
        """`__iter__` of a loader, which began at `begin`, returned: workers are up."""
        end = self.now()
        self.busy = False
        try:
            if use.step != self.state.step:
                self._touch(use)
            use.wait += end - begin
            use.flags |= FLAG_EPOCH_START
            self.state.phase = PHASE_OTHER
            self.mark = end
        except Exception as error:
            self.fail("data wait", error)

    def begin_fetch(self, use: LoaderUse | None = None) -> int:
        """Enter `__next__` or `__iter__` of a loader, which is known by its `use` or not yet; returns the time."""
        self.busy = True
        trains = use is None or use.train or not self.training
        self.state.phase = PHASE_DATA_WAIT if trains else PHASE_OTHER  # validation waits for nothing that trains
        if self.edge is not None:
            self._cut()
        begin = self.now()
        if self.start < 0:
            self.start = self.mark = begin
        return begin

    def _touch(self, use: LoaderUse) -> None:
        use.step = self.state.step
        use.wait = use.away = use.samples = use.fetches = use.flags = 0
        self.touched.append(use)
        if self.thread == 0:
            use.thread = self.ident()

    def _vote(self, use: LoaderUse) -> None:
        for found in elected(use, self.touched, bool(self.training) or self.unobserved > 0):
            self.training.append(found)
            if self.found_training is not None:
                self.found_training(found)

    # -- backward ----------------------------------------------------------------------------------------------------

    def enter_backward(self) -> int:
        """An outermost backward begins; returns the time."""
        if self.edge is not None:
            self._cut()
        begin = self.now()
        self.busy = True
        try:
            use = self.last
            if use is not None:
                self.last = None
                if not use.train:
                    self._vote(use)
            elif self.micro:
                self.inner_forward = self.micro + 1
            if self.start < 0:
                self.start = self.mark = begin
            self.forward += begin - self.mark
            self.state.phase = PHASE_BACKWARD
        except Exception as error:
            self.fail("forward", error)
        return begin

    def leave_backward(self, begin: int) -> None:
        """The outermost backward that began at `begin` returned or raised."""
        end = self.now()
        self.busy = False
        try:
            self.backward += end - begin
            self.mark = end
            self.micro += 1
            if self.depth:
                self.flags |= FLAG_CLOSURE
                self.closures = True
                self.state.phase = PHASE_OPTIMIZER
            else:
                self.state.phase = PHASE_FORWARD if self.micro < self.expected else PHASE_OTHER
            if not self.leader and (self.by_backward or self._without_optimizer(end)):
                self.close(end, FLAG_BY_BACKWARD)
            if self.edge is not None:
                self._cut()
        except Exception as error:
            self.fail("backward", error)

    def _without_optimizer(self, end: int) -> bool:
        self.by_backward = self.micro >= NO_LEADER_BACKWARDS and end - self.start >= NO_LEADER_NS
        return self.by_backward

    # -- optimizer ---------------------------------------------------------------------------------------------------

    def enter_step(self) -> int:
        """An optimizer's `step` begins; returns the time."""
        begin = self.now()
        self.depth += 1
        if self.start < 0:
            self.start = self.mark = begin
        if not (self.closures and self.state.phase == PHASE_FORWARD):
            self.state.phase = PHASE_OPTIMIZER
        return begin

    def leave_step(self, optimizer: Any, begin: int) -> None:
        """The `step` that began at `begin` returned; `optimizer` is None when it raised."""
        end = self.now()
        self.depth -= 1
        if self.depth:
            return
        try:
            mark = self.mark
            self.optimizer += end - (begin if begin > mark else mark)
            self.mark = end
            self.state.phase = PHASE_OTHER
            if optimizer is not None and (id(optimizer) == self.leader or self._leads(optimizer)):
                self.close(end, 0)
        except Exception as error:
            self.fail("optimizer", error)

    def _leads(self, optimizer: Any) -> bool:
        if id(optimizer) not in self.met:
            self.met.add(id(optimizer))
            if self.met_optimizer is not None:
                self.met_optimizer(optimizer)
        if not self.micro:
            self.bare_steps += 1
        self.others += 1
        ready = self.micro or self.bare_steps >= BARE_STEPS
        if not ready or (self.leader and self.others < TAKEOVER_STEPS):
            return False
        self._follow(optimizer)
        return True

    def _follow(self, optimizer: Any) -> None:
        import weakref  # once a job; holding the optimizer itself would hold its parameters

        leader = id(optimizer)

        def gone(_: object) -> None:
            if self.leader == leader:
                self.leader = 0
            self.met.discard(leader)

        self.leader_ref = weakref.ref(optimizer, gone)
        self.leader = leader
        self.by_backward = False

    # -- the end of a step -------------------------------------------------------------------------------------------

    def close(self, end: int, flags: int) -> None:
        """Write the record of the step that ends now, at `end`, and begin the next."""
        state = self.state
        step = state.step
        gc_ns = state.gc_ns
        wait, away, samples, flags, observed = waits(self.touched, flags | self.flags)
        if samples < 0:
            samples = -1
        if not observed and not any(use.open for use in self.training):
            wait = samples = -1
            flags = self._not_observed(flags)
        self.emit(
            RECORD.pack(
                step, self.start, end, wait, self.forward, self.backward, self.optimizer, away,
                gc_ns - self.gc_mark, samples, self.micro, flags,
            )
        )  # fmt: skip
        self.expected, self.inner_forward = self.inner_forward, 0
        self.forward = self.backward = self.optimizer = self.micro = self.flags = self.others = 0
        self.gc_mark = gc_ns
        self.touched.clear()
        state.step = step + 1
        state.phase = PHASE_OTHER if self.training else PHASE_FORWARD
        if self.boundary is None:
            self.start = self.mark = end
        else:
            self.flags = self.boundary(step)
            self.gc_mark = state.gc_ns
            self.start = self.mark = self.now()

    def _not_observed(self, flags: int) -> int:
        """A step without any loader of the training: nobody saw where its data came from."""
        self.unobserved += 1
        return flags | FLAG_NO_DATA_WAIT | (FLAG_FOREIGN_LOADER if self.foreign else 0)

    # -- the unusual -------------------------------------------------------------------------------------------------

    def learn_thread(self) -> bool:
        """The caller trains: its thread is the training thread if none is known. Is the caller in it?"""
        caller = self.ident()
        if self.thread == 0:
            if self.busy and self.fetching == caller:
                return False  # inside a fetch: a dataset that computes gradients
            self.thread = self.state.thread = caller
            self.busy = False  # a fetch under way is another thread's
            strangers = [use for use in self.touched if use.thread != caller]
            if strangers:
                self.foreign = True
                self.touched[:] = [use for use in self.touched if use.thread == caller]
                if self.last is not None and self.last.thread != caller:
                    self.last = None
                    self.mark = self.start
        return self.thread == caller

    def timed_early(self) -> bool:
        """Is a fetch outside the training thread to be timed? Yes while nobody knows which thread that is."""
        if self.thread == 0 and not self.busy:
            self.fetching = self.ident()
            return True
        if self.thread > 0 and self.ident() != self.thread:
            self.foreign = True
        return False

    def in_training_thread(self) -> bool:
        """May the caller be the training thread? Notes that a loader is used elsewhere if not."""
        if self.thread == 0 or self.thread == self.ident():
            return True
        self.foreign = True
        return False

    def fail(self, what: str, error: BaseException) -> None:
        """Our own code raised: stop recording for good, say so once, leave the job alone."""
        self.thread = self.state.thread = OFF
        self.edge = self.boundary = None
        self.touched.clear()
        if not self.failed:
            self.failed = True
            if self.note is not None:
                self.note("steps" if isinstance(error, OSError) else f"steps ({what})", error)

    def _cut(self) -> None:
        try:
            self.flags |= self.edge() or 0  # type: ignore[misc]
        except Exception as error:
            self.fail("trace", error)
