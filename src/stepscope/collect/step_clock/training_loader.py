"""Which loader trains: the one fetched last before the last backward before an optimizer step. Others evaluate.

Its partner in a zipped pair trains too, and so does one that keeps pace with it, with a backward of its own.
"""

from __future__ import annotations

from ...run_format.records import FLAG_EVALUATION
from ..fields import UseFields

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LoaderUse", "elected", "waits"]


class LoaderUse(UseFields):
    """One DataLoader as the clock sees it: its role, and what it did in the step in flight (`step`). Times in ns."""

    __slots__ = ("_before", "id", "thread")

    def __init__(self, identifier: int, count: Callable[[Any], int]) -> None:
        self.id = identifier
        self.count = count  # batch -> samples, hugely negative when unknown
        self.train = False
        self.counted = True  # false for the partner of a zipped pair: its samples belong to the same batch
        self.any_grad = False  # a script that switches gradients on around the forward only: fetches are no evaluation
        self.open = False  # the iterator gave a batch and has not ended since
        self.grad = True  # gradients were on at the last fetch
        self.thread = 0
        self.step = -1
        self.wait = self.away = self.samples = self.fetches = self.flags = 0
        self._before: tuple[int, ...] | None = None

    def may_evaluate(self, micro: int) -> None:
        """It is iterated anew, after `micro` backward calls of the step: a second time while it trains?"""
        self._before = None
        if self.train and self.open:
            self._before = (self.step, micro, self.wait, self.samples, self.fetches, self.flags)

    def ends_evaluation(self, micro: int) -> bool:
        """Its iterator ends: one that none of `micro` backward calls had a batch of, beside the one that trains?"""
        before, self._before = self._before, None
        if before is None or before[:2] != (self.step, micro):
            return False
        _, _, wait, self.samples, self.fetches, self.flags = before
        self.away += self.wait - wait
        self.wait = wait
        return True


def elected(use: LoaderUse, fed: list[LoaderUse], touched: list[LoaderUse], established: bool) -> list[LoaderUse]:
    """The loaders that an optimizer step shows to train; `use` gave the batch of the last backward, and comes last.

    A loader that has ended, or was fetched with gradients off, looks like a validation that came before. It is believed
    only while it is not `established` where the training data come from, and not at all if both are true. Loaders that
    `fed` a backward before, in the same step, train too if they gave as many batches: a saliency map of a validation
    comes before many a backward, but from a loader that ends or gives others.
    """
    found: list[LoaderUse] = []
    if not use.train:
        doubtful = not (use.open and use.grad)
        if doubtful and (established or not (use.open or use.grad)):
            return []
        if not use.grad:
            use.any_grad = True
            use.wait, use.away = use.wait + use.away, 0
        found = [other for other in touched if _keeps_pace(other, use) and other not in fed]
        for other in found:
            other.counted = False
    found += [other for other in fed if _keeps_pace(other, use) and other not in found]
    if not use.train:
        found.append(use)
    for each in found:
        each.train = True
    return found


def _keeps_pace(other: LoaderUse, use: LoaderUse) -> bool:
    return other is not use and not other.train and other.open and other.grad and other.fetches == use.fetches


def waits(touched: list[LoaderUse], flags: int) -> tuple[int, int, int, int, bool]:
    """A step's data wait, evaluation wait, samples (negative: unknown), flags; was a training loader used?"""
    wait = away = samples = 0
    trained = False
    for use in touched:
        if use.train:
            trained = True
            wait += use.wait
            away += use.away
            if use.counted:
                samples += use.samples
            flags |= use.flags
            if use.away:
                flags |= FLAG_EVALUATION
        else:
            away += use.wait + use.away
            flags |= FLAG_EVALUATION
    return wait, away, samples, flags, trained
