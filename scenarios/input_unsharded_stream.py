"""Workers of a data set that is iterated each give all of it. `--fixed` shares it out among them."""

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from parts import Pictures, options, train


class Stream(IterableDataset[tuple[torch.Tensor, int]]):
    """All pictures in turn, in every worker."""

    def __init__(self, count: int) -> None:
        self.pictures = Pictures(count)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        for index in range(len(self.pictures)):  # planted
            yield self.pictures[index]  # planted


class Shared(Stream):
    """Of the pictures those that are this worker's."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        worker = get_worker_info()
        number, of = (worker.id, worker.num_workers) if worker else (0, 1)
        for index in range(number, len(self.pictures), of):
            yield self.pictures[index]


def main() -> None:
    chosen = options(__doc__)
    pictures = (Shared if chosen.fixed else Stream)(chosen.steps * 32)
    train(DataLoader(pictures, batch_size=32, num_workers=2 if chosen.workers is None else chosen.workers), width=4)


if __name__ == "__main__":
    main()
