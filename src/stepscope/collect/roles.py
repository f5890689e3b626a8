"""Which loader trains: the one fetched last before a backward, and its partner in a zipped pair. Others evaluate."""

from __future__ import annotations

from .fields import UseFields

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LoaderUse", "elected", "waits"]

FLAG_EVALUATION = 4


class LoaderUse(UseFields):
    """One DataLoader as the clock sees it: its role, and what it did in the step in flight (`step`). Times in ns."""

    __slots__ = ("id", "thread")

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


def elected(use: LoaderUse, touched: list[LoaderUse], established: bool) -> list[LoaderUse]:
    """The loaders that a backward right after a fetch of `use` shows to train; `use` itself comes last.

    A loader that has ended, or was fetched with gradients off, looks like a validation that came before. It is believed
    only while it is not `established` where the training data come from, and not at all if both are true.
    """
    doubtful = not (use.open and use.grad)
    if doubtful and (established or not (use.open or use.grad)):
        return []
    if not use.grad:
        use.any_grad = True
        use.wait, use.away = use.wait + use.away, 0
    found = []
    for other in touched:
        if other is not use and not other.train and other.open and other.grad and other.fetches == use.fetches:
            other.counted = False
            found.append(other)
    found.append(use)
    for each in found:
        each.train = True
    return found


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
