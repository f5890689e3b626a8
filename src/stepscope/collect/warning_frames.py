"""What warnings and tracebacks of the job do not show: functions of ours that stand between its own.

`warnings.warn(..., stacklevel=2)` names who called the function that warns. A hook of ours between the two would be
named in the caller's place, and as one place for all callers: what is shown once for each place would be shown once.
Every Python that we run on passes over the frames of an import, which it knows by "importlib" and "_bootstrap" in the
name of their file. There is no other way: `skip_file_prefixes` (Python 3.12) is for who warns. So these functions carry
both words before the name of their file. They begin as such frames do, because coverage and torch.compile pass over
them by that: a name that looks like a file would be looked for by `coverage report`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import TypeVar

    Function = TypeVar("Function")

__all__ = ["PREFIXES", "followed", "hidden_from_warnings", "without_our_frames"]

_PREFIX = "<frozen importlib._bootstrap, and stepscope: "
_FOLLOWED = "<stepscope, and importlib._bootstrap: "  # torch.compile passes over what begins with "<frozen importlib"

PREFIXES = (_PREFIX, _FOLLOWED)
"""What the names of these functions' files begin with; that of the file comes after it."""

_OURS = (os.path.dirname(os.path.abspath(__file__)) + os.sep, *PREFIXES)


def hidden_from_warnings(function: Function) -> Function:
    """The same function, passed over by warnings, with all functions that it makes when it is called."""
    function.__code__ = _with_hidden_file(function.__code__, _PREFIX)  # type: ignore[attr-defined]
    return function


def followed(function: Function) -> Function:
    """As `hidden_from_warnings`, of a function that torch.compile looks into."""
    function.__code__ = _with_hidden_file(function.__code__, _FOLLOWED)  # type: ignore[attr-defined]
    return function


def _with_hidden_file(code: CodeType, prefix: str) -> CodeType:
    inner = tuple(_with_hidden_file(one, prefix) if isinstance(one, type(code)) else one for one in code.co_consts)
    return code.replace(co_filename=f"{prefix}{os.path.basename(code.co_filename)}>", co_consts=inner)


def without_our_frames(error: BaseException) -> None:
    """Take this package's frames out of a traceback that the job may print, and out of those of its causes.

    A bare `raise` behind it does not add the frame that it is in again. (hooks.py takes out its own without a call: a
    hook that is sent by value must need nothing of ours.)
    """
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _others(one.__traceback__)
            waiting += [cause for cause in (one.__cause__, one.__context__) if cause is not None]


def _others(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    first = trace
    while trace is not None:
        below = trace.tb_next
        while below is not None and below.tb_frame.f_code.co_filename.startswith(_OURS):
            below = below.tb_next
        trace.tb_next = below
        trace = below
    return first
