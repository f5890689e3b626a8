"""What a data set holds that may be called for a sample, found without calling or changing anything of it.

Looked at are the data set's own attributes, and in lists, tuples and dicts among them; of a callable object that is
found there also its lists, tuples and dicts, and what it has under the names that transforms have. Only containers of
these very types are looked into, only short ones, and only so many in all: a data set may hold an index of millions.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["MOST", "Walk", "is_module", "makes_no_call", "python_method"]

MOST = 64
"""Entries of a container, and calls in all: what holds more than this holds no transforms."""

_LOOKED = 512  # things that are looked at in all
_DEEP = 4  # containers in containers
_NAMES = ("transforms", "transform", "target_transform")


class Walk:
    """One walk over some data sets. `modules`: are torch's modules among what may be timed?"""

    __slots__ = ("_left", "_modules", "_seen")

    def __init__(self, modules: bool) -> None:
        self._modules = modules
        self._seen: set[int] = set()
        self._left = _LOOKED

    def of(self, dataset: Any) -> Iterator[Any]:
        """The functions of Python, and the classes with a `__call__` of Python, of all that it holds. Raises whatever
        the data set's attributes raise."""
        for value in list(getattr(dataset, "__dict__", {}).values()):
            yield from self._visit(value, 0)

    def _visit(self, value: Any, depth: int) -> Iterator[Any]:
        self._left -= 1
        if depth > _DEEP or self._left < 0 or id(value) in self._seen or isinstance(value, type):
            return
        if type(value) in (list, tuple, dict):
            if len(value) <= MOST:
                self._seen.add(id(value))
                for one in list(value.values() if type(value) is dict else value):
                    yield from self._visit(one, depth + 1)
        elif isinstance(value, functools.partial):
            yield from self._visit(value.func, depth + 1)
        elif isinstance(value, types.MethodType):
            yield from self._visit(value.__func__, depth + 1)
        elif callable(value):
            self._seen.add(id(value))
            yield from self._callable(value, depth)

    def _callable(self, value: Any, depth: int) -> Iterator[Any]:
        if isinstance(value, types.FunctionType):
            yield value
            return
        kind = type(value)
        module = is_module(kind)
        if id(kind) not in self._seen and (self._modules or not module) and python_method(kind, "__call__"):
            self._seen.add(id(kind))
            yield kind
        for name, one in list(getattr(value, "__dict__", {}).items()):
            if name in _NAMES or (type(one) in (list, tuple, dict) and not module):
                yield from self._visit(one, depth + 1)


def python_method(kind: type, name: str) -> Any:
    """The method as it is defined in Python, None for any other: a method of C has no code."""
    for owner in kind.__mro__:
        if name in vars(owner):
            found = vars(owner)[name]
            return found if isinstance(found, types.FunctionType) else None
    return None


def is_module(kind: type) -> bool:
    """Is it a class of torch's modules?"""
    module = getattr(sys.modules.get("torch.nn"), "Module", None)
    return module is not None and issubclass(kind, module)


def makes_no_call(function: Any) -> bool:
    """Is it a function whose call only makes a generator or a coroutine?"""
    kinds = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return isinstance(function, types.FunctionType) and bool(function.__code__.co_flags & kinds)
