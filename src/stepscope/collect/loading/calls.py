"""Times of a data set's transforms, and of known readers and decoders, while the samples of one batch are recorded.

A transform is an object that the data set holds, or that one of those holds in a list called `transforms`; its class
gets another `__call__` for the time of the fetch, so that the object stays what it is. A function that a data set or
such a list holds is replaced there. Everything is put back when the fetch is over. In the process that trains, modules
of torch are left alone: the model may have the same classes, whose calls would be timed, and torch.compile looks at
them.

Images are decoded lazily: Pillow reads the pixels when they are first asked for, which is in some transform. So the
decoders are timed by themselves, and the time is theirs, not the transform's.

The stretches that the user's code names itself, with torch.profiler.record_function, are timed likewise.
"""

from __future__ import annotations

import functools
import sys
import time
import types
from _thread import get_ident

from .. import facts
from .spans import DECODE, LABEL, READ, TRANSFORM

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .lane import Lane

__all__ = ["Calls"]

LEAVES = (
    (DECODE, "PIL.ImageFile", "ImageFile", "load"),
    (DECODE, "cv2", "", "imread"),
    (DECODE, "cv2", "", "imdecode"),
    (DECODE, "torchvision.io", "", "read_image"),
    (DECODE, "torchvision.io", "", "decode_image"),
    (DECODE, "torchvision.io", "", "decode_jpeg"),
    (DECODE, "torchvision.io", "", "decode_png"),
    (READ, "PIL.Image", "", "open"),
    (READ, "numpy", "", "load"),
    (READ, "torch", "", "load"),
)
"""Readers and decoders: stage, module, class or nothing, function."""

SHORT_NS = 20_000
"""Calls of a decoder that take less are left out: Pillow asks for the pixels again and again once they are there."""

LABELS_LIMIT = 256
"""Labels told apart in a process: one with the number of the sample in it would fill the disk."""

_OWN_LABELS = "enumerate(DataLoader)"  # of torch: a loader inside a data set
_MOST = 64  # classes and functions: a data set that holds more calls than this holds no transforms
_DEEP = 4  # lists in lists
_now = time.monotonic_ns
_cpu: Callable[[], int] = getattr(time, "thread_time_ns", lambda: -1)
_ABSENT: Any = object()
_HOLDERS: Any = (dict, list)


class Calls:
    """The calls that are timed in a fetch from these data sets. `swap` begins, `restore` ends."""

    __slots__ = ("_held", "_lane", "_open", "_thread")

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._held: list[tuple[Any, str | int, Any]] = []
        self._open: list[tuple[Any, int, int, int]] = []  # labels that were entered: object, name, start, CPU time
        self._thread = 0

    def swap(self, datasets: list[Any]) -> None:
        """Have the calls of these data sets timed until `restore`. Never raises."""
        self._thread = get_ident()
        new: list[tuple[Any, str | int, Any]] = []
        seen: set[int] = set()
        try:
            for dataset in datasets:
                new += self._of(dataset, seen)
            new = [*new[:_MOST], *self._leaves(), *self._labels()]
        except Exception:
            new.clear()  # a data set whose attributes raise: its samples are timed as a whole
        for owner, name, hook in new:
            self._replace(owner, name, hook)

    def restore(self) -> None:
        """Put everything back, the last first. Never raises."""
        self._open.clear()
        while self._held:
            owner, name, before = self._held.pop()
            try:
                if before is _ABSENT:
                    delattr(owner, str(name))
                else:
                    _put(owner, name, before)
            except Exception:
                continue

    def _replace(self, owner: Any, name: str | int, hook: Any) -> None:
        try:
            before = owner[name] if isinstance(owner, _HOLDERS) else vars(owner).get(str(name), _ABSENT)
            _put(owner, name, hook)
        except Exception:
            return  # a class of C: it cannot be timed
        self._held.append((owner, name, before))

    # -- what there is -------------------------------------------------------------------------------------------------

    def _of(self, dataset: Any, seen: set[int]) -> Iterator[tuple[Any, str | int, Any]]:
        """Owner, name and hook of every call that a data set holds."""
        held = getattr(dataset, "__dict__", {})
        for name, value in list(held.items()):
            yield from self._visit(held, name, value, seen, 0)

    def _visit(
        self, owner: Any, name: str | int, value: Any, seen: set[int], depth: int
    ) -> Iterator[tuple[Any, str | int, Any]]:
        if isinstance(value, type) or not callable(value) or id(value) in seen or depth > _DEEP:
            return
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            yield owner, name, _Function(value, self._timed(value, TRANSFORM, self._name(value, value)))
            return
        kind = type(value)
        function = _method(kind, "__call__")
        if function is not None and id(kind) not in seen and (self._lane.times_modules or not _is_module(kind)):
            seen.add(id(kind))
            body = _method(kind, "forward") or function
            yield kind, "__call__", self._timed(function, TRANSFORM, self._name(kind, body))
        inner = getattr(value, "__dict__", {})
        for attribute in ("transforms", "transform", "target_transform"):
            held = inner.get(attribute)
            if isinstance(held, list):
                for index, one in enumerate(held):
                    yield from self._visit(held, index, one, seen, depth + 1)
            elif held is not None:
                yield from self._visit(inner, attribute, held, seen, depth + 1)

    def _leaves(self) -> Iterator[tuple[Any, str, Any]]:
        for stage, module, kind, name in LEAVES:
            owner = sys.modules.get(module)
            if owner is not None and kind:
                owner = getattr(owner, kind, None)
            function = getattr(owner, name, None)
            if function is not None:
                number = self._lane.names.get(id(function))
                if number is None:
                    words = ".".join(filter(None, (module, kind, name)))
                    number = self._lane.name(function, words, facts.function_place(function))
                yield owner, name, self._timed(function, stage, number)

    def _labels(self) -> Iterator[tuple[Any, str, Any]]:
        """`with record_function("…"):` around something."""
        kind = getattr(sys.modules.get("torch.autograd.profiler"), "record_function", None)
        enter, leave = (kind and _method(kind, name) for name in ("__enter__", "__exit__"))
        if enter is None or leave is None:
            return

        def __enter__(label: Any) -> Any:
            entered = enter(label)
            if get_ident() == self._thread:
                self._enter(label, sys._getframe(1))
            return entered

        def __exit__(label: Any, *failure: Any) -> Any:
            if get_ident() == self._thread and self._open and self._open[-1][0] is label:
                _, name, start, cpu = self._open.pop()
                self._lane.called(LABEL, start, cpu, name, 0)
            return leave(label, *failure)

        yield kind, "__enter__", __enter__
        yield kind, "__exit__", __exit__

    def _enter(self, label: Any, caller: types.FrameType) -> None:
        """The user's code has entered a label, at the line where `caller` is. Never raises."""
        try:
            words, spans = str(label.name), self._lane.spans
            if words.startswith(_OWN_LABELS):
                return
            name = spans.label(words, (caller.f_code.co_filename, caller.f_lineno), LABELS_LIMIT)
            self._open.append((label, name, _now(), _cpu()))
        except Exception:
            return

    def _name(self, thing: Any, body: Any) -> int:
        known = self._lane.names.get(id(thing))
        return known or self._lane.name(thing, facts.name_of(thing), facts.function_place(body))

    def _timed(self, original: Callable[..., Any], stage: int, name: int) -> Callable[..., Any]:
        lane, shortest = self._lane, 0 if stage == TRANSFORM else SHORT_NS

        def timed(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != self._thread:
                return original(*args, **kwargs)
            start, cpu = _now(), _cpu()
            try:
                return original(*args, **kwargs)
            finally:
                lane.called(stage, start, cpu, name, shortest)

        return timed


class _Function:
    """Stands for a function; where it is pickled, as for a pool of processes, the function itself is."""

    __slots__ = ("__wrapped__", "_timed")

    def __init__(self, original: Any, timed: Callable[..., Any]) -> None:
        self.__wrapped__, self._timed = original, timed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._timed(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (self.__wrapped__,)


def _method(kind: type, name: str) -> Any:
    """The method as it is defined in Python, None for any other: a method of C cannot be replaced."""
    for owner in kind.__mro__:
        if name in vars(owner):
            found = vars(owner)[name]
            return found if isinstance(found, types.FunctionType) else None
    return None


def _is_module(kind: type) -> bool:
    module = getattr(sys.modules.get("torch.nn"), "Module", None)
    return module is not None and issubclass(kind, module)


def _put(owner: Any, name: str | int, value: Any) -> None:
    if isinstance(owner, _HOLDERS):
        owner[name] = value
    else:
        setattr(owner, str(name), value)
