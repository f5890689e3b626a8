"""Which optimizer ends the steps, told from the order in which they step.

Optimizers that step on the same batch share a step, which the leader ends. Another one takes over at once where it
steps on a newer batch than the leader's last, or a second time, each with a backward of its own, since the leader's
last step. An optimizer that steps once, again and again, with only optimizers made anew between is an outer loop: it
leads, and those inside it do not take over.

A leader's own steps, the ordinary ones, do not come here.
"""

from __future__ import annotations

import weakref

from ..guards import own_errors

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .pieces import Piece

__all__ = ["ENDS", "JOINS", "MARKED", "MAY_END", "SPLITS", "Seen", "Turns"]

JOINS = 0
"""What the step of an optimizer is to the step in flight: a part of it ..."""
MAY_END = 1  # ... a part of it, or its end, should the same optimizer step again before the leader does
ENDS = 2
SPLITS = 3  # its end, and this optimizer's step before, which was taken for a part, was the end of another

BARE_STEPS = 3  # steps of an optimizer without any backward: gradients come from torch.autograd.grad
MARKED = -1  # the leader that no optimizer is: the job itself marks the ends of its steps
_NEVER = -1


class Seen:
    """One optimizer that stepped. `number`: in the order in which they first did; `born`: the step in flight then.

    Of its last step: `last`, the step of the training, and `next`, the first one after it; `known`, how many optimizers
    had been met by then; `once`, whether it was the only one in its turn. `piece` is what `piece_of`, a step in flight,
    was when this optimizer first stepped in it.
    """

    __slots__ = ("born", "companion", "known", "last", "next", "number", "once", "piece", "piece_of", "reference")

    def __init__(self, reference: Any, number: int, born: int) -> None:
        self.reference, self.number, self.born = reference, number, born
        self.last = self.next = self.piece_of = _NEVER
        self.known = number
        self.once = self.companion = False
        self.piece: Piece | None = None


class Turns:
    """The optimizers of a process. `vacant()` is called when the leader is gone, `met(optimizer)` for each new one."""

    __slots__ = (
        "_bare", "_displaced", "_displaced_in", "_last_leader", "_last_other", "_outer", "_since", "_without_backward",
        "bare_steps", "by_identity", "leader", "met", "number", "outer_before", "vacant",
    )  # fmt: skip

    def __init__(self, vacant: Callable[[], Any], met: Callable[[Any], Any]) -> None:
        self.vacant, self.met = vacant, met
        self.leader: Seen | None = None
        self.by_identity: dict[int, Seen] = {}
        self.number = self.bare_steps = 0
        self._since = 0  # the first step that the leader has ended
        self._outer = self._without_backward = False
        self.outer_before = (0, _NEVER)  # first and last record of the step before, when an outer loop became known
        self._displaced: Seen | None = None
        self._displaced_in = self._last_other = self._last_leader = _NEVER

    def stepped(self, optimizer: Any, step: int, backward: bool, fresh: bool) -> tuple[Seen, int]:
        """An optimizer that does not lead stepped while `step` was in flight: what this is to the step.

        `backward`: after a backward of its own; `fresh`: on a newer training batch than the leader's last.
        """
        seen = self.by_identity.get(id(optimizer)) or self._meet(optimizer, step)
        if not backward:
            self.bare_steps += 1
        is_to = self._judged(seen, step, backward, fresh)
        self._last_other = step
        if seen is not self.leader:
            seen.once, seen.last, seen.known = seen.last != step, step, self.number
            seen.next = step
        return seen, is_to

    def lead(self, optimizer: Any, step: int) -> None:
        """`optimizer` leads from here on, whoever did before."""
        self._lead(self.by_identity.get(id(optimizer)) or self._meet(optimizer, step), step)

    def dismiss(self) -> None:
        """Nobody leads any more."""
        self.leader = None

    @property
    def is_outer(self) -> bool:
        """Does the leader step around optimizers that are made anew?"""
        return self._outer

    def _judged(self, seen: Seen, step: int, backward: bool, fresh: bool) -> int:
        leader, again = self.leader, seen.piece_of == step
        if self._is_around(seen, step):
            own = seen.next - seen.last  # 1: it ended its step itself
            self.outer_before = max(0, 2 * seen.next - step - own), seen.next - 1
            self._lead(seen, step)
            self._outer = True
            return ENDS
        if leader is None:
            if not (again or backward or self.bare_steps >= BARE_STEPS):
                return JOINS
            self._lead(seen, step)
            self._without_backward = not backward
            return SPLITS if again else ENDS
        if not (backward or self._without_backward) or self._is_inside(seen, leader, step):
            return JOINS
        if seen is self._displaced and self._displaced_in == step and not fresh:
            leader.companion = True  # it steps first on a batch that both step on
            self._lead(seen, step)
            return JOINS
        if again:
            self._lead(seen, step)
            return SPLITS
        if not fresh or seen.companion:
            return MAY_END
        self._lead(seen, step)
        self._displaced, self._displaced_in = leader, step + 1
        return ENDS

    def _is_around(self, seen: Seen, step: int) -> bool:
        """Has everyone that stepped since the last step of `seen`, its only one in that turn, been new?"""
        if not seen.once or step - seen.last < 2 or self._last_leader < seen.known:
            return False
        others = [other for other in self.by_identity.values() if other is not seen and other.number < seen.known]
        return all(other.last <= seen.last for other in others)

    def _is_inside(self, seen: Seen, leader: Seen, step: int) -> bool:
        if self._outer and step - self._last_other > 1:
            self._outer = False  # it steps several times on end
        return self._outer and seen.number >= leader.known

    def _lead(self, seen: Seen, step: int) -> None:
        before = self.leader
        if before is not None and before is not seen and step > self._since:
            before.last, before.next, before.once = step - 1, step, step - self._since == 1
            before.known = seen.number if seen.born > before.last else self.number
        self.leader, self._since, self._last_leader = seen, step, seen.number
        self._outer = seen.companion = False
        self._displaced = None

    def _meet(self, optimizer: Any, step: int) -> Seen:
        identity = id(optimizer)

        def gone(reference: Any) -> None:
            seen = self.by_identity.get(identity)
            if seen is None or seen.reference is not reference:
                return
            del self.by_identity[identity]
            if seen is self.leader:
                self.leader = None
                try:
                    self.vacant()
                except own_errors():
                    return  # the job's output would show it

        seen = Seen(weakref.ref(optimizer, gone), self.number, step)
        self.by_identity[identity] = seen
        self.number += 1
        self.met(optimizer)
        return seen
