"""Every error a user can cause. Each says what, where, why and what to do next; none shows a traceback."""

from functools import partial

__all__ = ["DEVICE_WORK", "BadInput", "MissingData", "SameRank", "StepscopeError", "ViewFailed"]


DEVICE_WORK = "work on an accelerator"
"""What a run without one lacks; it is said once for all rules that are about devices."""


class StepscopeError(Exception):
    """Base class; the command line prints it as it is and exits with code 2."""


class BadInput(StepscopeError):
    """A file, an option or an argument that cannot be used.

    `path` names it, `where` the place inside (byte, event, line), `why` the likely cause, `next_step` the next command.
    """

    def __init__(self, path: object, why: str, *, where: str = "", next_step: str = "") -> None:
        place = f"{path}, {where}" if where else f"{path}"
        super().__init__(f"{place}: {why}" + (f"\n{next_step}" if next_step else ""))
        self.path, self.where, self.why, self.next_step = str(path), where, why, next_step

    def __reduce__(self) -> tuple[object, ...]:
        """Errors come from other processes too."""
        return partial(type(self), where=self.where, next_step=self.next_step), (self.path, self.why)


class SameRank(BadInput):
    """Two sources say that they are of one rank. They may be of two runs."""


class ViewFailed(BadInput):
    """What was asked for failed unexpectedly, and there is nothing else to show: a fault of stepscope's own."""


class MissingData(StepscopeError):
    """The run lacks data that an analysis needs. `how` says how to record it."""

    def __init__(self, what: str, *, how: str) -> None:
        super().__init__(f"no {what} in this run: {how}")
        self.what, self.how = what, how

    def __reduce__(self) -> tuple[object, ...]:
        """Errors come from other processes too."""
        return partial(MissingData, how=self.how), (self.what,)
