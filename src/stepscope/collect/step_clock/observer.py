"""Who is told what the step clock learns: one object, handed to the clock when it is made."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

    from .training_loader import LoaderUse

__all__ = ["Observer"]


class Observer:
    """Methods are called in the training thread, and these do nothing: a clock without anybody to tell."""

    def identify(self, iterator: Any) -> LoaderUse:
        """The loader of an iterator that was made without our hooks. Raises LookupError if it is unknown."""
        raise LookupError("nobody knows the loader of this iterator")

    def met_optimizer(self, optimizer: Any) -> None:
        """An optimizer steps for the first time."""

    def found_training(self, use: LoaderUse) -> None:
        """This loader trains."""

    def found_inner_loop(self, step: int) -> None:
        """The steps before `step` were ended by optimizers inside the loop of the one that ends steps from now on."""

    def clock_failed(self, what: str, error: BaseException) -> None:
        """The clock has stopped for good."""
