"""What can go wrong in the recorder, for chaos.py: a gate before each of its functions and each call of the system."""

import builtins
import errno
import functools
import importlib
import json
import mmap
import os
import pkgutil
import socket
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src" / "stepscope"
COLLECT = str(SOURCE / "collect") + os.sep
OURS = (COLLECT, str(SOURCE / "run_format") + os.sep)
"""Folders of what runs in a job."""

PACKAGE = "stepscope."
TIMES = {"first": 1, "third": 3, "from the second on": 2, "always": 1}
"""Which calls fail, and the least number of them in which that happens."""

CALLS: dict[str, tuple[object, tuple[str, ...]]] = {
    "os": (os, ("open", "write", "pwrite", "close", "fstat", "ftruncate", "makedirs", "mkdir", "listdir", "replace",
                "unlink", "statvfs", "posix_fallocate")),
    "mmap": (mmap, ("mmap",)),
    "json": (json, ("dumps", "loads")),
    "socket": (socket, ("gethostname",)),
    "builtins": (builtins, ("open",)),
    "sys": (sys, ("_current_frames",)),
}  # fmt: skip
CLOCKS = ("monotonic_ns", "time_ns", "thread_time_ns", "process_time_ns", "monotonic")
ERRORS: dict[str, Callable[[], BaseException]] = {
    "full disk": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "broken disk": lambda: OSError(errno.EIO, "Input/output error"),
    "closed file": lambda: OSError(errno.EBADF, "Bad file descriptor"),
    "no memory": MemoryError,
    "a mistake of ours": lambda: ValueError("chaos"),
    "a worse mistake": lambda: AttributeError("chaos"),
}
FILES = ("vanish", "are read-only", "are replaced")
"""What becomes of the files of the run."""

JUMPS = {"an hour back": -3_600_000_000_000, "a day on": 86_400_000_000_000, "one unit back": -1}
GUARDS = {
    f"stepscope.collect.step_clock.clock.StepClock.{name}"
    for name in ("begin_fetch", "fail", "enter_backward", "enter_step", "fetched", "not_fetched", "started",
                 "leave_backward", "leave_step", "_cut")
}  # fmt: skip
GUARDS |= {
    f"stepscope.collect.step_clock.training_thread.TrainingThread.{name}"
    for name in ("admits_backward", "admits_step", "helper_begins", "helper_ended", "in_training_thread", "timed_early")
}
GUARDS |= {
    f"stepscope.collect.dataloader.{name}"
    for name in ("batch_recorder.BatchRecorder.passed", "batch_recorder.BatchRecorder.sample", "fetching._begin",
                 "fetching._end", "fetching._uncounted", "main_process._asks", "main_process._has_waited",
                 "main_process._sent", "main_process._timed_put", "main_process.Receiver.give_up",
                 "process.Loading.fail", "process.Loading.recorder", "process.Loading.sample_lines",
                 "worker._Working._asks", "worker._Working._was_given", "worker._end",
                 "worker.Feeder._announced", "worker.Feeder._dumped", "worker.Feeder.expect")
}  # fmt: skip
GUARDS |= {f"stepscope.collect.warning_frames.{name}" for name in ("without_our_frames", "_others")}
GUARDS |= {f"stepscope.collect.{name}" for name in ("garbage.Collector._collection", "guards.own_errors",
                                                     "line_sampler.lines.Sampler._run")}  # fmt: skip
GUARDS |= {f"stepscope.collect.notes.{name}" for name in ("leave_note", "Notes.note")}
GUARDS |= {f"stepscope.collect.recorder.Recorder.{name}" for name in ("note",)}
"""What catches the errors of all that it calls, and is a few comparisons besides: nothing can catch its own."""

HOOKS = "stepscope.collect.hooks."
"""Its functions make the job's own call: what they raise is the job's."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong in a job: `error` is a name of ERRORS, JUMPS or FILES, `times` of TIMES."""

    place: str
    error: str
    times: str


class Gates:
    """Lets every call of the recorder through, until one is to fail.

    A job and its workers are forked: what they reach is told to the process that forked them in shared memory, a byte
    for each place, the first for whether the fault came.
    """

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.calls = 0
        self.places: list[str] = []
        self.clocks: list[str] = []
        self._numbers: dict[str, int] = {}
        self._seen = mmap.mmap(-1, mmap.PAGESIZE)
        self._surveys = False

    @property
    def came(self) -> bool:
        """Has the fault of the last job come?"""
        return bool(self._seen[0])

    def forget(self) -> None:
        """Another job begins."""
        self._seen[0] = 0

    def comes(self) -> None:
        """The fault comes."""
        self._seen[0] = 1

    def begin_survey(self) -> None:
        """From now on, until `end_survey`, remember which places jobs come to."""
        self._seen[:] = bytes(len(self._seen))
        self._surveys = True

    def end_survey(self) -> dict[str, int]:
        """The places that jobs came to, and how often: 255 is many times."""
        self._surveys = False
        return {place: self._seen[number] for place, number in self._numbers.items() if self._seen[number]}

    def _due(self, place: str) -> bool:
        """Is it this call, of this place, that fails?"""
        if self.fault is None:
            if self._surveys and _called_by_us():
                number = self._numbers[place]
                self._seen[number] = min(255, self._seen[number] + 1)
            return False
        if self.fault.place != place or not _called_by_us():
            return False
        self.calls += 1
        number = {"first": self.calls == 1, "third": self.calls == 3, "from the second on": self.calls > 1}
        due = number.get(self.fault.times, True)
        if due:
            self.comes()
        return due

    def _add(self, place: str, places: list[str]) -> None:
        places.append(place)
        self._numbers[place] = len(self._numbers) + 1
        assert len(self._numbers) < len(self._seen)

    def failing(self, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, which fails where it is called by the recorder and that is the fault."""
        self._add(place, self.places)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._due(place):
                raise ERRORS[self.fault.error]()  # type: ignore[union-attr]
            return function(*args, **kwargs)

        return _ours(call, function)

    def jumping(self, place: str, function: Callable[[], Any]) -> Callable[..., Any]:
        """`function`, a clock, that jumps for the recorder if that is the fault."""
        self._add(place, self.clocks)
        unit = 1 if place.endswith("_ns") else 1e-9

        def call() -> Any:
            now = function()
            return now + JUMPS[self.fault.error] * unit if self._due(place) else now  # type: ignore[union-attr]

        return _ours(call, function)


def _called_by_us() -> bool:
    gate = sys._getframe(2)
    caller = gate.f_back  # none where a thread begins
    return caller is not None and caller.f_code.co_filename.startswith(OURS)


def _ours(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The gate belongs to the recorder: its frames are none of the job's."""
    call.__code__ = call.__code__.replace(co_filename=COLLECT + "gate.py")  # type: ignore[attr-defined]
    return functools.wraps(function)(call)


def modules() -> Iterator[types.ModuleType]:
    """Every module of the recorder that runs in a job."""
    from stepscope import collect, run_format

    for package in (collect, run_format):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(("native_hooks", "launch")) and ".inject" not in found.name:
                yield importlib.import_module(found.name)


def unknown_guards() -> list[str]:
    """Names in GUARDS that are no function of the recorder."""
    known = set()
    for module in modules():
        for name, value in vars(module).items():
            own = isinstance(value, types.FunctionType | type) and value.__module__ == module.__name__
            known |= {f"{module.__name__}.{name}"} if own else set()
            known |= {f"{module.__name__}.{name}.{inner}" for inner in vars(value)} if own else set()
    return sorted(GUARDS - known)


def install(gates: Gates, *, clocks: bool) -> None:
    """Put a gate before each function and method of the recorder, and before the calls of the system."""
    if unknown_guards():
        raise LookupError(f"no such functions: {', '.join(unknown_guards())}")
    for name, (owner, functions) in CALLS.items():
        for function in functions:
            if hasattr(owner, function):
                setattr(owner, function, gates.failing(f"{name}.{function}", getattr(owner, function)))
    for clock in CLOCKS if clocks else ():
        setattr(time, clock, gates.jumping(f"time.{clock}", getattr(time, clock)))
    found = list(modules())
    replaced: dict[int, Callable[..., Any]] = {}
    for module in found:
        for name, value in list(vars(module).items()):
            place = f"{module.__name__}.{name}"
            if isinstance(value, type) and value.__module__ == module.__name__:
                _gate_methods(gates, value, place)
            elif isinstance(value, types.FunctionType) and _is_own(value, module, place):
                replaced[id(value)] = gates.failing(place, value)
    for module in found:
        for name, value in list(vars(module).items()):
            if id(value) in replaced:
                setattr(module, name, replaced[id(value)])


def _is_own(value: object, module: types.ModuleType, place: str) -> bool:
    return getattr(value, "__module__", "") == module.__name__ and not place.startswith(HOOKS) and place not in GUARDS


def _gate_methods(gates: Gates, owner: type, place: str) -> None:
    for name, value in list(vars(owner).items()):
        if f"{place}.{name}" in GUARDS:
            continue
        if isinstance(value, types.FunctionType):
            setattr(owner, name, gates.failing(f"{place}.{name}", value))
        elif isinstance(value, classmethod | staticmethod):
            setattr(owner, name, type(value)(gates.failing(f"{place}.{name}", value.__func__)))
