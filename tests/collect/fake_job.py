"""A training script whose every event takes as long as the test says, under the real step clock and its hooks."""

import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import pytest

from stepscope.collect.step_clock.clock import LoaderUse
from stepscope.run_format.records import STEP

FIELDS = ("step", "start", "end", "data_wait", "forward", "backward", "optimizer", "evaluation_wait", "gc", "samples")
PARTS = ("data_wait", "forward", "backward", "optimizer")
KINDS = ("compiled", "python")
MODULES = ("step_clock.clock", "fields", "hooks", "step_clock.training_loader", "samples")  # of Probe
UNDER_THE_CLOCK = ("pieces", "state", "training_thread", "turns")  # modules that know the kind from `fields`


class Probe(NamedTuple):
    """The modules of the probe with one kind of hooks."""

    clock: Any
    fields: Any
    hooks: Any
    training_loader: Any
    samples: Any


@functools.cache
def probe(kind: str) -> Probe:
    """A copy of the probe's modules with hooks of this kind. Skips the test where the compiled ones were not built."""
    under = (f"step_clock.{name}" for name in UNDER_THE_CLOCK)
    names = [f"stepscope.collect.{name}" for name in (*MODULES, *under)]
    loaded = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    try:
        with mock.patch.dict(os.environ, {"STEPSCOPE_HOOKS": kind}):
            made = Probe(*[importlib.import_module(name) for name in names][: len(Probe._fields)])
    finally:
        sys.modules.update(loaded)
        for name in names:
            package, _, module = name.rpartition(".")
            setattr(sys.modules[package], module, sys.modules[name])
    if made.fields.kind() != kind:
        pytest.skip("the compiled hooks were not built: pip install -e . with a C compiler builds them")
    return made


class Source:
    """A loader and its iterator in one."""

    def __init__(self, use: LoaderUse) -> None:
        self._stepscope_use = use


class Optimizer:
    """Something that can be told apart and referred to weakly."""


class Job:
    """A training script in which every event takes as long as the test says."""

    def __init__(self, kind: str = "python") -> None:
        self.time, self.thread, self.grad = 1000, 7, True
        self.rows: list[dict[str, int]] = []
        self.records: list[bytes] = []
        self.notes: list[str] = []
        self.phases: list[int] = []  # while an original function runs
        self.trained: list[int] = []
        self.outer_loops: list[tuple[tuple[int, int], int]] = []
        self.probe = probe(kind)
        clock, hooks = self.probe.clock, self.probe.hooks
        self.emit: Callable[[bytes], Any] = self._emit
        self.boundary: Callable[[int], int] | None = None
        self.edge: Callable[[], int | None] | None = None
        self.state = clock.State()
        self.clock = clock.StepClock(self.state, lambda: self.time, lambda: self.thread, lambda: self.grad, self)
        self._next = hooks.next_hook(self.clock, self._act)
        self._iter = hooks.iter_hook(self.clock, self._act, lambda source: source._stepscope_use, unmarkable)
        self._backward = hooks.backward_hook(self.clock, self._act)
        self._step = hooks.optimizer_hook(self.clock, self._act, self._act)
        self._todo: list[Callable[[], Any]] = []

    def replace(self, **called: Any) -> None:
        """Have the clock call something else: `emit`, `boundary` or `edge`."""
        vars(self).update(called)
        self.clock.connect()

    def identify(self, iterator: object) -> Any:
        raise LookupError("every iterator is marked")

    def met_optimizer(self, optimizer: object) -> None:
        """All are known."""

    def found_training(self, use: LoaderUse) -> None:
        self.trained.append(use.id)

    def found_outer_loop(self, before: tuple[int, int], step: int) -> None:
        self.outer_loops.append((before, step))

    def clock_failed(self, what: str, error: BaseException) -> None:
        self.notes.append(f"{what}: {error}")

    def _emit(self, record: bytes) -> None:
        self.records.append(record)
        values = STEP.struct.unpack(record)
        row = dict(zip((*FIELDS, "micro_batches", "flags"), values, strict=True))
        row["other"] = row["end"] - row["start"] - sum(max(0, row[part]) for part in PARTS)
        self.rows.append(row)

    def _act(self, subject: object) -> object:
        self.phases.append(self.state.phase)
        self._todo.pop()()
        return subject

    def spend(self, ns: int) -> None:
        self.time += ns

    def _do(self, hook: Callable[[Any], Any], subject: object, ns: int, inside: Callable[[], Any] | None) -> None:
        def work() -> None:
            self.spend(ns)
            if inside is not None:
                inside()

        self._todo.append(work)
        assert hook(subject) is subject

    def loader(self, samples: int = 8) -> Source:
        return Source(self.probe.training_loader.LoaderUse(len(self.trained) + 1, lambda batch: samples))

    def fetch(self, source: Source, ns: int = 0, inside: Callable[[], Any] | None = None) -> None:
        self._do(self._next, source, ns, inside)

    def exhaust(self, source: Source, ns: int = 0) -> None:
        with pytest.raises(StopIteration):
            self.fetch(source, ns, stop)

    def iterate(self, source: Source, ns: int = 0) -> None:
        self._do(self._iter, source, ns, None)

    def backward(self, ns: int = 0, inside: Callable[[], Any] | None = None) -> None:
        self._do(self._backward, None, ns, inside)

    def optimize(self, optimizer: Optimizer, ns: int = 0, inside: Callable[[], Any] | None = None) -> None:
        self._do(self._step, optimizer, ns, inside)

    def train(self, source: Source, optimizer: Optimizer) -> None:
        """fetch 10, forward 20, backward 30, optimizer 4, and 1 of everything else."""
        self.spend(1)
        self.fetch(source, 10)
        self.spend(20)
        self.backward(30)
        self.optimize(optimizer, 4)

    def row(self, **expected: int) -> None:
        """The last record holds these values."""
        last = self.rows[-1]
        assert {name: last[name] for name in expected} == expected


class Script:
    """A job with two loaders and two optimizers that does what a list of (event, number) says."""

    EVENTS = (
        "fetch", "second", "iterate", "exhaust", "backward", "leader", "other", "fail", "grad", "spend", "train", "end",
        "plain", "closure", "around",
    )  # fmt: skip

    def __init__(self, kind: str) -> None:
        self.job, self.leader, self.other = Job(kind), Optimizer(), Optimizer()
        self.first, self.second = self.job.loader(), self.job.loader(3)

    def do(self, event: str, ns: int) -> None:
        """May raise the ValueError of `fail`."""
        job, leader = self.job, self.leader
        acts: dict[str, Callable[[], Any]] = {
            "fetch": lambda: job.fetch(self.first, ns, lambda: job.backward(ns) if ns % 3 else None),
            "second": lambda: job.fetch(self.second, ns, fail if ns % 7 == 0 else None),
            "iterate": lambda: job.iterate(self.first, ns),
            "exhaust": lambda: job.exhaust(self.second, ns),
            "backward": lambda: job.backward(ns, lambda: job.optimize(leader, ns) if ns % 3 else None),
            "leader": lambda: job.optimize(leader, ns, lambda: job.backward(ns) if ns % 2 else None),
            "other": lambda: job.optimize(self.other, ns, lambda: job.fetch(self.second, ns) if ns % 2 else None),
            "fail": lambda: (job.backward if ns % 2 else functools.partial(job.optimize, leader))(ns, fail),
            "grad": lambda: setattr(job, "grad", bool(ns % 2)),
            "spend": lambda: job.spend(ns),
            "train": lambda: job.train(self.first, leader),
            "end": lambda: job.exhaust(self.first, ns),
            "plain": lambda: job.backward(ns),
            "closure": lambda: job.optimize(leader, ns, functools.partial(self._closure, ns)),
            "around": lambda: job.optimize(self.other, ns, lambda: job.optimize(leader, ns)),
        }
        acts[event]()

    def _closure(self, ns: int) -> None:
        self.job.fetch(self.first, ns)
        self.job.backward(ns)


def stop() -> None:
    raise StopIteration


def unmarkable(loader: object, use: object) -> None:
    raise AssertionError(loader)


def fail() -> None:
    raise ValueError("the user's own")
