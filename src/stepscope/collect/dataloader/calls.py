"""Times of a data set's transforms, and of known readers and decoders, while the samples of one batch are recorded.

They are watched from outside (native/calls.h), by their code, in the thread of the fetch. Nothing that the job has is
replaced or changed, and nothing of it is kept alive. The cheap way sees functions of Python only. A profile function is
set instead where OpenCV decodes, which is C, where torch.compile has the cheap way to itself, and in a job that goes
deeper into recursion than the C stack does. Where the thread has one already, or the compiled part is missing, samples
are timed as a whole. What is watched is settled for several fetches at once: walking through a data set may cost more
than timing its calls. In the process that trains, modules of torch are left alone: the model may have the same classes.

Images are decoded lazily: Pillow reads the pixels when they are first asked for, which is in some transform. So the
decoders are timed by themselves, and the time is theirs, not the transform's.

The stretches that the user's code names itself, with torch.profiler.record_function, are timed likewise.
"""

from __future__ import annotations

import sys
import types
import weakref

from .. import facts
from ..fields import compiled
from ..guards import own_errors
from .arguments import Arguments, Candidate
from .batch_recorder import SIZED
from .spans import DECODE, LABEL, READ, TRANSFORM
from .transform_discovery import MOST, Walk, is_module, makes_no_call, python_method

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

    from .batch_recorder import BatchRecorder

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
    (READ, "pickle", "", "load"),  # of C: only beside OpenCV
    (READ, "h5py", "File", "__init__"),
    (READ, "zipfile", "ZipFile", "__init__"),
    (READ, "pandas", "", "read_csv"),
    (READ, "pandas", "", "read_parquet"),
)
"""Readers and decoders: stage, module, class or nothing, function."""

SHORT_NS = 20_000
"""Calls of a decoder that take less are left out: Pillow asks for the pixels again and again once they are there."""

PLANNED_FOR = 8
"""Fetches that a plan of what is watched serves: a data set may take up another transform meanwhile. The first serves
one: in its first fetch a data set opens files, imports modules and makes what it had put off."""

EVENT_NS, FRAME_NS = 60, 40
"""CPU time of an event, each call and each return, and of a frame: 40 to 75 ns and 5 to 15 ns, Python 3.9 to 3.13;
after frames were watched, Python has to find its quickest way to call a function again."""

DEEPEST = 5_000
"""Recursion limit of Python up to which functions may run within each other on the C stack, some 500 bytes each."""

CODE_NS = 1_000 if sys.version_info >= (3, 12) else 0
"""CPU time for each function that runs with a profile function: Python rewrites its instructions, and again after."""

MOST_CODES = 512
"""Functions that run in a fetch at most, for what is charged; each makes an event at least."""

_TIMED, _ENTERS, _LEAVES = 0, 1, 2  # kinds of targets in native/calls.h
_EACH = 1 << 62  # all calls are asked about


class Calls:
    """The calls that are timed in the fetches from some data sets. `begin` begins with one, `end` ends it."""

    __slots__ = (
        "_arguments",
        "_datasets",
        "_leaves",
        "_left",
        "_modules",
        "_of_c",
        "_on",
        "_recorder",
        "_stop",
        "_watch",
        "_watched",
    )  # fmt: skip

    def __init__(self, recorder: BatchRecorder) -> None:
        self._recorder, self._arguments = recorder, Arguments(recorder)
        self._watched: list[tuple[Any, str, int]] = []  # weak reference to the owner, its method, id of the code
        self._leaves: list[tuple[str, Any]] = []  # readers and decoders: how each is called, and its place
        self._datasets: list[int] = []  # the plan is for these
        self._left = self._modules = 0  # fetches that it still serves, modules when it was made
        self._on = self._of_c = False  # is it on; is a function of C watched
        if compiled is not None:
            asked = self._arguments
            self._watch = compiled.Watch(asked.ask, asked.answer, asked.label, self._full(), types.GeneratorType)
            self._stop = self._watch.stop

    def begin(self, datasets: list[Any]) -> None:
        """Have the calls of these data sets in this thread timed until `end`. Never raises."""
        if compiled is None:
            return
        try:
            if not self._serves(datasets):
                self._make_plan(datasets)
        except own_errors():
            self._datasets = []  # a data set whose attributes raise: its samples are timed as a whole
            self._watch.clear()
        frames = not self._of_c and sys.getrecursionlimit() <= DEEPEST
        self._on = self._watch.start(self._stop, frames, sys.getprofile() is None)

    def end(self) -> None:
        """The fetch is over. Never raises."""
        if not self._on:
            return
        self._on, rows, events = False, self._stop(), self._watch.events
        self._arguments.end()
        if self._watch.frames:
            self._recorder.watch_cost = FRAME_NS * events
        else:
            self._recorder.watch_cost, self._recorder.slowed = (
                EVENT_NS * events + CODE_NS * min(events, MOST_CODES),
                True,
            )
        try:
            self._recorder.pending += _named(rows, self._leaves, self._recorder)
        except own_errors():
            return  # the disk is full: a new name cannot be told

    def _full(self) -> Any:
        """What takes spans of a fetch that is not over; it must not hold this object, which holds the watch."""
        leaves, recorder = self._leaves, self._recorder

        def full(rows: list[Any]) -> None:
            recorder.pending += _named(rows, leaves, recorder)
            recorder.flush()

        return full

    def _serves(self, datasets: list[Any]) -> bool:
        """Does the plan serve for another fetch? Not where the job has changed a function or class of it meanwhile."""
        self._left -= 1
        return (
            self._left >= 0
            and self._modules == len(sys.modules)
            and self._datasets == [id(dataset) for dataset in datasets]
            and all(id(_code(owner(), method)) == code for owner, method, code in self._watched)
        )

    # -- what there is -------------------------------------------------------------------------------------------------

    def _make_plan(self, datasets: list[Any]) -> None:
        self._watch.clear()
        self._watched.clear()
        self._leaves.clear()
        self._of_c = False
        walk, found = Walk(self._recorder.times_modules), []
        for dataset in datasets:
            found += [one for one in walk.of(dataset) if not makes_no_call(one)]
        self._add_transforms(found[:MOST])
        self._add_leaves()
        self._add_labels()
        self._left = PLANNED_FOR if self._modules else 0
        self._modules, self._datasets = len(sys.modules), [id(dataset) for dataset in datasets]

    def _add_transforms(self, found: list[Any]) -> None:
        """Watch for functions, and for the methods of classes that are called. Those that share a code are told apart
        by their arguments and variables; so are those of which others with the same code may be called as well."""
        shared: dict[int, list[Candidate]] = {}
        codes: dict[int, tuple[types.CodeType, bool]] = {}
        for one in found:
            method = _method(one)
            function = python_method(one, method) if method else one
            name, code = self._name(one, function), function.__code__
            shared.setdefault(id(code), []).append(Candidate(function, one if method else None, name))
            told_apart = bool(function.__closure__) or (bool(method) and (is_module(one) or method not in vars(one)))
            codes[id(code)] = code, told_apart or codes.get(id(code), (code, False))[1]
            self._watched.append((weakref.ref(one), method, id(code)))
        for number, (code, told_apart) in codes.items():
            names = {one.name for one in shared[number]}
            name = 0 if told_apart or len(names) > 1 else names.pop()
            asks = SIZED - self._recorder.measured_sizes.get(name, 0) if name else _EACH
            self._watch.add(code, _TIMED, TRANSFORM, name, asks, 0)
        self._arguments.candidates = shared

    def _add_leaves(self) -> None:
        for stage, module, kind, name in LEAVES:
            owner = sys.modules.get(module)
            if owner is not None and kind:
                owner = getattr(owner, kind, None)
            function = _runs(getattr(owner, name, None))
            if function is not None:
                self._leaves.append((".".join(filter(None, (module, kind, name))), facts.function_place(function)))
                key = getattr(function, "__code__", function)
                self._of_c |= key is function and stage == DECODE
                asks = _EACH if stage == READ and key is not function else 0  # of C it tells no arguments
                self._watch.add(key, _TIMED, stage, -len(self._leaves), asks, SHORT_NS)

    def _add_labels(self) -> None:
        """`with record_function("…"):` around something."""
        kind = getattr(sys.modules.get("torch.autograd.profiler"), "record_function", None)
        for name, what in (("__enter__", _ENTERS), ("__exit__", _LEAVES)):
            function = kind and python_method(kind, name)
            if function is not None:
                self._watch.add(function.__code__, what, LABEL, 0, 0, 0)

    def _name(self, thing: Any, function: Any) -> int:
        name, place = facts.name_of(thing), facts.function_place(function)
        return self._recorder.spans.name((name, place), name, *place)


def _named(rows: list[Any], leaves: list[tuple[str, Any]], recorder: BatchRecorder) -> list[Any]:
    """The spans of a watch, with the names of readers and decoders, which are told when they are called first."""

    def number(leaf: int) -> int:
        words, place = leaves[-leaf - 1]
        return recorder.spans.name((words, place), words, *place)

    return [row if row[5] > 0 else (*row[:5], number(row[5]), row[6]) for row in rows]


def _method(thing: Any) -> str:
    """The method that is watched in a class; nothing: it is a function."""
    if not isinstance(thing, type):
        return ""
    return "forward" if is_module(thing) and python_method(thing, "forward") else "__call__"


def _code(owner: Any, method: str) -> types.CodeType | None:
    function = python_method(owner, method) if method and owner is not None else owner
    return getattr(function, "__code__", None)


def _runs(function: Any) -> Any:
    """The function of Python or of C that is called for another one; None where that is neither."""
    while function is not None and not isinstance(function, (types.FunctionType, types.BuiltinFunctionType)):
        function = getattr(function, "__wrapped__", None)
    return function
