"""Another code for a function, for a while: all who hold the function, a running generator too, then call that code.

The function stays the object it is. Its other code hands the call to a callable of ours, which is one of its constants.
"""

from __future__ import annotations

import functools
import inspect
import types

from ..unseen import unseen_file

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["copy_of", "handed_to", "makes_no_call"]

_PLACE = "stepscope: the callable"


def copy_of(function: types.FunctionType) -> types.FunctionType:
    """A function that does what this one does now."""
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def handed_to(callable_: Callable[..., Any], function: types.FunctionType) -> types.CodeType:
    """Code for `function` that calls `callable_` with all arguments. It has as many free variables, as it must."""
    code = _template(len(function.__code__.co_freevars))
    return code.replace(co_consts=tuple(callable_ if one == _PLACE else one for one in code.co_consts))


def makes_no_call(function: Any) -> bool:
    """Is it a function whose call only makes a generator or a coroutine?"""
    kinds = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return isinstance(function, types.FunctionType) and bool(function.__code__.co_flags & kinds)


@functools.cache
def _template(free: int) -> types.CodeType:
    names = [f"free{number}" for number in range(free)]
    source = (
        f"def outer({', '.join(names)}):\n"
        f"    def call(*args, **kwargs):\n"
        f"        if 0: {', '.join(names) or 'None'}\n"
        f"        hook = {_PLACE!r}\n"
        f"        return hook(*args, **kwargs)\n"
    )
    module = compile(source, unseen_file(__file__), "exec")
    outer = next(one for one in module.co_consts if isinstance(one, types.CodeType))
    return next(one for one in outer.co_consts if isinstance(one, types.CodeType))
