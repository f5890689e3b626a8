"""Who is told what the step clock does and learns: one object, handed to the clock when it is made."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .training_loader import LoaderUse

__all__ = ["Observer"]


class Observer:
    """Methods are called in the training thread, and these do nothing: a clock without anybody to tell.

    `emit(record)` takes each finished record. `boundary(step)`, or None, is called after it and returns the next step's
    flags; its own time belongs to no step. `edge()`, or None, is called inside a step that is traced and may have to be
    cut short, and returns flags of it. The clock keeps these three at hand, as each step needs them: whoever replaces
    one tells the clock by `connect`.
    """

    def __init__(self, emit: Callable[[bytes], Any]) -> None:
        self.emit = emit
        self.boundary: Callable[[int], int] | None = None
        self.edge: Callable[[], int | None] | None = None

    def identify(self, iterator: Any) -> LoaderUse:
        """The loader of an iterator that was made without our hooks. Raises LookupError if it is unknown."""
        raise LookupError("nobody knows the loader of this iterator")

    def met_optimizer(self, optimizer: Any) -> None:
        """An optimizer steps for the first time."""

    def found_training(self, use: LoaderUse) -> None:
        """This loader trains."""

    def found_outer_loop(self, before: tuple[int, int], step: int) -> None:
        """The optimizer around others, which ends `step`, is known now: the records up to it are parts of steps.

        `before`: first and last record of its step before.
        """

    def clock_failed(self, what: str, error: BaseException) -> None:
        """The clock has stopped for good."""
