"""Functions of ours that a warning passes over: it names the file and line that it names without us.

`warnings.warn(..., stacklevel=2)` names who called the function that warns. A hook of ours between the two would be
named in the caller's place, and as one place for all callers: what is shown once for each place would be shown once.
Every Python that we run on passes over the frames of an import, which it knows by "importlib" and "_bootstrap" in the
name of their file. There is no other way: `skip_file_prefixes` (Python 3.12) is for who warns. So these functions carry
both words behind the name of their file, which still begins with its folder: who asks whose a file is goes by that.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from types import CodeType
    from typing import TypeVar

    Function = TypeVar("Function")

__all__ = ["unseen", "unseen_file"]

_MARK = " (passed over by warnings, like importlib._bootstrap)"


def unseen(function: Function) -> Function:
    """The same function, passed over by warnings, with all functions that it makes when it is called."""
    function.__code__ = _unseen_code(function.__code__)  # type: ignore[attr-defined]
    return function


def unseen_file(name: str) -> str:
    """A file name for code that warnings are to pass over."""
    return name + _MARK


def _unseen_code(code: CodeType) -> CodeType:
    inner = tuple(_unseen_code(one) if isinstance(one, type(code)) else one for one in code.co_consts)
    return code.replace(co_filename=unseen_file(code.co_filename), co_consts=inner)
