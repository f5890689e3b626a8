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
TIMES = ("first", "third", "from the second on", "always")

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
JUMPS = {"an hour back": -3_600_000_000_000, "a day on": 86_400_000_000_000, "one unit back": -1}
GUARDS = {
    f"stepscope.collect.step_clock.clock.StepClock.{name}"
    for name in ("begin_fetch", "fail", "enter_backward", "enter_step", "fetched", "not_fetched", "started",
                 "leave_backward", "leave_step")
}  # fmt: skip
GUARDS |= {
    f"stepscope.collect.step_clock.training_thread.TrainingThread.{name}"
    for name in ("admits_backward", "admits_step", "helper_begins", "helper_ended", "in_training_thread", "timed_early")
}
GUARDS |= {
    f"stepscope.collect.dataloader.{name}"
    for name in ("fetching._begin", "fetching._end", "fetching._uncounted", "lane.Lane.passed", "receiving._asks",
                 "receiving._has_waited", "receiving._sent", "receiving.Receiver.give_up", "receiving._timed_put",
                 "worker._Working._asks", "worker._Working._was_given", "worker._end", "worker.Feeder._announced",
                 "worker.Feeder._dumped", "worker.Feeder.expect", "process.Loading.fail", "process.Loading.lane",
                 "process.Loading.sample_lines")
}  # fmt: skip
GUARDS |= {f"stepscope.collect.warning_frames.{name}" for name in ("without_our_frames", "_others")}
GUARDS |= {f"stepscope.collect.line_sampler.lines.Sampler.{name}" for name in ("_run",)}
GUARDS |= {f"stepscope.collect.notes.{name}" for name in ("leave_note", "Notes.note")}
"""What catches the errors of all that it calls, and is a few comparisons besides: nothing can catch its own."""

HOOKS = "stepscope.collect.hooks."
"""Its functions make the job's own call: what they raise is the job's."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong in a job: `error` is a name of ERRORS or JUMPS, `times` of TIMES."""

    place: str
    error: str
    times: str


class Gates:
    """Lets every call of the recorder through, until one is to fail."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.calls = 0
        self.places: list[str] = []
        self.clocks: list[str] = []

    def due(self) -> bool:
        """Is it this call that fails?"""
        self.calls += 1
        assert self.fault is not None
        number = {"first": self.calls == 1, "third": self.calls == 3, "from the second on": self.calls > 1}
        return number.get(self.fault.times, True)

    def failing(self, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, which fails where it is called by the recorder and that is the fault."""
        self.places.append(place)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.fault is not None and self.fault.place == place and _called_by_us() and self.due():
                raise ERRORS[self.fault.error]()
            return function(*args, **kwargs)

        return _ours(call, function)

    def jumping(self, place: str, function: Callable[[], Any]) -> Callable[..., Any]:
        """`function`, a clock, that jumps for the recorder if that is the fault."""
        self.clocks.append(place)
        unit = 1 if place.endswith("_ns") else 1e-9

        def call() -> Any:
            now = function()
            if self.fault is not None and self.fault.place == place and _called_by_us() and self.due():
                return now + JUMPS[self.fault.error] * unit
            return now

        return _ours(call, function)


def _called_by_us() -> bool:
    caller = sys._getframe(1).f_back  # none where a thread begins
    return caller is not None and caller.f_code.co_filename.startswith(COLLECT)


def _ours(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The gate belongs to the recorder: its frames are none of the job's."""
    call.__code__ = call.__code__.replace(co_filename=COLLECT + "gate.py")  # type: ignore[attr-defined]
    return functools.wraps(function)(call)


def modules() -> Iterator[types.ModuleType]:
    """Every module of the recorder that runs in a job."""
    import stepscope.collect as package

    for found in pkgutil.walk_packages(package.__path__, "stepscope.collect."):
        if not found.name.endswith(("native_hooks", "launch")) and ".inject" not in found.name:
            yield importlib.import_module(found.name)


def install(gates: Gates, *, clocks: bool) -> None:
    """Put a gate before each function and method of the recorder, and before the calls of the system."""
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
        if isinstance(value, types.FunctionType) and f"{place}.{name}" not in GUARDS:
            setattr(owner, name, gates.failing(f"{place}.{name}", value))
