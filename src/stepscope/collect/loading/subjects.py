"""What a call in a fetch works on: how many numbers a sample has, and which file is read."""

from __future__ import annotations

import os
import zlib

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["elements", "file_number"]


def elements(things: tuple[Any, ...]) -> int:
    """The numbers in the first of some arrays, tensors or pictures; -1 where none has a size. Never raises."""
    try:
        for thing in things[:2]:  # the transform itself, then the sample
            found = _elements(thing[0] if isinstance(thing, (list, tuple)) and thing else thing)
            if found > 0:
                return found
    except Exception:
        return -1
    return -1


def file_number(things: tuple[Any, ...]) -> int:
    """A number that stands for the file among the arguments of a reader, in every process the same; -1: none. Never
    raises."""
    try:
        for thing in things[:2]:  # a method has the object before the file
            name = thing if isinstance(thing, (str, os.PathLike)) else getattr(thing, "name", None)
            if isinstance(name, (str, os.PathLike)):
                return zlib.crc32(os.fsencode(name))
    except Exception:
        return -1
    return -1


def _elements(thing: Any) -> int:
    shape = getattr(thing, "shape", None)
    if shape is None:
        shape, bands = getattr(thing, "size", None), getattr(thing, "getbands", None)
        if not isinstance(shape, tuple) or bands is None:
            return -1
        shape = (*shape, len(bands()))  # a picture of Pillow
    number = 1
    for length in shape:
        number *= int(length)
    return number
