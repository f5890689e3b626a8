"""Each of three workers reads a part of the data of its own, and one of these is far away. `--fixed` has it near."""

import time
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from parts import Pictures, options, train

_NEAR, _FAR = 0.0005, 0.003  # seconds to read a picture


class Parts(IterableDataset[tuple[torch.Tensor, int]]):
    """Pictures in as many parts as there are workers; the first may be slow to come."""

    def __init__(self, count: int, *, far: bool) -> None:
        self.pictures, self.far = Pictures(count), far

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        worker = get_worker_info()
        number, of = (worker.id, worker.num_workers) if worker else (0, 1)
        for index in range(number, len(self.pictures), of):
            time.sleep(_FAR if self.far and number == 0 else _NEAR)  # planted
            yield self.pictures[index]


def main() -> None:
    chosen = options(__doc__, steps=300)
    pictures = Parts(chosen.steps * 32, far=not chosen.fixed)
    train(DataLoader(pictures, batch_size=32, num_workers=3 if chosen.workers is None else chosen.workers), width=4)


if __name__ == "__main__":
    main()
