"""Data sets that look at their transforms: for arguments, code, a scripted version, a copy, a cached one, as bytes.

Each prints what it loaded, so that a difference shows. Argument: the number of workers.
"""

import copy
import functools
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset


def shifted(sample: torch.Tensor, index: int) -> torch.Tensor:
    return sample + index


def doubled(sample: torch.Tensor) -> torch.Tensor:
    return sample * 2


@functools.cache
def cached(index: int) -> torch.Tensor:
    return torch.full((2,), float(index))


def repeated(times: int) -> Callable[[Callable[..., torch.Tensor]], Callable[..., torch.Tensor]]:
    def around(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        @functools.wraps(function)
        def call(sample: torch.Tensor) -> torch.Tensor:
            for _ in range(times):
                sample = function(sample)
            return sample

        return call

    return around


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, sample: torch.Tensor) -> torch.Tensor:
        return sample * self.by


def by_signature(data: "Looking", sample: torch.Tensor, index: int) -> torch.Tensor:
    return data.shifted(sample, index) if "index" in inspect.signature(data.shifted).parameters else sample


def by_code(data: "Looking", sample: torch.Tensor, index: int) -> torch.Tensor:
    code = data.shifted.__code__
    return data.shifted(sample, index) if (code.co_argcount, code.co_name) == (2, "shifted") else sample


def by_scripting(data: "Looking", sample: torch.Tensor, index: int) -> torch.Tensor:
    if data.quick is None:
        data.quick = torch.jit.script(data.doubled)
    scripted: torch.Tensor = data.quick(sample + index)
    return scripted


def by_copies(data: "Looking", sample: torch.Tensor, index: int) -> torch.Tensor:
    copied = copy.deepcopy(data)
    again = pickle.loads(pickle.dumps((data.scale, data.shifted)))
    loaded: torch.Tensor = again[1](again[0](copied.scale(sample + index)), index)
    return loaded


def by_cache(data: "Looking", sample: torch.Tensor, index: int) -> torch.Tensor:
    return data.twice(data.thrice(data.cached(index) + sample))


class Looking(Dataset[torch.Tensor]):
    def __init__(self, way: Callable[..., torch.Tensor]) -> None:
        self.way = way
        self.quick: Any = None
        self.shifted, self.doubled, self.cached, self.scale = shifted, doubled, cached, Scale(3)
        self.twice, self.thrice = repeated(2)(doubled), repeated(3)(doubled)

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        assert sys.getprofile() is None
        return self.way(self, torch.ones(2), index)


def batches(workers: int) -> Iterator[tuple[str, torch.Tensor]]:
    for way in (by_signature, by_code, by_scripting, by_copies, by_cache):
        for batch in DataLoader(Looking(way), 4, num_workers=workers):
            yield way.__name__, batch


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-5)
    total: dict[str, float] = {}
    for name, batch in batches(int(sys.argv[1])):
        total[name] = total.get(name, 0.0) + batch.sum().item()
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
    print(total, model.weight.tolist())
