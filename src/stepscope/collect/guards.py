"""What the recorder catches around its own code: its own errors, not those that the job's signal handlers raise there.

Python runs a signal handler between any two instructions of the main thread, those of the recorder too. What it raises
(torch's "DataLoader worker is killed", a time limit set with `signal.alarm`) must reach the job as it would without us.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal makes an enum of each: microseconds
import sys
from types import CodeType

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["from_signal_handler", "own_errors"]


def own_errors() -> tuple[type[Exception], ...]:
    """What to catch in `except own_errors():`, which Python evaluates only when something was raised."""
    error = sys.exc_info()[1]
    try:
        passes = error is not None and from_signal_handler(error)
    except Exception:  # a handler of the job's that cannot be looked at
        passes = False
    return () if passes else (Exception,)


def from_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler of the job raised `error`. (One that has put another in its place is not known.)"""
    codes = set()
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
        codes.add(trace.tb_frame.f_code)
    return bool(codes) and any(_code(handler) in codes for handler in map(_signal.getsignal, range(1, _signal.NSIG)))


def _code(handler: Any) -> CodeType | None:
    handler = getattr(handler, "func", handler)  # of a functools.partial
    code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None
