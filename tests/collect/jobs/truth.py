"""Training that measures itself. Usage: truth.py FOLDER MODE[=ARGUMENT] …; it knows nothing of stepscope.

Each mode is trained in a forked child, one after the other; its rank is the number of the mode. It writes FOLDER/RANK:
{"duration", "data_wait"} (seconds, from the end of step 2 to that of the last), "steps", "samples".
"""

# mypy: disable-error-code="no-untyped-call,no-any-return,attr-defined"

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

BATCH = 4
WARM_UP = 3  # steps left out of the measured span


class Sleeping(Dataset[torch.Tensor]):
    def __init__(self, seconds: float, length: int) -> None:
        self.seconds, self.length = seconds / BATCH, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.ones(8)


class Streaming(IterableDataset[torch.Tensor]):
    def __init__(self, seconds: float, length: int) -> None:
        self.seconds, self.length = seconds / BATCH, length

    def __iter__(self) -> Iterator[torch.Tensor]:
        assert get_worker_info() is None
        for _ in range(self.length):
            time.sleep(self.seconds)
            yield torch.ones(8)


class Truth:
    """The script's own count."""

    def __init__(self) -> None:
        self.steps = self.samples = 0
        self.data_wait = self.begin = self.end = 0.0

    def fetch(self, batches: Iterator[torch.Tensor]) -> torch.Tensor:
        begin = time.perf_counter()
        batch = next(batches)
        if self.steps >= WARM_UP:
            self.data_wait += time.perf_counter() - begin
            self.samples += len(batch)
        return batch

    def stepped(self) -> None:
        self.steps += 1
        self.end = time.perf_counter()
        if self.steps == WARM_UP:
            self.begin = self.end


class Training:
    def __init__(self, compute: float) -> None:
        torch.set_num_threads(1)
        self.compute, self.truth = compute, Truth()
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(self.compute)
        return self.model(batch).pow(2).mean()

    def step(self) -> None:
        self.optimizer.step()
        self.truth.stepped()
        self.optimizer.zero_grad()

    def plain(self, loader: DataLoader[torch.Tensor], accumulate: int = 1, length: int | None = None) -> None:
        batches = iter(loader)
        for number in range(1, (length or len(loader)) + 1):
            self.loss(self.truth.fetch(batches)).backward()
            if number % accumulate == 0:
                self.step()

    def lightning_style(self, loader: DataLoader[torch.Tensor]) -> None:
        """Forward and backward in a closure, one batch fetched ahead."""
        batches = iter(loader)
        batch = self.truth.fetch(batches)
        for number in range(len(loader)):
            ahead = self.truth.fetch(batches) if number + 1 < len(loader) else batch
            self.optimizer.step(lambda batch=batch: self._closure(batch))
            self.truth.stepped()
            batch = ahead

    def _closure(self, batch: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        return loss

    def validated(self, loader: DataLoader[torch.Tensor], validation: DataLoader[torch.Tensor]) -> None:
        for _ in range(3):
            self.plain(loader)
            with torch.no_grad():
                for batch in validation:
                    self.model(batch)


def share(argument: str) -> None:
    """data wait a given share of a step of 30 ms"""
    wanted = float(argument)
    training = Training(0.030 * (1 - wanted))
    training.plain(DataLoader(Sleeping(0.030 * wanted, 40 * BATCH), BATCH))
    write(training.truth)


def accumulation(argument: str) -> None:
    training = Training(0.002)
    training.plain(DataLoader(Sleeping(0.004, 80 * BATCH), BATCH), accumulate=int(argument))
    write(training.truth)


def closure(argument: str) -> None:
    training = Training(0.004)
    training.lightning_style(DataLoader(Sleeping(0.004, 40 * BATCH), BATCH))
    write(training.truth)


def iterable(argument: str) -> None:
    training = Training(0.004)
    training.plain(DataLoader(Streaming(0.004, 40 * BATCH), BATCH), length=40)
    write(training.truth)


def workers(argument: str) -> None:
    training = Training(0.002)
    loader = DataLoader(Sleeping(0.012, 60 * BATCH), BATCH, num_workers=int(argument))
    training.plain(loader)
    write(training.truth)


def validation(argument: str) -> None:
    training = Training(0.002)
    loaders = [DataLoader(Sleeping(0.004, length * BATCH), BATCH) for length in (20, 10)]
    training.validated(loaders[0], loaders[1])
    write(training.truth)


def write(truth: Truth) -> None:
    row = {
        "duration": truth.end - truth.begin,
        "data_wait": truth.data_wait,
        "steps": truth.steps,
        "samples": truth.samples,
    }
    Path(sys.argv[1], os.environ["RANK"]).write_text(json.dumps(row), encoding="utf-8")


MODES: dict[str, Callable[[str], None]] = {
    each.__name__: each for each in (share, accumulation, closure, iterable, workers, validation)
}


def main() -> None:
    Training(0).optimizer.zero_grad()  # imports what the children would import each
    for rank, words in enumerate(sys.argv[2:]):
        mode, _, argument = words.partition("=")
        child = os.fork()
        if child == 0:
            os.environ["RANK"] = str(rank)
            MODES[mode](argument)
            return
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{words} failed")


if __name__ == "__main__":
    main()
