"""The step clock: turns loader fetches, backward calls and optimizer steps into one record a step.

A step ends when the outermost `step()` of the leading optimizer returns after a backward (which one leads: turns.py);
where the job has no optimizer of torch's, or it steps inside backward, when backward returns; and once the job has
called `stepscope.step()`, there and nowhere else. All times are those of the training thread on the host. `mark` is the
end of the last accounted event, so that forward (mark to backward), backward, optimizer (mark or entry to return) and
data wait can never overlap.
"""

from __future__ import annotations

from ...run_format.records import FLAG_BY_BACKWARD, FLAG_CLOSURE, FLAG_EPOCH_END, FLAG_EPOCH_START, STEP
from ..guards import own_errors
from .observer import Observer
from .pieces import Piece, record
from .state import (
    PHASE_BACKWARD,
    PHASE_DATA_WAIT,
    PHASE_FORWARD,
    PHASE_OPTIMIZER,
    PHASE_OTHER,
    State,
)
from .training_loader import LoaderUse, elected, waits
from .training_thread import OFF, TrainingThread
from .turns import JOINS, MARKED, MAY_END, SPLITS, Turns

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LoaderUse", "State", "StepClock"]

NO_LEADER_NS = 60_000_000_000  # no optimizer steps though there is one: backward calls are steps after a minute ...
NO_LEADER_BACKWARDS = 20  # ... but only of a loop that runs, and of one that does not just accumulate a few gradients
LOOP_BACKWARDS = 3  # without any optimizer of torch's each backward ends a step, but one or two make no training

_CALLED_BY_HOOKS = (
    "admits_backward", "admits_step", "begin_fetch", "enter_backward", "enter_step", "fetched", "helper_begins",
    "helper_ended", "in_training_thread", "leave_backward", "leave_step", "not_fetched", "started", "timed_early",
)  # fmt: skip


class StepClock(TrainingThread):
    """Accounts the training thread's time. `now` gives ns, `ident` the thread, `grad_enabled` torch's grad mode.

    `observer` gets the records and is told what was learned; nobody sets anything here. `busy` is true inside a fetch
    or a backward: what happens in there is part of it. `has_optimizer`: one of torch's was ever made.
    """

    __slots__ = (
        "by_backward", "early", "failed", "has_optimizer", "inner_steps", "observer", "spent", "turns",
    )  # fmt: skip

    def __init__(
        self,
        state: State,
        now: Callable[[], int],
        ident: Callable[[], int],
        grad_enabled: Callable[[], bool],
        observer: Observer,
    ) -> None:
        self.state, self.now, self.ident, self.grad_enabled = state, now, ident, grad_enabled
        self.observer = observer
        self.has_optimizer = False
        self.restart()

    def __reduce__(self) -> tuple[Any, ...]:
        """By value a clock is a stopped one: a hook that is sent elsewhere, with its class, calls its original there,
        also in a Python without stepscope."""
        from types import SimpleNamespace

        methods = dict.fromkeys(_CALLED_BY_HOOKS, bool)  # bool() is False: no
        return SimpleNamespace, (), {"thread": OFF, "busy": False, **methods}

    def restart(self) -> None:
        """Begin with step 0, knowing nothing: at the start, and in a forked child."""
        state = self.state
        state.phase = state.step = 0
        state.traced = False
        self.forget_threads()
        self.connect()
        self.busy = self.by_backward = self.closures = self.foreign = self.failed = self.voting = False
        self.depth = self.unobserved = self.leader = self.inner_steps = 0
        self.turns = Turns(self._vacant, self.observer.met_optimizer)
        self.spent = (0, 0)  # a step, and its backward calls up to the last step of an optimizer
        self.early: list[bytes] = []  # steps that may turn out to be no training
        self.training: list[LoaderUse] = []
        self.touched: list[LoaderUse] = []
        self.fed: list[LoaderUse] = []  # their batches went into a backward since the last optimizer step
        self.last: LoaderUse | None = None
        self.consumed: LoaderUse | None = None
        self.start = self.mark = -1
        self.forward = self.backward = self.optimizer = self.micro = self.flags = 0
        self.expected = self.inner_forward = 0
        self.gc_mark = state.gc_ns

    def connect(self) -> None:
        """Take what the observer has replaced: it is called from now on, unless the clock has stopped."""
        observer = self.observer
        if self.thread != OFF:
            self.emit, self.boundary, self.edge = observer.emit, observer.boundary, observer.edge

    def stop(self) -> None:
        """Record nothing more: every hook passes straight through."""
        self.thread = self.state.thread = OFF
        self.edge = self.boundary = None

    def optimizer_made(self) -> None:
        """The job has an optimizer of torch's, so backward calls alone are no steps."""
        self.has_optimizer = True

    # -- loader ------------------------------------------------------------------------------------------------------

    def fetched(self, iterator: Any, begin: int, batch: Any) -> None:
        """A fetch that began at `begin` gave `batch`."""
        end = self.now()
        self.busy = False
        try:
            try:
                use = iterator._stepscope_use
            except AttributeError:
                use = self.observer.identify(iterator)
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
        except own_errors() as error:
            self.fail("data wait", error)

    def not_fetched(self, iterator: Any, begin: int, error: BaseException) -> None:
        """A fetch that began at `begin` raised: the end of the epoch, or a failure of the user's code."""
        end = self.now()
        self.busy = False
        try:
            use: LoaderUse = getattr(iterator, "_stepscope_use", None) or self.observer.identify(iterator)
            if use.step != self.state.step:
                self._touch(use)
            if isinstance(error, StopIteration):
                if self.last is not use or not use.ends_evaluation(self.micro):
                    use.flags |= FLAG_EPOCH_END
                    use.open = False
            else:
                use.wait += end - begin
            self.state.phase = PHASE_OTHER
            self.mark = end
        except own_errors() as failure:
            self.fail("data wait", failure)

    def started(self, use: LoaderUse, begin: int) -> None:
        """`__iter__` of a loader, which began at `begin`, returned: workers are up."""
        end = self.now()
        self.busy = False
        try:
            if use.step != self.state.step:
                self._touch(use)
            use.may_evaluate(self.micro)
            use.wait += end - begin
            use.flags |= FLAG_EPOCH_START
            self.state.phase = PHASE_OTHER
            self.mark = end
        except own_errors() as error:
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

    def vote(self) -> None:
        """An optimizer steps: what the last backward before was fed with trains."""
        fed, self.fed, self.voting = self.fed, [], False
        if self.consumed is None:
            return
        found = elected(self.consumed, fed, self.touched, bool(self.training) or self.unobserved > 0)
        if found:
            self.training[:] = [use for use in self.training if use.open] + found  # the job may make loaders for ever
        for use in found:
            self.observer.found_training(use)

    # -- backward ----------------------------------------------------------------------------------------------------

    def enter_backward(self) -> int:
        """An outermost backward begins; returns the time."""
        if self.edge is not None:
            self._cut()
        begin = self.now()
        self.busy = True
        try:
            if self.last is not None:
                self.consume()
            elif self.micro:
                self.inner_forward = self.micro + 1
            if self.start < 0:
                self.start = self.mark = begin
            self.forward += begin - self.mark
            self.state.phase = PHASE_BACKWARD
        except own_errors() as error:
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
            if not self.leader:
                self._end_by_backward(end)
            if self.edge is not None:
                self._cut()
        except own_errors() as error:
            self.fail("backward", error)

    def _end_by_backward(self, end: int) -> None:
        inside, self.inside = self.inside, False
        if not (inside or self.by_backward) and self.has_optimizer:
            self.by_backward = self.micro >= NO_LEADER_BACKWARDS and end - self.start >= NO_LEADER_NS
            if not self.by_backward:
                return
        if self.thread == 0:
            self.settle(self._went_backward)
        self.vote()
        if not (inside or self.by_backward) and len(self.early) + 1 < LOOP_BACKWARDS:
            self._end_early(end, FLAG_BY_BACKWARD)
            return
        self._emit_early()
        self.by_backward = not inside
        self.close(end, FLAG_BY_BACKWARD)

    def _end_early(self, end: int, flags: int) -> None:
        """The step in flight ends at `end`, should those that follow show that it is one of a training."""
        self.early.append(record(self, self.state.step + len(self.early), end, self, waits(self.touched, flags)))
        self.start_over()
        self.start = self.mark = end

    def _drop_early(self) -> None:
        """They were none of a training: between two steps their time is that of the step in flight."""
        if self.early and self.state.step:
            self.start = STEP.struct.unpack(self.early[0])[1]
        self.early.clear()

    def _emit_early(self) -> None:
        for earlier in self.early:
            self.emit(earlier)
        self.state.step += len(self.early)
        self.early = []

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
            if optimizer is not None:
                if self.voting:
                    self.vote()
                if id(optimizer) == self.leader:
                    self.close(end, 0)
                else:
                    self._another_stepped(optimizer, end)
        except own_errors() as error:
            self.fail("optimizer", error)

    def _another_stepped(self, optimizer: Any, end: int) -> None:
        step, turns = self.state.step, self.turns
        before = self.spent[1] if self.spent[0] == step else 0
        self.inner_steps = self.inner_steps + 1 if self.spent[0] == step else 1
        self.spent = (step, self.micro)
        if self.micro:
            self._drop_early()
        elif not self.leader and self.last is not None:
            self.consume()
            self.vote()
        if self.leader == MARKED:
            return
        if self.by_backward:
            self.by_backward = False
            self.leader = id(optimizer)
            turns.lead(optimizer, step)  # the backward before has ended this step
            return
        fresh = any(use.train and use.fetches for use in self.touched)
        seen, is_to = turns.stepped(optimizer, step, self.micro > before, fresh)
        if turns.leader is seen:
            self.leader = id(optimizer)
        if is_to == MAY_END:
            seen.piece, seen.piece_of = Piece(self, end), step
        elif is_to == JOINS:
            if not self.leader and not self.micro and turns.number == 1:
                self._end_early(end, 0)  # one without a backward: the next ones show whether it trains
        else:
            self._emit_early()
            if is_to == SPLITS and seen.piece is not None:
                self._split(seen.piece)
            if turns.is_outer:
                self.observer.found_outer_loop(turns.outer_before, step)
            self.close(end, 0)

    def _vacant(self) -> None:
        if self.leader != MARKED:
            self.leader = 0

    # -- the end of a step -------------------------------------------------------------------------------------------

    def close(self, end: int, flags: int) -> None:
        """Write the record of the step that ends now, at `end`, and begin the next."""
        state = self.state
        step = state.step
        self.emit(record(self, step, end, self, waits(self.touched, flags | self.flags)))
        self.expected, self.inner_forward = self.inner_forward, 0
        self.forward = self.backward = self.optimizer = self.micro = self.flags = 0
        self.gc_mark = state.gc_ns
        self.touched.clear()
        state.step = step + 1
        state.phase = PHASE_OTHER if self.training else PHASE_FORWARD
        if self.boundary is None:
            self.start = self.mark = end
        else:
            self.flags = self.boundary(step)
            self.gc_mark = state.gc_ns
            self.start = self.mark = self.now()

    def _split(self, piece: Piece) -> None:
        """The step in flight ended with `piece`, as is known now; what came after it is the next."""
        self.emit(record(self, self.state.step, piece.end, piece, piece.waited))
        piece.take_from(self)
        self.state.step += 1

    # -- the unusual -------------------------------------------------------------------------------------------------

    def fail(self, what: str, error: BaseException) -> None:
        """Our own code raised: stop recording for good, say so once, leave the job alone."""
        self.stop()
        self.touched.clear()
        if not self.failed:
            self.failed = True
            self.observer.clock_failed("steps" if isinstance(error, OSError) else f"steps ({what})", error)

    def _cut(self) -> None:
        try:
            self.flags |= self.edge() or 0  # type: ignore[misc]
        except own_errors() as error:
            self.fail("trace", error)
