"""Whether a data set that is iterated shares its samples out among the workers of a loader.

Each worker has a copy of an IterableDataset. One that does not ask which worker it is in gives every sample once per
worker. Whether it asks is read off its code, which is not run: the methods of its class and of the objects it holds,
and the functions these name.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType, ModuleType

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["is_iterated", "shards_by_worker"]

_QUESTION = "get_worker_info"
_MOST_FUNCTIONS = 2000  # a bound for data sets that lead into large libraries: about 20 ms
_MOST_OBJECTS = 100  # data sets inside data sets; a list of files is no data set


def is_iterated(dataset: Any) -> bool:
    """Whether it is an IterableDataset of torch."""
    kind = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)
    return kind is not None and isinstance(dataset, kind)


def shards_by_worker(dataset: Any, init: Any = None) -> bool:
    """Whether code of `dataset`, or of `init`, the function that starts a worker, asks which worker it is in."""
    waiting = [*_functions(init), *(function for kind in _kinds(dataset) for function in _functions(kind))]
    seen: set[CodeType] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        function = waiting.pop()
        if function.__code__ in seen or _is_of_torch(function):
            continue
        seen.add(function.__code__)
        names = set(_names(function.__code__))
        if _QUESTION in names:
            return True
        waiting.extend(_named(function.__globals__, names))
    return False


def _kinds(dataset: Any) -> Iterator[type]:
    """The class of the data set, and those of the objects it is made of."""
    waiting = [dataset]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_OBJECTS:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, (list, tuple)):
            waiting.extend(thing[:_MOST_OBJECTS])
        elif hasattr(thing, "__dict__") and not isinstance(thing, (type, ModuleType, FunctionType)):
            yield type(thing)
            waiting.extend(vars(thing).values())


def _functions(thing: Any) -> Iterator[FunctionType]:
    """The Python functions of a class, or a function itself, below what wraps it."""
    if isinstance(thing, type):
        for owner in thing.__mro__:
            for member in vars(owner).values():
                if not isinstance(member, type):
                    yield from _functions(member)
        return
    for inner in (thing, *(getattr(thing, name, None) for name in ("__func__", "func", "fget", "__wrapped__"))):
        if isinstance(inner, FunctionType):
            yield inner


def _names(code: CodeType) -> Iterator[str]:
    """Every global, attribute and import that the code names, also in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _named(scope: dict[str, Any], names: Iterable[str]) -> Iterator[FunctionType]:
    found = [scope[name] for name in names if name in scope]
    modules = [thing for thing in found if isinstance(thing, ModuleType)]
    found += [vars(module)[name] for module in modules for name in names if name in vars(module)]
    for thing in found:
        yield from _functions(thing)


def _is_of_torch(function: FunctionType) -> bool:
    """Torch's own code asks for reasons of its own."""
    return (function.__module__ or "").partition(".")[0] == "torch"
