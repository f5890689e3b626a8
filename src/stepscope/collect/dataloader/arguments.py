"""What is asked about a call while it is watched: whose it is, what it works on, and the label that it enters.

A frame is looked at before its first line has run, or after its last. Nothing of it is kept: before Python 3.13 looking
at the variables of a frame leaves references to them in it, so those are taken away again.
"""

from __future__ import annotations

import time
import weakref
from inspect import CO_VARARGS

from .batch_sizes import extent, file_number
from .spans import LABEL, READ
from .transform_discovery import is_module, python_method

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from types import FrameType, FunctionType
    from typing import Any

    from .batch_recorder import BatchRecorder

__all__ = ["LABELS_LIMIT", "Arguments", "Candidate"]

LABELS_LIMIT = 256
"""Labels told apart in a process: one with the number of the sample in it would fill the disk."""

_OWN_LABELS = "enumerate(DataLoader)"  # of torch: a loader inside a data set
_TAKEN = 2  # arguments that are looked at: a method has its object before the sample
_now = time.monotonic_ns
_cpu = getattr(time, "thread_time_ns", lambda: -1)


class Candidate:
    """A function, or a method of the class `kind`, that shares its code with others; `name`: the number of its name.

    Kept by weak references: a function or class of the job ends when it ends without us.
    """

    __slots__ = ("_function", "_kind", "name")

    def __init__(self, function: FunctionType, kind: type | None, name: int) -> None:
        self._function, self._kind = weakref.ref(function), weakref.ref(kind) if kind else None
        self.name = name

    def rank(self, arguments: tuple[Any, ...], called: Any, held: Any) -> int:
        """How far from a call with these arguments, of this function or, where that is not known, with these variables:
        0 is its own class, -1 that it is none of it."""
        function = self._function()
        if function is None or (function is not called if called is not None else not _same_cells(function, held)):
            return -1
        if self._kind is None:
            return 0
        kind, order = self._kind(), type(arguments[0]).__mro__ if arguments else ()
        if kind not in order:
            return -1
        if is_module(kind):  # its base class may be asked by it, which is a part of the same call
            own = python_method(order[0], "forward")
            if own is not None and own.__code__ is not function.__code__:
                return -1
        return order.index(kind)


class Arguments:
    """The answers to a Watch of one recorder. `candidates`: by the id of a code that several functions share."""

    __slots__ = ("_open", "_recorder", "candidates")

    def __init__(self, recorder: BatchRecorder) -> None:
        self._recorder = recorder
        self._open: list[tuple[int, int, int, int]] = []  # labels entered: id of the object, name, start, CPU time
        self.candidates: dict[int, list[Candidate]] = {}

    def ask(
        self, stage: int, name: int, frame: FrameType | None, function: Any = None, arguments: tuple[Any, ...] = ()
    ) -> tuple[int, int, Any]:
        """A call begins: the number of its name (0: it is none that is timed), of the file that it reads, and the size
        of what it works on where that is wanted. It is told by its frame, or by its function and first arguments."""
        if frame is None:
            name = name or self._which(id(function.__code__), arguments, function, None)
        else:
            held = frame.f_locals
            try:
                arguments = _first(frame, held)
                name = name or self._which(id(frame.f_code), arguments, None, held)
            finally:
                _leave(held)
        if stage == READ:
            return name, file_number(arguments), None
        return name, -1, extent(arguments) if name and self._recorder.wants_size(name) else None

    def answer(self, name: int, before: tuple[int, int], result: Any) -> None:
        """A call has returned whose size was wanted."""
        after = extent((result,))
        self._recorder.sizes.append((name, before[0], after[0], max(before[1], after[1])))

    def label(self, entered: bool, frame: FrameType, arguments: tuple[Any, ...] = ()) -> None:
        """`with record_function("…"):` is entered or left: in the frame that called this one, or in this one, with
        these arguments."""
        caller: FrameType | None = frame
        if not arguments:
            held, caller = frame.f_locals, frame.f_back
            try:
                arguments = _first(frame, held)
            finally:
                _leave(held)
        if entered:
            self._enter(arguments[0], caller)
        elif self._open and self._open[-1][0] == id(arguments[0]):
            _, name, start, cpu = self._open.pop()
            self._recorder.called(LABEL, start, _now(), _cpu() - cpu, -1, name)

    def end(self) -> None:
        """Of the fetch."""
        self._open.clear()

    def _enter(self, label: Any, caller: FrameType | None) -> None:
        words = str(label.name)
        if caller is not None and not words.startswith(_OWN_LABELS):
            name = self._recorder.spans.label(words, (caller.f_code.co_filename, caller.f_lineno), LABELS_LIMIT)
            self._open.append((id(label), name, _now(), _cpu()))

    def _which(self, code: int, arguments: tuple[Any, ...], function: Any, held: Any) -> int:
        ranked = [(one.rank(arguments, function, held), one.name) for one in self.candidates.get(code, ())]
        return min((one for one in ranked if one[0] >= 0), default=(0, 0))[1]


def _first(frame: FrameType, held: Any) -> tuple[Any, ...]:
    """The first arguments of a call that begins."""
    code = frame.f_code
    found = [held[name] for name in code.co_varnames[: min(_TAKEN, code.co_argcount)] if name in held]
    if len(found) < _TAKEN and code.co_flags & CO_VARARGS:
        found += held[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
    return tuple(found[:_TAKEN])


def _leave(held: Any) -> None:
    if type(held) is dict:
        held.clear()


def _same_cells(function: FunctionType, held: Any) -> bool:
    """Are the variables that a call has from outside those of this function?"""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            if held.get(name) is not cell.cell_contents:
                return False
        except ValueError:  # it has no value yet
            continue
    return True
