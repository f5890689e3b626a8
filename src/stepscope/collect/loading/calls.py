"""Times of a data set's transforms, and of known readers and decoders, while the samples of one batch are recorded.

The class of an object that the data set holds gets another `__call__` for the time of the fetch, and a function gets
another code: objects, functions and the containers that hold them stay what they are. Everything is put back when the
fetch is over. What is replaced by what is settled for several fetches at once: walking through a data set may cost
more than timing its calls. In the process that trains, modules of torch are left alone: the model may have the same
classes, whose calls would be timed, and torch.compile looks at them.

Images are decoded lazily: Pillow reads the pixels when they are first asked for, which is in some transform. So the
decoders are timed by themselves, and the time is theirs, not the transform's.

The stretches that the user's code names itself, with torch.profiler.record_function, are timed likewise.
"""

from __future__ import annotations

import sys
import time
import types
from _thread import get_ident

from .. import facts
from ..unseen import unseen
from .function_code import copy_of, handed_to, makes_no_call
from .held import MOST, Walk, python_method
from .spans import DECODE, LABEL, READ, TRANSFORM
from .subjects import extent, file_number

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
    (READ, "json", "", "load"),
    (READ, "pickle", "", "load"),
    (READ, "h5py", "File", "__init__"),
    (READ, "zipfile", "ZipFile", "__init__"),
    (READ, "pandas", "", "read_csv"),
    (READ, "pandas", "", "read_parquet"),
)
"""Readers and decoders: stage, module, class or nothing, function."""

SHORT_NS = 20_000
"""Calls of a decoder that take less are left out: Pillow asks for the pixels again and again once they are there."""

PLANNED_FOR = 8
"""Fetches that a plan of what is replaced serves: a data set may take up another transform meanwhile. The first serves
one: in its first fetch a data set opens files, imports modules and makes what it had put off."""

LABELS_LIMIT = 256
"""Labels told apart in a process: one with the number of the sample in it would fill the disk."""

_OWN_LABELS = "enumerate(DataLoader)"  # of torch: a loader inside a data set
_now = time.monotonic_ns
_cpu: Callable[[], int] = getattr(time, "thread_time_ns", lambda: -1)
_ABSENT: Any = object()


class Calls:
    """The calls that are timed in the fetches from some data sets. `swap` begins with one, `restore` ends it."""

    __slots__ = ("_datasets", "_held", "_lane", "_left", "_modules", "_open", "_plan")

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._held: list[tuple[Any, str, Any, Any]] = []  # owner, attribute, what was there, what is
        self._open: list[tuple[Any, int, int, int]] = []  # labels that were entered: object, name, start, CPU time
        self._plan: list[tuple[Any, str, Any, tuple[Any, ...]]] = []  # owner, attribute, hook, what it was made from
        self._datasets: list[int] = []  # the plan is for these
        self._left = self._modules = 0  # fetches that it still serves, modules when it was made

    def swap(self, datasets: list[Any]) -> None:
        """Have the calls of these data sets timed until `restore`. Never raises."""
        try:
            if not self._serves(datasets):
                self._make_plan(datasets)
        except Exception:
            self._plan.clear()  # a data set whose attributes raise: its samples are timed as a whole
        for owner, name, hook, _ in self._plan:
            self._replace(owner, name, hook)
        self._lane.thread = get_ident()

    def _serves(self, datasets: list[Any]) -> bool:
        """Does the plan serve for another fetch? Not where the job has changed a function or class of it meanwhile."""
        self._left -= 1
        return (
            self._left >= 0
            and self._modules == len(sys.modules)
            and self._datasets == [id(dataset) for dataset in datasets]
            and all(_same(_source(owner, name), source) for owner, name, _, source in self._plan)
        )

    def _make_plan(self, datasets: list[Any]) -> None:
        new: list[tuple[Any, str, Any]] = []
        walk = Walk(self._lane.times_modules)
        for dataset in datasets:
            new += [self._hook(found) for found in walk.of(dataset) if not makes_no_call(found)]
        new = [*new[:MOST], *self._leaves(), *self._labels()]
        self._left = PLANNED_FOR if self._modules else 0
        self._modules, self._datasets = len(sys.modules), [id(dataset) for dataset in datasets]
        self._plan = [(owner, name, hook, _source(owner, name)) for owner, name, hook in new]

    def restore(self) -> None:
        """Put everything back, the last first, but where the job has put something else. Never raises."""
        self._lane.thread = 0
        self._open.clear()
        while self._held:
            owner, name, before, hook = self._held.pop()
            try:
                if _present(owner, name) is not hook:
                    continue
                if before is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)
            except Exception:
                continue

    def _replace(self, owner: Any, name: str, hook: Any) -> None:
        try:
            before = _present(owner, name)
            setattr(owner, name, hook)
        except Exception:
            return  # a class of C: it cannot be timed
        self._held.append((owner, name, before, hook))

    # -- what there is -------------------------------------------------------------------------------------------------

    def _hook(self, found: Any) -> tuple[Any, str, Any]:
        """Owner, attribute and what takes its place, of a function or class that a data set holds."""
        if isinstance(found, type):
            call = python_method(found, "__call__")
            body = python_method(found, "forward") or call
            return found, "__call__", self._timed(call, TRANSFORM, self._name(found, body))
        timed = self._timed(copy_of(found), TRANSFORM, self._name(found, found))
        return found, "__code__", handed_to(timed, found)

    def _leaves(self) -> Iterator[tuple[Any, str, Any]]:
        for stage, module, kind, name in LEAVES:
            owner = sys.modules.get(module)
            if owner is not None and kind:
                owner = getattr(owner, kind, None)
            function = None if owner is None else getattr(owner, name, None)
            if function is not None:
                yield owner, name, self._timed(function, stage, 0, ".".join(filter(None, (module, kind, name))))

    def _labels(self) -> Iterator[tuple[Any, str, Any]]:
        """`with record_function("…"):` around something."""
        kind = getattr(sys.modules.get("torch.autograd.profiler"), "record_function", None)
        enter, leave = (kind and python_method(kind, name) for name in ("__enter__", "__exit__"))
        if enter is None or leave is None:
            return

        def __enter__(label: Any) -> Any:
            entered = enter(label)
            if get_ident() == self._lane.thread:
                self._enter(label, sys._getframe(1))
            return entered

        def __exit__(label: Any, *failure: Any) -> Any:
            if get_ident() == self._lane.thread and self._open and self._open[-1][0] is label:
                _, name, start, cpu = self._open.pop()
                self._lane.called(LABEL, start, _now(), _cpu() - cpu, -1, name)
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

    def _leaf(self, function: Any, words: str) -> int:
        """The number of a reader or decoder, told when it is called first. Never raises."""
        try:
            return self._lane.names.get(id(function)) or self._lane.name(
                function, words, facts.function_place(function)
            )
        except Exception:
            return 0

    @unseen
    def _timed(self, original: Callable[..., Any], stage: int, known: int, words: str = "") -> Callable[..., Any]:
        """`original`, timed; `known` is the number of its name, or 0, and it is called `words`."""
        lane, shortest = self._lane, 0 if stage == TRANSFORM else SHORT_NS
        sized, reads = stage == TRANSFORM, stage == READ

        def timed(*args: Any, **kwargs: Any) -> Any:
            nonlocal known, sized
            if get_ident() != lane.thread:
                return original(*args, **kwargs)
            result, known = None, known or self._leaf(original, words)
            start, cpu = _now(), _cpu()
            try:
                result = original(*args, **kwargs)
            finally:
                end, used = _now(), _cpu() - cpu
                if end - start >= shortest and type(result) is not types.GeneratorType:  # which has done nothing yet
                    lane.called(stage, start, end, used, file_number(args) if reads else -1, known)
            if sized:
                sized = lane.wants_size(known)
                if sized:
                    before, after = extent(args), extent((result,))
                    lane.sizes.append((known, before[0], after[0], max(before[1], after[1])))
            return result

        if isinstance(original, types.FunctionType):
            timed.__wrapped__ = original  # type: ignore[attr-defined]  # a signature is that of the original
        return timed


def _present(owner: Any, name: str) -> Any:
    """What a class or a module has of its own under a name, or a function's code."""
    return owner.__code__ if name == "__code__" else vars(owner).get(name, _ABSENT)


def _source(owner: Any, name: str) -> tuple[Any, ...]:
    """What a hook is made from: of a function all that a copy of it takes over, else the method or function itself."""
    if name == "__code__":
        return owner.__code__, owner.__defaults__, owner.__kwdefaults__
    return (python_method(owner, name) if isinstance(owner, type) else vars(owner).get(name),)


def _same(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return all(one is other for one, other in zip(some, others))
