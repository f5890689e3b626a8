"""The rounds of a trial: as ever, batches in a row, batches that lie ready; what training gets and what is written."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from stepscope.collect import calibration
from stepscope.collect.calibration import FED, ROUNDS, TAKEN, USUAL, Calibration, _made_here, next_hook

MS = 1_000_000
BATCH = 50 * MS  # to make one
STEP, COLD_CACHE_SLOWDOWN = 20 * MS, 5 * MS  # training, and what it takes longer after a wait


class Clock:
    """Wall and CPU time as the loader and training say."""

    def __init__(self) -> None:
        self.now = self.cpu = 1

    def pass_(self, wall: int, cpu: int = 0) -> None:
        self.now, self.cpu = self.now + wall, self.cpu + cpu


class Use:
    def __init__(self, train: bool) -> None:
        self.train = train


class Batches:
    """The iterator of a loader without workers: `count` batches, each made when it is asked for."""

    def __init__(self, clock: Clock, count: int) -> None:
        self.clock, self.left, self.made = clock, count, 0
        self._stepscope_use = Use(True)

    def make(self) -> dict[str, Any]:
        if not self.left:
            raise StopIteration
        self.left, self.made = self.left - 1, self.made + 1
        self.clock.pass_(BATCH, BATCH)
        return {"number": self.made, "pixels": torch.zeros(4), "names": ["a"]}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(calibration, "_now", lambda: clock.now)
    monkeypatch.setattr(calibration, "_cpu", lambda: clock.cpu)
    return clock


def train(clock: Clock, iterator: Batches, learnt: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The batches that training gets; each step is measured by the clock."""
    step = next_hook(Calibration(learnt.append), Batches.make)
    while True:
        before = clock.now
        try:
            batch = step(iterator)
        except StopIteration:
            return
        waited = clock.now > before
        yield batch
        clock.pass_(STEP + COLD_CACHE_SLOWDOWN * waited, STEP + COLD_CACHE_SLOWDOWN * waited)


def test_rounds(clock: Clock) -> None:
    learnt: list[dict[str, Any]] = []
    iterator = Batches(clock, 10_000)
    for batch in train(clock, iterator, learnt):
        batch["names"].clear()  # takes its batch to pieces
        del batch["number"]
        if learnt and learnt[-1]["over"]:
            break
    assert [(len(fact["rounds"]), fact["over"]) for fact in learnt] == [
        *((number, False) for number in range(1, ROUNDS + 1)),
        (ROUNDS, True),
    ]
    for one in learnt[-1]["rounds"]:
        assert one["usual"] == [(BATCH, STEP + COLD_CACHE_SLOWDOWN, STEP + COLD_CACHE_SLOWDOWN)] * USUAL
        assert one["taken"] == [BATCH] * TAKEN
        assert one["fed"] == [(0, STEP, STEP)] * FED
        assert one["fed_ns"] == FED * STEP
        assert one["bytes"] == 16
    assert not learnt[-1]["device"]


def test_only_the_first_loader_that_trains_is_meant(clock: Clock) -> None:
    trial = Calibration(lambda row: None)
    first, second = Use(True), Use(True)
    assert [trial.concerns(use) for use in (None, Use(False), first, second, first)] == [
        False, False, True, False, True,
    ]  # fmt: skip
    step = next_hook(trial, Batches.make)
    validation = Batches(clock, 100)
    validation._stepscope_use = Use(False)
    for _ in range(60):
        assert "number" in step(validation)
    assert validation.made == 60


def test_an_epoch_that_ends_while_batches_are_taken_ends_after_the_round(clock: Clock) -> None:
    learnt: list[dict[str, Any]] = []
    short = Batches(clock, 23)
    assert len(list(train(clock, short, learnt))) > 23
    (fact,) = learnt
    assert len(fact["rounds"][0]["taken"]) == 3
    assert len(fact["rounds"][0]["fed"]) == FED


def test_batches_of_any_kind() -> None:
    tensor = torch.zeros(10)
    kept = {"x": tensor, "more": [tensor, (tensor, "text")]}
    given = calibration._unpacked(kept)
    assert given is not kept
    assert given["more"] is not kept["more"]
    assert given["more"][1][0] is tensor
    assert calibration._bytes(kept) == 3 * 40
    strange = object()
    assert calibration._unpacked(strange) is not None


class Numbers(Dataset[int]):
    """Ten numbers; with `only_there` they can be made in a worker only."""

    def __init__(self, *, only_there: bool = False) -> None:
        self.only_there = only_there

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        if self.only_there and get_worker_info() is None:
            raise RuntimeError("no worker")
        return index


class Stream(IterableDataset[int]):
    """Ten numbers, one after the other."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


@pytest.mark.parametrize(
    ("data", "workers", "threads", "batches"),
    [
        (Numbers(), 1, 2, 4),
        (Numbers(), 0, 2, 0),  # it makes them anyway
        (Numbers(), 1, 1, 0),  # as many as a worker has
        (Numbers(only_there=True), 1, 2, 0),
        (Stream(), 1, 2, 0),
    ],
)
def test_batches_that_the_training_process_makes(data: Any, workers: int, threads: int, batches: int) -> None:
    """Of five; the first is not timed. Training gets all of its own all the same."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        iterator = iter(DataLoader(data, batch_size=2, num_workers=workers))
        assert len(_made_here(iterator)) == batches
        assert sum(len(batch) for batch in iterator) == 10
    finally:
        torch.set_num_threads(before)
