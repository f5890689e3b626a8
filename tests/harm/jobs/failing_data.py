"""Loaders that fail: the words and frames of each failure, and a warning in each place, as Python shows them.

Argument: the number of workers. All failures are printed to stdout, with their causes, and without process ids.
"""

import gc
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

warnings.simplefilter("always")


def broken_transform(sample: torch.Tensor) -> torch.Tensor:
    warnings.warn("of a transform", stacklevel=2)
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise ValueError("outer") from error


def broken_collate(samples: list[torch.Tensor]) -> torch.Tensor:
    warnings.warn("of a collation", stacklevel=2)
    raise ValueError("broken collate")


class Samples(Dataset[torch.Tensor]):
    def __init__(self, transform: Any = None) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        warnings.warn("of a sample", stacklevel=2)
        sample = torch.ones(2)
        if index == 9 and self.transform is not None:
            sample = self.transform(sample)
        elif index == 9:
            raise KeyError(index)
        return sample


class Many(Samples):
    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self[index] for index in indices]


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        yield torch.ones(2)
        raise ValueError("broken stream", get_worker_info() is None)


LOADERS: dict[str, dict[str, Any]] = {
    "sample": {"dataset": Samples()},
    "transform": {"dataset": Samples(broken_transform)},
    "collate": {"dataset": Samples(broken_transform), "collate_fn": broken_collate},
    "many": {"dataset": Many()},
    "stream": {"dataset": Stream()},
}


def main() -> None:
    torch.set_num_threads(1)
    for name, options in LOADERS.items():
        loader = DataLoader(**options, batch_size=4, num_workers=int(sys.argv[1]))
        iterator = iter(loader)
        try:
            for _ in range(4):
                iterator._next_data()
        except (KeyError, ValueError):
            print(name, re.sub(r"\(pid \d+\)", "", traceback.format_exc()))
        if isinstance(iterator, _MultiProcessingDataLoaderIter):
            iterator._shutdown_workers()  # which a collection does not, but waits for 5 s
        del iterator
        gc.collect()  # a worker that is forked with it would end it, and complain


if __name__ == "__main__":
    main()
