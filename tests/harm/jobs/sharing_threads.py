"""Threads that load at the same time with one class and one function, looked at by another thread meanwhile and after.

The main thread trains; each of its epochs is read by a new thread, which ends with it.
"""

import inspect
import json
import pickle
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset


class Negated:
    def __call__(self, sample: torch.Tensor) -> torch.Tensor:
        return -sample


def kept(sample: torch.Tensor) -> torch.Tensor:
    return sample


class Numbers(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.negated, self.kept = Negated(), kept

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> torch.Tensor:
        with torch.profiler.record_function("sample"):
            return self.kept(self.negated(torch.full((4,), float(index))))


def look() -> list[Any]:
    label = torch.autograd.profiler.record_function
    own = (Negated.__call__, kept, json.load, label.__enter__, label.__exit__)
    seen: list[Any] = [(id(one), id(one.__code__), str(inspect.signature(one)), dict(vars(one))) for one in own]
    return [*seen, id(pickle.load), sorted(vars(Negated)), sorted(vars(label)), sys.getprofile()]


def in_new_thread(loader: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    ready: queue.Queue[Any] = queue.Queue(2)

    def read() -> None:
        try:
            for batch in loader:
                ready.put(batch)
            ready.put(None)
        except BaseException as error:
            ready.put(error)

    thread = threading.Thread(target=read)
    thread.start()
    while (item := ready.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item
    thread.join()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    before, ended, differences = look(), threading.Event(), 0

    def load() -> None:
        while not ended.is_set():
            for _ in DataLoader(Numbers(), 4):
                pass

    def watch() -> None:
        nonlocal differences
        while not ended.wait(0.002):
            differences += look() != before

    others = [threading.Thread(target=load), threading.Thread(target=load), threading.Thread(target=watch)]
    for thread in others:
        thread.start()
    for _ in range(12):
        for batch in in_new_thread(DataLoader(Numbers(), 4)):
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
    ended.set()
    for thread in others:
        thread.join()
    print(differences, look() == before, model.weight.tolist())


if __name__ == "__main__":
    main()
