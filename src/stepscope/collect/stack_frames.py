"""How a stack is described: the user's frames, the library call below them, the innermost frame.

A frame is known by its code object and the offset of its last instruction, which stay true while the thread runs on;
line and expression are looked up once, when a stack is first seen.
"""

from __future__ import annotations

from .called_names import called_names
from .origins import LIBRARY, RECORDER, USER, Origins

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from .sources import Sources

    Spot = tuple[CodeType, int]  # code, offset of the instruction in bytes

__all__ = ["OTHER_STACKS", "Describer"]

DEEPEST = 32
"""User frames kept of a stack, the innermost ones: a description is for reading."""

_BETWEEN = 24  # library frames kept, the innermost ones: a framework calls its callbacks some twenty frames deep
_COMPUTES = ("torch", "functorch", "numpy")  # packages whose inner frames say nothing that `call` and `leaf` do not

OTHER_STACKS: dict[str, Any] = {
    "frames": [], "texts": [], "call": None, "leaf": ["<other stacks>", 0, "<other stacks>"], "text": "",
    "segment": None, "between": [],
}  # fmt: skip
"""Stands for all stacks beyond the number that is kept apart."""

_OPERATIONS = ("CALL", "PRECALL", "BINARY", "COMPARE", "UNARY", "LOAD_ATTR", "GET_ITER", "BEFORE_WITH")
"""Instructions whose source is one expression; that of FOR_ITER, say, is the whole loop."""

_INSTRUMENTED = "INSTRUMENTED_"
_STANDING_IN = ("INSTRUMENTED_LINE", "INSTRUMENTED_INSTRUCTION", "ENTER_EXECUTOR")  # what for is kept elsewhere


class Describer:
    """Describes stacks for frames.jsonl; `spots` innermost first.

    `sources` takes the lines around the user's frames; None: of the source only the names that it calls are written.
    """

    def __init__(self, origins: Origins, sources: Sources | None) -> None:
        self._origins, self._sources = origins, sources

    def describe(self, spots: tuple[Any, ...]) -> dict[str, Any]:
        """The row of frames.jsonl without its id. `spots` holds code, offset, code, offset, …, innermost first."""
        stack = [(spots[index], spots[index + 1]) for index in range(0, len(spots), 2)]
        stack = [spot for spot in stack if self._origins.of(spot[0].co_filename) < RECORDER]
        if not stack:
            return dict(OTHER_STACKS)
        users = self._user_frames(stack)
        row: dict[str, Any] = {
            "frames": [self._frame(stack[index]) for index in reversed(users[:DEEPEST])],
            "texts": [self._text(*stack[index]) for index in reversed(users[:DEEPEST])],
            "call": None,
            "leaf": self._frame(stack[0]),
            "text": "",
            "segment": None,
            "between": [],
        }
        if users:
            innermost = users[0]
            row["text"] = row["texts"][-1]
            row["segment"] = self._expression(*stack[innermost])
            if innermost:
                row["call"] = self._frame(stack[innermost - 1])
                row["between"] = self._between(stack[1 : innermost - 1])
        return row

    def _user_frames(self, stack: list[Spot]) -> list[int]:
        """Indices of the user's frames; of a program that is itself an installed package, those of that package."""
        kinds = [self._origins.of(code.co_filename) for code, _ in stack]
        users = [index for index, kind in enumerate(kinds) if kind == USER]
        libraries = [index for index, kind in enumerate(kinds) if kind == LIBRARY]
        if users or not libraries:
            return users
        program = self._origins.package(stack[libraries[-1]][0].co_filename)
        return [index for index in libraries if self._origins.package(stack[index][0].co_filename) == program]

    def _between(self, stack: list[Spot]) -> list[str]:
        """`file function` of the library frames of a part of the stack, outermost first; each once where it repeats.

        Lines are left out: one stack for each line of each frame would be too many to keep apart.
        """
        told: list[str] = []
        for code, _ in stack:
            if self._origins.of(code.co_filename) != LIBRARY or self._origins.package(code.co_filename) in _COMPUTES:
                continue
            name = f"{self._origins.shown(code.co_filename)} {getattr(code, 'co_qualname', code.co_name)}"
            if told[-1:] != [name]:
                told.append(name)
            if len(told) == _BETWEEN:
                break
        return told[::-1]

    def _text(self, code: CodeType, offset: int) -> str:
        from .sources import source_line

        line = _line(code, offset)
        if self._sources is None:
            return called_names(source_line(code.co_filename, line))
        if self._origins.package(code.co_filename) not in _COMPUTES:
            self._sources.keep(code.co_filename, line)
        return source_line(code.co_filename, line)

    def _expression(self, code: CodeType, offset: int) -> str | None:
        from .sources import fit

        found = _expression(code, offset)
        if found is None:
            return None
        return fit(found if self._sources is not None else called_names(found)) or None

    def _frame(self, spot: Spot) -> list[str | int]:
        code, offset = spot
        return [self._origins.shown(code.co_filename), _line(code, offset), code.co_name]


def _line(code: CodeType, offset: int) -> int:
    """The line of the instruction at `offset`."""
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            if start <= offset < end and line is not None:
                return line
        return code.co_firstlineno
    import dis

    found = code.co_firstlineno
    for start, line in dis.findlinestarts(code):
        if start > offset:
            break
        found = line
    return found


def _expression(code: CodeType, offset: int) -> str | None:
    """The source of the call or operation at `offset`; None for another kind of instruction and before Python 3.11."""
    if not hasattr(code, "co_positions") or offset < 0:
        return None
    import itertools

    from .sources import source_lines

    if not _operation(code.co_code, offset).startswith(_OPERATIONS):
        return None

    positions = itertools.islice(code.co_positions(), offset // 2, None)
    first, last, begin, end = next(positions, (None, None, None, None))
    if first is None or last is None or begin is None or end is None:
        return None
    lines = [text.encode() for text in source_lines(code.co_filename, first, last)]
    if len(lines) <= last - first:
        return None
    lines[-1] = lines[-1][:end]  # columns count bytes of UTF-8
    lines[0] = lines[0][begin:]
    text = b"".join(lines).decode("utf-8", "replace")
    return " ".join(text.split()) or None


def _operation(bytecode: bytes, offset: int) -> str:
    """The name of the instruction that `offset` lies in, or in whose cache; empty where a debugger stands in for it.

    The bytecode of a running program has specialized instructions and numbers in their caches. A frame that called a
    Python function stands at the end of its call.
    """
    import dis

    names, general, caches = (vars(dis).get(table) for table in ("_all_opname", "deoptmap", "_inline_cache_entries"))
    if names is None or general is None or caches is None:
        return ""
    at = 0
    while at < len(bytecode):
        name: str = names[bytecode[at]]
        if name in _STANDING_IN:
            return ""
        plain: str = name[len(_INSTRUMENTED) :] if name.startswith(_INSTRUMENTED) else general.get(name, name)
        units = caches.get(plain, 0) if isinstance(caches, dict) else caches[dis.opmap.get(plain, bytecode[at])]
        at += 2 + 2 * units
        if at > offset:
            return plain
    return ""
