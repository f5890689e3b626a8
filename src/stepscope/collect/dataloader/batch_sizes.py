"""What loading works on: how many numbers a sample has, which file is read, and which tensors a batch consists of."""

from __future__ import annotations

import os
import zlib

from ..guards import own_errors

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["extent", "file_number", "tensors"]

_MOST = 64  # tensors of a batch
_BYTE_MODES = ("L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB")  # of Pillow: a byte for each number
_DEEP = 4  # lists in lists


def extent(things: tuple[Any, ...]) -> tuple[int, int]:
    """The numbers in the first of some arrays, tensors or pictures, and its bytes; -1 where none has a size. Never
    raises."""
    try:
        for thing in things[:2]:  # the transform itself, then the sample
            sample = thing[0] if isinstance(thing, (list, tuple)) and thing else thing
            found = _elements(sample)
            if found > 0:
                return found, _bytes(sample, found)
    except own_errors():
        return -1, -1
    return -1, -1


def file_number(things: tuple[Any, ...]) -> int:
    """A number that stands for the file among the arguments of a reader, in every process the same; -1: none. Never
    raises."""
    try:
        for thing in things[:2]:  # a method has the object before the file
            name = thing if isinstance(thing, (str, os.PathLike)) else getattr(thing, "name", None)
            if isinstance(name, (str, os.PathLike)):
                return zlib.crc32(os.fsencode(name))
    except own_errors():
        return -1
    return -1


def tensors(batch: Any) -> list[tuple[str, int]]:
    """Kind of number and bytes of each tensor or array in a batch, the first _MOST. Never raises."""
    found: list[tuple[str, int]] = []
    try:
        _collect(batch, found, 0)
    except own_errors():
        return []
    return found


def _collect(thing: Any, found: list[tuple[str, int]], depth: int) -> None:
    size, kind = getattr(thing, "nbytes", None), getattr(thing, "dtype", None)
    if isinstance(size, int) and kind is not None:
        found.append((str(kind), size))
    elif isinstance(thing, (list, tuple, dict)) and depth < _DEEP:
        for one in thing.values() if isinstance(thing, dict) else thing:
            if len(found) >= _MOST:
                return
            _collect(one, found, depth + 1)


def _bytes(thing: Any, numbers: int) -> int:
    try:
        size = getattr(thing, "nbytes", None)
    except own_errors():  # a sparse tensor has none
        return -1
    if isinstance(size, int):
        return size
    mode = getattr(thing, "mode", None)
    return numbers if mode in _BYTE_MODES else -1


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
