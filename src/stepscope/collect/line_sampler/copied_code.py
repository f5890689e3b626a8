"""Copies of what describes a code object, read out of the memory of the running job, and the check that they are true.

A copy stands for the code object where a stack is described: no reference to the job's own is held.
"""

from __future__ import annotations

import sys
from _thread import get_ident

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

__all__ = ["CopiedCode", "reads_true"]

_NOTHING = (lambda: None).__code__
_LINES = "co_linetable" if hasattr(_NOTHING, "co_linetable") else "co_lnotab"


class CopiedCode:
    """Has the attributes of a code object that `frames.Describer` reads.

    `co_code` is the bytecode as it lies in memory: with what the interpreter has made of it since it was compiled.
    """

    __slots__ = ("__dict__", "co_code", "co_filename", "co_firstlineno", "co_lnotab", "co_name", "co_qualname")

    def __init__(self, filename: str, name: str, qualname: str, first_line: int, lines: bytes, bytecode: bytes) -> None:
        self.co_filename, self.co_name, self.co_qualname, self.co_firstlineno = filename, name, qualname, first_line
        self.co_code, self.co_lnotab = bytecode, lines
        if sys.version_info >= (3, 10):
            from opcode import opmap

            told: dict[str, Any] = {_LINES: lines, "co_firstlineno": first_line}
            never_run = bytes((opmap["NOP"], 0)) * (len(bytecode) // 2)  # only its size counts
            twin = _NOTHING.replace(co_code=never_run, **told)
            self.co_lines = twin.co_lines
            if sys.version_info >= (3, 11):
                self.co_positions = twin.co_positions


def reads_true(looker: Any) -> bool:
    """Does `looker` say of the calling thread what Python says? It does where Python is laid out as expected."""
    answers: list[tuple[Any, list[Any]]] = []
    for _ in _generated(looker, answers):
        pass
    told = looker.fresh()
    if told is None or len(answers) != 2:
        return False
    copies = {(copy[0], copy[1], copy[3]): copy for copy in told[0]}
    return all(_same(spots, frames, copies) for spots, frames in answers)


def _generated(looker: Any, answers: list[Any]) -> Iterator[None]:
    """Looks from within a generator, and from within a function that C code has called."""
    _ask(looker, answers)
    yield
    sorted((0,), key=lambda _: _ask(looker, answers))


def _ask(looker: Any, answers: list[Any]) -> int:
    spots = looker.spots(get_ident())
    frame: FrameType | None = sys._getframe(1)
    frames = []
    while frame is not None:
        frames.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    answers.append((spots[2:], frames))
    return 0


def _same(spots: tuple[int, ...], frames: list[Any], copies: dict[Any, Any]) -> bool:
    if list(spots) != [part for code, offset in frames for part in (id(code), offset)]:
        return False
    for code, _ in frames:
        copy = copies.get((code.co_filename, code.co_name, code.co_firstlineno))
        if copy is None or copy[4] != getattr(code, _LINES) or len(copy[5]) != len(code.co_code):
            return False
        if copy[2] != getattr(code, "co_qualname", code.co_name):
            return False
    return True
