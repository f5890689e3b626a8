"""Where a loader is made: the line of the user's code that calls DataLoader, which is the line to change."""

from __future__ import annotations

import sys
import weakref

from .guards import own_errors
from .hooks import dressed
from .origins import LIBRARY, STANDARD, USER, Origins
from .warning_frames import hidden_from_warnings

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

__all__ = ["MADE", "Makers", "init_hook"]

MADE = "_stepscope_made"
"""Attribute of a loader: file and line that made it (or None), and the library that made it for the user, or None."""

_MOST_KNOWN = 64  # data sets whose loader a library may make again, with a sampler of its own


class Makers:
    """Remembers, by data set, which line of the user's made a loader: libraries replace it by one of their own."""

    def __init__(self) -> None:
        self._origins = Origins()
        self._known: list[tuple[Any, tuple[str, int]]] = []  # weak reference to the data set, file and line

    def mark(self, loader: Any, frame: FrameType | None) -> None:
        """Write down who made `loader`, whose constructor was called from `frame`. Never raises."""
        try:
            vars(loader)[MADE] = self._maker(loader, frame)
        except own_errors():
            return

    def _maker(self, loader: Any, frame: FrameType | None) -> tuple[str | None, int | None, str | None]:
        constructors = _constructors(type(loader))
        while frame is not None and frame.f_code in constructors:
            frame = frame.f_back
        if frame is None:
            return None, None, None
        file = frame.f_code.co_filename
        if self._origins.of(file) == USER:
            place = (self._origins.shown(file), frame.f_lineno)
            self._remember(loader.dataset, place)
            return (*place, None)
        library = self._origins.package(file) if self._origins.of(file) in (LIBRARY, STANDARD) else None
        for reference, known in reversed(self._known):
            if reference() is loader.dataset:
                return (*known, library)
        return None, None, library

    def _remember(self, dataset: Any, place: tuple[str, int]) -> None:
        try:
            self._known = [*self._known[1 - _MOST_KNOWN :], (weakref.ref(dataset), place)]
        except TypeError:
            return  # a list, say, which takes no weak reference


@hidden_from_warnings
def init_hook(original: Callable[..., None], makers: Makers) -> Callable[..., None]:
    """`original`, the constructor of a loader, which then knows who called it."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # not this frame
            raise
        makers.mark(self, sys._getframe(1))

    return dressed(__init__, original)


def _constructors(kind: type) -> set[CodeType]:
    """The code of the constructors of a class and those above it, and of what libraries have put around them.

    They are known by the class alone: looking at the locals of a frame would keep alive what the job lets go.
    """
    found: set[CodeType] = set()
    for owner in kind.__mro__:
        function = vars(owner).get("__init__")
        while function is not None:
            code = getattr(function, "__code__", None)
            if code is None or code in found:
                break
            found.add(code)
            function = getattr(function, "__wrapped__", None)
    return found
