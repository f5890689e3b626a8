"""Which process and thread of a viewer each span is drawn in; spans that overlap without nesting get a further one."""

from collections.abc import Iterator, Set
from typing import Any

import polars as pl

__all__ = ["Lanes"]

_FIRST_TID = 2_000_000_001  # far above the thread ids of any system
_FEEDER = ("serialize", "send")
_STEPS, _LOOP = "stepscope: training steps", "fetch loop"


class Lanes:
    """Numbers of processes and threads. A worker whose id is one of `taken` gets `free` or one after it.

    A worker's main thread has the number of its process, as the system gives it; other numbers are made up.
    """

    def __init__(self, taken: Set[str], free: int, loaders: pl.DataFrame) -> None:
        self._taken, self._free = taken, free
        self._loaders: dict[int, str] = dict(loaders.select("loader", "dataset").iter_rows())
        self._numbers: dict[str, int] = {}
        self._names: dict[int, dict[str, None]] = {}
        self._workers: set[int] = set()
        self._open: dict[tuple[int, str], list[tuple[int, list[int]]]] = {}

    def placed(self, spans: pl.DataFrame) -> list[tuple[int, int]]:
        """Process and thread of each span; they are in the order of their starts, the longer before the shorter."""
        pinned = set(spans.filter(pl.col("stage") == "pin").select("pid", "iterator").iter_rows())
        columns = ("pid", "worker", "loader", "iterator", "stage", "start", "end", "rank")
        return [self._place(row, pinned) for row in spans.select(columns).iter_rows(named=True)]

    def steps(self, steps: pl.DataFrame) -> list[tuple[int, int]]:
        """Process and thread of each step."""
        return [
            self._lane(self._process(row["pid"], f"rank {row['rank']}"), _STEPS, row["start"], row["end"])
            for row in steps.select("pid", "rank", "start", "end").iter_rows(named=True)
        ]

    def processes(self) -> Iterator[tuple[int, str, bool]]:
        """Number and name of each process, and whether it is a worker."""
        for number, names in self._names.items():
            yield number, "; ".join(names), number in self._workers

    def threads(self) -> Iterator[tuple[int, int, str]]:
        """Process, number and name of each thread."""
        for (process, label), lanes in self._open.items():
            for place, (number, _) in enumerate(lanes):
                yield process, number, label if not place else f"{label} ({place + 1})"

    def _place(self, row: dict[str, Any], pinned: set[tuple[Any, ...]]) -> tuple[int, int]:
        loader, stage, worker = self._loader(row["loader"]), row["stage"], row["worker"]
        if worker is None:
            process = self._process(row["pid"], f"rank {row['rank']}")
            pins = stage == "pin" or (stage == "receive" and (row["pid"], row["iterator"]) in pinned)
            label = f"stepscope: {loader}{', pin-memory thread' if pins else ''}"
        elif row["iterator"] is None:
            process, label = self._process(row["pid"], ""), "loaders inside the worker"
        else:
            process = self._process(row["pid"], f"DataLoader worker {worker} of {loader}")
            self._workers.add(process)
            label = "feeder thread" if stage in _FEEDER else _LOOP
        return self._lane(process, label, row["start"], row["end"])

    def _loader(self, number: int | None) -> str:
        dataset = self._loaders.get(number) if number is not None else None
        if number is None:
            return "a loader"
        return f"loader {number}" + (f" ({dataset.rpartition('.')[2]})" if dataset else "")

    def _process(self, pid: str, name: str) -> int:
        if pid not in self._numbers:
            known = pid.isdigit() and pid not in self._taken
            self._numbers[pid] = int(pid) if known else self._free
            self._free += not known
        number = self._numbers[pid]
        if name:
            self._names.setdefault(number, {})[name if str(number) == pid else f"{name}, process {pid}"] = None
        return number

    def _lane(self, process: int, label: str, start: int, end: int) -> tuple[int, int]:
        lanes = self._open.setdefault((process, label), [])
        for number, ends in lanes:
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return process, number
        number = process if label == _LOOP and not lanes else self._next(process)
        lanes.append((number, [end]))
        return process, number

    def _next(self, process: int) -> int:
        return _FIRST_TID + sum(len(lanes) for (owner, _), lanes in self._open.items() if owner == process)
