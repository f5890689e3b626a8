"""Which thread trains: the one in which optimizers step. A backward that it waits for in another thread is its own."""

from __future__ import annotations

from ..fields import ClockFields
from ..guards import own_errors
from .state import PHASE_BACKWARD

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .state import State

__all__ = ["OFF", "TrainingThread"]

OFF = -1  # the value of `thread` that no thread has: every hook passes straight through

TAKEOVER_STEPS = 3
"""Optimizer steps of another thread, while the training thread does nothing, after which that one trains."""


class TrainingThread(ClockFields):
    """What the step clock knows about threads. `elsewhere` counts optimizer steps in other threads."""

    if TYPE_CHECKING:
        backward: int
        busy: bool
        consumed: Any
        depth: int
        fail: Callable[[str, BaseException], None]
        fed: list[Any]
        flags: int
        foreign: bool
        forward: int
        gc_mark: int
        ident: Callable[[], int]
        last: Any
        mark: int
        micro: int
        now: Callable[[], int]
        optimizer: int
        start: int
        state: State
        thread: int
        touched: list[Any]
        training: list[Any]
        unobserved: int
        voting: bool

    __slots__ = (
        "_fetching",
        "_helper",
        "_is_helped",
        "_rival",
        "_rival_steps",
        "_went_backward",
        "elsewhere",
        "fed",
        "inside",
    )

    def forget_threads(self) -> None:
        """Know no thread."""
        self.thread = self.state.thread = 0
        self._fetching = self._went_backward = self._helper = self._rival_steps = self.elsewhere = 0
        self._is_helped = self.inside = False
        self._rival = (0, 0)

    def admits_step(self) -> bool:
        """An optimizer steps where it is no ordinary event: is it to be timed?"""
        try:
            return self._admits_step()
        except own_errors() as error:
            self.fail("optimizer", error)
            return False

    def _admits_step(self) -> bool:
        caller = self.ident()
        if self.thread == OFF or (self.busy and self.state.phase == PHASE_BACKWARD):
            self.inside = True  # an optimizer that steps while gradients come in: its backward ends the step
            return False
        if self.thread == 0:
            if self.busy and self._fetching == caller:
                return False  # inside a fetch: a dataset that trains
            self.settle(caller)
        elif self.thread != caller and not self._moves_to(caller):
            return False
        return not self.busy

    def admits_backward(self) -> bool:
        """A backward begins where it is no ordinary event: is it to be timed as one of the training thread's?"""
        if self.thread:
            return not self.busy and self.thread == self.ident()
        caller = self.ident()
        if self.busy and (self._fetching == caller or self.state.phase == PHASE_BACKWARD):
            return False  # inside a fetch: a dataset that computes gradients; or a backward inside another
        self._went_backward = caller
        return True

    def helper_begins(self) -> tuple[int, int, int] | None:
        """A backward begins in another thread; gives what `helper_ended` needs, None if it is no business of ours."""
        if not self._is_helped or self.busy or self.depth or self._helper or self.thread in (OFF, self.ident()):
            return None
        self._helper = self.ident()
        return self.now(), self.mark, self.state.step

    def helper_ended(self, begun: tuple[int, int, int]) -> None:
        """That backward returned or raised. The training thread waited for it if it did nothing meanwhile."""
        try:
            self._take_helped(begun)
        except own_errors() as error:
            self.fail("backward", error)

    def _take_helped(self, begun: tuple[int, int, int]) -> None:
        self._helper = 0
        begin, mark, step = begun
        if self.busy or self.depth or (mark, step) != (self.mark, self.state.step) or mark < 0:
            return
        end = self.now()
        self.forward += begin - mark
        self.backward += end - begin
        self.mark = end
        self.micro += 1
        if self.last is not None:
            self.consume()

    def consume(self) -> None:
        """The last batch goes into a backward: the next optimizer step shows that its loader trains."""
        use, self.last = self.last, None
        self.consumed = use
        if not use.train:
            self.fed.append(use)
            self.voting = True

    def settle(self, caller: int) -> None:
        """`caller` is the training thread from here on. What other threads have fetched is none of its data."""
        self.thread = self.state.thread = caller
        self.busy = False  # a fetch under way is another thread's
        self._is_helped = self._went_backward not in (0, caller)
        if any(use.thread != caller for use in self.touched):
            self.foreign = True
            for use in self.touched:
                use.step = use.step if use.thread == caller else -1
            self.touched[:] = [use for use in self.touched if use.thread == caller]
            self.last, self.consumed = self._own(self.last), self._own(self.consumed)

    def timed_early(self) -> bool:
        """Is a fetch outside the training thread to be timed? Yes while nobody knows which thread that is."""
        if self.thread == 0 and not self.busy:
            self._fetching = self.ident()
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

    def start_over(self) -> None:
        """Leave out what was accounted of the step in flight: the next event begins it."""
        self.start = self.mark = -1
        self.forward = self.backward = self.optimizer = self.micro = 0
        self.last = self.consumed = None
        for use in self.touched:
            use.step = -1
        self.touched.clear()
        self.gc_mark = self.state.gc_ns

    def _own(self, use: Any) -> Any:
        return use if use is not None and use.thread == self.thread else None

    def _moves_to(self, caller: int) -> bool:
        """Training goes on in another thread, if several optimizer steps in it find the training thread idle."""
        self.elsewhere += 1
        rival = (caller, self.mark)
        self._rival_steps = self._rival_steps + 1 if rival == self._rival else 1
        self._rival = rival
        if self._rival_steps < TAKEOVER_STEPS or self.busy or self.depth:
            return False
        self.start_over()
        self.thread = self.state.thread = caller
        self.elsewhere -= 1
        return True
