"""A training script whose every event takes as long as the test says, under the real step clock and its hooks."""

from collections.abc import Callable
from typing import Any

import pytest

from stepscope.collect.clock import RECORD, LoaderUse, State, StepClock
from stepscope.collect.hooks import backward_hook, iter_hook, next_hook, optimizer_hook

FIELDS = ("step", "start", "end", "data_wait", "forward", "backward", "optimizer", "evaluation_wait", "gc", "samples")
PARTS = ("data_wait", "forward", "backward", "optimizer")


class Source:
    """A loader and its iterator in one."""

    def __init__(self, use: LoaderUse) -> None:
        self._stepscope_use = use


class Optimizer:
    """Something that can be told apart and referred to weakly."""


class Job:
    """A training script in which every event takes as long as the test says."""

    def __init__(self) -> None:
        self.time, self.thread, self.grad = 1000, 7, True
        self.rows: list[dict[str, int]] = []
        self.notes: list[str] = []
        self.trained: list[int] = []
        self.state = State()
        self.clock = StepClock(self.state, lambda: self.time, lambda: self.thread, lambda: self.grad, self._emit)
        self.clock.note = lambda what, why: self.notes.append(f"{what}: {why}")
        self.clock.found_training = lambda use: self.trained.append(use.id)
        self._next = next_hook(self.clock, self._act)
        self._iter = iter_hook(self.clock, self._act, lambda source: source._stepscope_use)
        self._backward = backward_hook(self.clock, self._act)
        self._step = optimizer_hook(self.clock, self._act, self._act)
        self._todo: list[Callable[[], Any]] = []

    def _emit(self, record: bytes) -> None:
        values = RECORD.unpack(record)
        row = dict(zip((*FIELDS, "micro_batches", "flags"), values, strict=True))
        row["other"] = row["end"] - row["start"] - sum(max(0, row[part]) for part in PARTS)
        self.rows.append(row)

    def _act(self, subject: object) -> object:
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
        hook(subject)

    def loader(self, samples: int = 8) -> Source:
        use = LoaderUse(len(self.trained) + 1, lambda batch: samples)
        return Source(use)

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


def stop() -> None:
    raise StopIteration


def fail() -> None:
    raise ValueError("the user's own")
