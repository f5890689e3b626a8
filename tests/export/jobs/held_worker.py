"""Trains on the batches of two workers. Usage: held_worker.py fork|spawn.

In step 6 the training process lets the worker that makes batch 7 go on, and waits until it is done: what `Held` does
happens inside of the annotation "held", whatever the machine is busy with.
"""

# mypy: disable-error-code="no-untyped-call"

import multiprocessing
import sys
import time
from multiprocessing.synchronize import Event

import torch
from torch.utils.data import DataLoader, Dataset

HELD_BATCH, PATIENCE = 7, 60.0


class Held:
    def __call__(self, sample: torch.Tensor) -> torch.Tensor:
        time.sleep(0.002)
        return sample + 1


class Rows(Dataset[torch.Tensor]):
    def __init__(self, go: Event, done: Event) -> None:
        self.go, self.done, self.transform = go, done, Held()

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == HELD_BATCH:
            self.go.wait(PATIENCE)
        sample = self.transform(torch.full((8,), float(index)))
        if index == HELD_BATCH:
            self.done.set()
        return sample


def train(method: str) -> None:
    context = multiprocessing.get_context(method)
    go, done = context.Event(), context.Event()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Rows(go, done), batch_size=1, num_workers=2, multiprocessing_context=method)
    for step, batch in enumerate(loader):
        if step == HELD_BATCH - 1:
            with torch.profiler.record_function("held"):
                go.set()
                done.wait(PATIENCE)
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    train(sys.argv[1])
