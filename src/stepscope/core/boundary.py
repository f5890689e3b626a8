"""The boundary around views: an unexpected exception of one is told in its place, and everything else stays.

A damaged trace may hold what nobody thought of. Then one analysis, rule or section fails, and the report says which and
why; the command ends with FAILED. Tests and the fuzzer set RAISE, so that such an exception fails them.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from traceback import extract_tb
from typing import TypeVar

import polars as pl

from stepscope.core.errors import StepscopeError, ViewFailed

__all__ = ["RAISE", "Failure", "attempt", "or_failed"]

T = TypeVar("T")
RAISE = "STEPSCOPE_RAISE"
"""The variable of the environment that takes the boundary away."""

_LONGEST = 200  # characters of a message: polars adds pages
_PLEASE = f"please report it, with the trace if you may; {RAISE}=1 shows the traceback"


@dataclass(frozen=True, slots=True)
class Failure:
    """A view that failed: its name, what happened, and what to do."""

    view: str
    what: str
    how: str = _PLEASE


def attempt(view: str, compute: Callable[[], T]) -> T | Failure:
    """What `compute` gives, or what went wrong unexpectedly. Errors that a user can cause pass."""
    if os.environ.get(RAISE):
        return compute()
    try:
        return compute()
    except StepscopeError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001, the boundary: no view may end the others
        return Failure(view, f"this view failed: {_told(error)}")


def or_failed(view: str, compute: Callable[[], T]) -> T:
    """As `attempt`, where there is nothing else to show: raises ViewFailed."""
    found = attempt(view, compute)
    if isinstance(found, Failure):
        raise ViewFailed(found.view, found.what, next_step=found.how)
    return found


def _told(error: BaseException) -> str:
    """Kind and first line of an error, and the line of code it is from."""
    text = (str(error).splitlines() or [""])[0][:_LONGEST]
    frames = extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' * bool(text)}{text}{where}"
