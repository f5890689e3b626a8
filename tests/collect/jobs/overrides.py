"""Trains on loaders of several kinds and prints, by name, what each gave. Usage: overrides.py NAME...

A line has the name, the loader's own settings at the end, and the batches in their order.
"""

# mypy: disable-error-code="no-untyped-call"

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

LENGTH, BATCH = 12, 2


class Rows(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index), float(torch.get_num_threads())])


class Twice(IterableDataset[torch.Tensor]):
    """Gives every sample in every worker."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(LENGTH):
            yield Rows()[index]


class Shared(IterableDataset[torch.Tensor]):
    """Shares its samples out."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from (Rows()[index] for index in mine())


def mine() -> range:
    info = get_worker_info()
    return range(LENGTH) if info is None else range(info.id, LENGTH, info.num_workers)


class Own(DataLoader[torch.Tensor]):
    """A subclass that begins to iterate in its constructor."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.iterator = super().__iter__()

    def __iter__(self) -> Any:
        yield from self.iterator


def start(worker: int) -> None:
    pass


def train(loader: DataLoader[Any]) -> list[int]:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = []
    for batch in loader:
        seen += [int(sample) for sample in batch[:, 0]]
        model(batch).pow(2).mean().backward()
        optimizer.step()
    return seen


def made(name: str) -> DataLoader[Any]:
    match name:
        case "map":
            return DataLoader(Rows(), BATCH, shuffle=True)
        case "own":
            return Own(Rows(), BATCH)
        case "twice":
            return DataLoader(Twice(), BATCH)
        case "shared":
            return DataLoader(Shared(), BATCH)
        case "patient":
            return DataLoader(Rows(), BATCH, num_workers=1, timeout=60)
        case "before":
            return DataLoader(Rows(), BATCH, num_workers=1, persistent_workers=True)
        case "started":
            return DataLoader(Rows(), BATCH, num_workers=1, worker_init_fn=start)
        case "lambda":
            return DataLoader(Rows(), BATCH, shuffle=True, collate_fn=lambda rows: torch.stack(rows))
        case _:
            return DataLoader(Rows(), BATCH)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        torch.manual_seed(1)
        loader = made(name)
        if name == "before":
            with torch.no_grad():
                list(loader)
        if name == "validation":
            with torch.no_grad():
                seen = [int(sample) for batch in loader for sample in batch[:, 0]]
        else:
            seen = train(loader)
        state = int(torch.get_rng_state().long().sum())
        print(
            name, f"{loader.num_workers},{loader.prefetch_factor},{loader.persistent_workers}", state, seen, flush=True
        )
