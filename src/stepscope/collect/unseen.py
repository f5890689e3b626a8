"""Functions of ours that a warning passes over: it names the file and line that it names without us.

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
    from types import CodeType
    from typing import TypeVar

    Function = TypeVar("Function")

__all__ = ["PREFIX", "unseen"]

PREFIX = "<frozen importlib._bootstrap, and stepscope: "
"""What the names of these functions' files begin with; that of the file comes after it."""


def unseen(function: Function) -> Function:
    """The same function, passed over by warnings, with all functions that it makes when it is called."""
    function.__code__ = _unseen_code(function.__code__)  # type: ignore[attr-defined]
    return function


def _unseen_code(code: CodeType) -> CodeType:
    inner = tuple(_unseen_code(one) if isinstance(one, type(code)) else one for one in code.co_consts)
    return code.replace(co_filename=f"{PREFIX}{os.path.basename(code.co_filename)}>", co_consts=inner)
